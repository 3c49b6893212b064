"""An index job, called as a worker calls it: what it makes live, and what becomes of it when the world moves."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.conf import settings as product_settings
from pytest_django.fixtures import Settings

from knowledge import indexing, services, targets, vectors
from knowledge.models import DeadBuild, IndexedVersion, IndexJob, IndexTarget, KnowledgeDocument
from tests.factories import Shop
from tests.fakes import HashingEncoder
from tests.knowledge.publishing import draft, publish, publish_newest, revise, revoke
from zhifu import faults
from zhifu.transactions import database_now

LONG = "键盘要先断电再清洁，不要用水冲洗。" * 200


def start_publishing(shop: Shop, document: KnowledgeDocument) -> IndexJob:
    document.refresh_from_db()
    return services.publish_document(
        scope=shop.staff_scope, document_id=document.public_id, expected_version=document.version
    )


def vectors_of(document: KnowledgeDocument, build: str, collection: str = "faq") -> int:
    return vectors.count_build(
        targets.active_target(collection), tenant_id=document.tenant_id, document_id=document.pk, build=build
    )


def assert_live(document: KnowledgeDocument, version: int) -> None:
    """Check that exactly `version` answers, completely."""
    document.refresh_from_db()
    assert document.live_version == version
    row = document.versions.get(version=version)
    assert (row.status, row.live_until) == ("PUBLISHED", None)
    assert document.versions.filter(status="PUBLISHED").count() == 1
    assert vectors_of(document, document.live_build, row.collection) == row.chunks.count() > 0
    held = IndexedVersion.objects.get(document=document)
    assert (held.version, held.build, held.chunks) == (version, document.live_build, row.chunks.count())


def assert_nothing_live(document: KnowledgeDocument) -> None:
    document.refresh_from_db()
    assert (document.live_version, document.live_build) == (None, "")
    assert not document.versions.filter(status="PUBLISHED").exists()
    assert not IndexedVersion.objects.filter(document=document).exists()


def reread(job: IndexJob) -> IndexJob:
    job.refresh_from_db()
    return job


def once(action: Callable[[], object]) -> Callable[[], None]:
    """Return `action` such that only its first call does anything."""
    todo = [action]

    def run() -> None:
        if todo:
            todo.pop()()

    return run


def due_again(job: IndexJob) -> None:
    """Let the pause before the next attempt be over."""
    IndexJob.objects.filter(pk=job.pk).update(run_after=database_now() - timedelta(seconds=1))


def embedder_fails(*_args: Any) -> Any:
    raise RuntimeError("out of memory")


# --- the straight way ---


def test_a_job_brings_the_version_live_with_all_its_chunks(shop: Shop) -> None:
    document = draft(shop, "键盘清洁", LONG)
    job = start_publishing(shop, document)
    indexing.run_index_job(job.pk)
    assert_live(document, 1)
    assert document.status == "PUBLISHED"
    job = reread(job)
    assert (job.status, job.open_document, job.attempts) == ("COMPLETED", None, 1)
    assert job.chunks_done == job.chunks_total == document.versions.get().chunks.count()
    assert document.live_build == job.build


def test_a_newer_version_replaces_the_older_and_its_vectors_go(shop: Shop) -> None:
    document = publish(shop, "键盘清洁", LONG)
    old_build = document.live_build
    document = publish_newest(shop, revise(shop, document, "键盘清洁", "用压缩空气吹。"))
    assert_live(document, 2)
    old = document.versions.get(version=1)
    assert old.status == "ARCHIVED"
    assert old.live_until == document.versions.get(version=2).live_from
    assert vectors_of(document, old_build) > 0
    assert indexing.remove_dead_builds() >= 1
    assert vectors_of(document, old_build) == 0
    assert_live(document, 2)


def test_a_version_in_another_collection_leaves_nothing_in_the_first(shop: Shop) -> None:
    document = publish(shop, "键盘清洁", "先断电。")
    old_build = document.live_build
    document = publish_newest(shop, revise(shop, document, "键盘清洁", "先断电。", collection="product"))
    indexing.remove_dead_builds()
    assert_live(document, 2)
    assert vectors_of(document, old_build, "faq") == 0


def test_a_job_that_is_done_gone_or_not_due_does_nothing(shop: Shop) -> None:
    document = publish(shop, "键盘清洁", "先断电。")
    job = document.jobs.get()
    build = document.live_build
    indexing.run_index_job(job.pk)
    indexing.run_index_job(0)
    assert_live(document, 1)
    assert (document.live_build, reread(job).attempts) == (build, 1)

    waiting = start_publishing(shop, revise(shop, document, "键盘清洁", "改过。"))
    IndexJob.objects.filter(pk=waiting.pk).update(run_after=database_now() + timedelta(hours=1))
    indexing.run_index_job(waiting.pk)
    assert reread(waiting).status == "QUEUED"
    assert_live(document, 1)


def test_a_future_version_goes_live_when_its_moment_comes(shop: Shop) -> None:
    document = publish(shop, "键盘清洁", "现在的。")
    ahead = database_now() + timedelta(days=1)
    document = publish_newest(shop, revise(shop, document, "键盘清洁", "以后的。", effective_from=ahead))
    assert_live(document, 1)
    job = document.jobs.latest("pk")
    due_again(job)
    indexing.run_index_job(job.pk)
    assert_live(document, 2)


# --- something moved meanwhile ---

POINTS = ["index.after_claim", "index.after_embed", "index.after_upsert", "index.before_flip"]


@pytest.mark.parametrize("point", POINTS)
def test_a_draft_saved_during_indexing_does_not_stop_it(shop: Shop, point: str) -> None:
    document = draft(shop, "键盘清洁", "第一版。")
    job = start_publishing(shop, document)
    with faults.at(point, once(lambda: revise(shop, document, "键盘清洁", "第二版。"))):
        indexing.run_index_job(job.pk)
    assert reread(job).status == "COMPLETED"
    assert_live(document, 1)
    assert (document.version, document.status) == (2, "DRAFT")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("had_live", [False, True])
def test_a_revocation_during_indexing_wins(shop: Shop, point: str, had_live: bool) -> None:
    document = publish(shop, "键盘清洁", "旧的。") if had_live else draft(shop, "键盘清洁", "旧的。")
    document = revise(shop, document, "键盘清洁", "新的。")
    job = start_publishing(shop, document)
    builds: list[str] = [document.live_build]

    def withdraw() -> None:
        builds.append(reread(job).build)
        revoke(shop, document)

    with faults.at(point, once(withdraw)):
        indexing.run_index_job(job.pk)
    assert (reread(job).status, job.error_code) == ("CANCELLED", "REVOKED")
    assert_nothing_live(document)
    indexing.remove_dead_builds()
    assert [vectors_of(document, build) for build in builds] == [0, 0]
    assert not DeadBuild.objects.filter(document_id=document.pk).exists()


@pytest.mark.parametrize("point", POINTS)
def test_revoked_and_published_again_during_indexing_only_the_new_one_goes_live(shop: Shop, point: str) -> None:
    document = draft(shop, "键盘清洁", "旧的。")
    old = start_publishing(shop, document)
    later: list[IndexJob] = []
    builds: list[str] = []

    def withdraw_and_publish() -> None:
        builds.append(reread(old).build)
        revoke(shop, document)
        later.append(start_publishing(shop, revise(shop, document, "键盘清洁", "新的。")))

    with faults.at(point, once(withdraw_and_publish)):
        indexing.run_index_job(old.pk)
    assert_nothing_live(document)
    indexing.run_index_job(later[0].pk)
    indexing.remove_dead_builds()
    assert_live(document, 3)
    assert (reread(old).status, vectors_of(document, builds[0])) == ("CANCELLED", 0)


@pytest.mark.parametrize("point", POINTS)
def test_a_newer_version_published_during_indexing_takes_over(shop: Shop, point: str) -> None:
    document = draft(shop, "键盘清洁", "第一版。")
    old = start_publishing(shop, document)
    later: list[IndexJob] = []

    def publish_newer() -> None:
        later.append(start_publishing(shop, revise(shop, document, "键盘清洁", "第二版。")))

    with faults.at(point, once(publish_newer)):
        indexing.run_index_job(old.pk)
    indexing.run_index_job(later[0].pk)
    indexing.run_index_job(old.pk)
    assert_live(document, 2)
    assert (reread(old).status, old.error_code) == ("CANCELLED", "SUPERSEDED")


def test_an_older_version_never_replaces_a_newer_one(shop: Shop) -> None:
    document = draft(shop, "键盘清洁", "先断电。")
    job = start_publishing(shop, document)

    def something_newer_goes_live() -> None:
        KnowledgeDocument.objects.filter(pk=document.pk).update(live_version=5, live_build="newer")

    with faults.at("index.before_flip", something_newer_goes_live):
        indexing.run_index_job(job.pk)
    document.refresh_from_db()
    assert (document.live_version, document.live_build) == (5, "newer")
    assert (reread(job).status, job.error_code) == ("CANCELLED", "SUPERSEDED")
    indexing.remove_dead_builds()
    assert vectors_of(document, job.build) == 0


def _member_switched_off(shop: Shop) -> None:
    type(shop.member).objects.filter(pk=shop.member.pk).update(is_active=False)


def _user_switched_off(shop: Shop) -> None:
    type(shop.member.user).objects.filter(pk=shop.member.user_id).update(is_active=False)


def _role_lowered(shop: Shop) -> None:
    type(shop.member).objects.filter(pk=shop.member.pk).update(role="advisor")


def _store_closed(shop: Shop) -> None:
    type(shop.store).objects.filter(pk=shop.store.pk).update(is_open=False)


@pytest.mark.parametrize("point", ["index.after_claim", "index.before_flip"])
@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (_member_switched_off, "FORBIDDEN"),
        (_user_switched_off, "FORBIDDEN"),
        (_role_lowered, "FORBIDDEN"),
        (_store_closed, "STORE_CLOSED"),
    ],
)
def test_nothing_goes_live_for_who_may_no_longer_publish(
    shop: Shop, point: str, happens: Callable[[Shop], None], code: str
) -> None:
    document = publish(shop, "键盘清洁", "旧的。")
    job = start_publishing(shop, revise(shop, document, "键盘清洁", "新的。"))
    with faults.at(point, once(lambda: happens(shop))):
        indexing.run_index_job(job.pk)
    assert (reread(job).status, job.error_code, job.open_document) == ("FAILED", code, None)
    assert job.error_message
    assert_live(document, 1)
    # Seen before any work was done, and again at the last moment.
    assert job.chunks_done == (0 if point == "index.after_claim" else job.chunks_total)


def test_a_switch_of_the_index_during_indexing_writes_again_into_the_new_one(shop: Shop) -> None:
    document = draft(shop, "键盘清洁", "先断电。")
    job = start_publishing(shop, document)
    old = targets.active_target("faq")
    builds: list[str] = []

    def switch() -> None:
        builds.append(reread(job).build)
        IndexTarget.objects.filter(pk=old.pk).update(status="RETIRED", active=None)
        IndexTarget.objects.create(
            collection="faq",
            model=old.model,
            revision=old.revision,
            dimension=old.dimension,
            physical_name=targets.active_target("product").physical_name.replace("product", "product_twin"),
            status="ACTIVE",
            active="faq",
        )

    with faults.at("index.before_flip", once(switch)):
        indexing.run_index_job(job.pk)
    assert (reread(job).status, job.error_code) == ("QUEUED", "INDEX_SWITCHED")
    assert_nothing_live(document)
    indexing.run_index_job(job.pk)
    assert_live(document, 1)
    indexing.remove_dead_builds()
    held = vectors.count_build(old, tenant_id=document.tenant_id, document_id=document.pk, build=builds[0])
    assert held == 0
    vectors.drop_collection(targets.active_target("faq"))


# --- something is down ---


def test_while_the_embedder_fails_the_old_version_answers_and_the_job_says_why(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = publish(shop, "键盘清洁", "旧的。")
    job = start_publishing(shop, revise(shop, document, "键盘清洁", "新的。"))
    with monkeypatch.context() as patch:
        patch.setattr(HashingEncoder, "encode", embedder_fails)
        for attempt in range(1, product_settings.MAX_ATTEMPTS + 1):
            assert (reread(job).status, job.attempts) == ("QUEUED", attempt - 1)
            due_again(job)
            indexing.run_index_job(job.pk)
            assert_live(document, 1)
    assert (reread(job).status, job.open_document) == ("FAILED", None)
    assert job.error_code.startswith("EMBEDDING_")
    assert "publish again" in job.error_message
    # And once it is back, publishing again works.
    assert_live(publish_newest(shop, document), 2)


def test_the_pause_between_attempts_grows(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HashingEncoder, "encode", embedder_fails)
    job = start_publishing(shop, draft(shop, "键盘清洁", "先断电。"))
    pauses = []
    for _attempt in range(3):
        due_again(job)
        before = database_now()
        indexing.run_index_job(job.pk)
        pauses.append((reread(job).run_after - before).total_seconds())
    assert [round(pause / 10) for pause in pauses] == [1, 2, 4]


def test_a_vector_of_the_wrong_dimension_fails_the_job_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    document = publish(shop, "键盘清洁", "旧的。")
    job = start_publishing(shop, revise(shop, document, "键盘清洁", "新的。"))
    monkeypatch.setattr(HashingEncoder, "encode", lambda self, texts, kind: np.ones((len(texts), 32), dtype="<f4"))
    indexing.run_index_job(job.pk)
    assert (reread(job).status, job.error_code, job.attempts) == ("FAILED", "EMBEDDING_DIMENSION_MISMATCH", 1)
    assert_live(document, 1)


def test_while_milvus_is_down_the_job_waits_and_finishes_when_it_is_back(shop: Shop, settings: Settings) -> None:
    milvus_url = settings.MILVUS_URL
    document = publish(shop, "键盘清洁", "旧的。")
    old_build = document.live_build
    job = start_publishing(shop, revise(shop, document, "键盘清洁", "新的。"))
    settings.MILVUS_WRITE_TIMEOUT_SECONDS = 0.5
    settings.MILVUS_URL = "http://127.0.0.1:1"
    indexing.run_index_job(job.pk)
    assert (reread(job).status, job.error_code) == ("QUEUED", "MILVUS_UNAVAILABLE")
    document.refresh_from_db()
    assert document.live_build == old_build
    # What is dead stays named until Milvus can be told.
    assert indexing.remove_dead_builds() == 0
    assert DeadBuild.objects.filter(document_id=document.pk).exists()

    settings.MILVUS_WRITE_TIMEOUT_SECONDS = 30.0
    settings.MILVUS_URL = milvus_url
    due_again(job)
    indexing.run_index_job(job.pk)
    assert_live(document, 2)
    assert indexing.remove_dead_builds() >= 2
    assert vectors_of(document, old_build) == 0


def test_a_build_that_milvus_did_not_keep_never_goes_live(shop: Shop) -> None:
    document = publish(shop, "键盘清洁", "旧的。")
    job = start_publishing(shop, revise(shop, document, "键盘清洁", LONG))

    def lose_vectors() -> None:
        vectors.remove_builds(
            targets.active_target("faq"),
            tenant_id=document.tenant_id,
            document_id=document.pk,
            builds=[reread(job).build],
        )

    with faults.at("index.after_upsert", lose_vectors):
        indexing.run_index_job(job.pk)
    assert (reread(job).status, job.error_code) == ("QUEUED", "INDEX_INCOMPLETE")
    assert_live(document, 1)
    due_again(job)
    indexing.run_index_job(job.pk)
    assert_live(document, 2)


def test_dead_builds_are_removed_but_never_one_that_answers(shop: Shop) -> None:
    document = publish(shop, "键盘清洁", "先断电。")
    target = targets.active_target("faq")
    DeadBuild.objects.create(
        target=target, tenant_id=document.tenant_id, document_id=document.pk, build=document.live_build
    )
    indexing.remove_dead_builds()
    assert_live(document, 1)
    assert DeadBuild.objects.filter(build=document.live_build).exists()


def test_another_tenants_vectors_are_not_touched_by_a_removal(shop: Shop, other_shop: Shop) -> None:
    mine, theirs = publish(shop, "键盘清洁", "先断电。"), publish(other_shop, "键盘清洁", "先断电。")
    revoke(shop, mine)
    indexing.remove_dead_builds()
    assert_live(theirs, 1)
