"""Workers that die at every step, and workers that wake up too late: the index is never empty, double or wrong."""

from datetime import timedelta

import pytest
from django.conf import settings

from knowledge import indexing
from knowledge.models import DeadBuild, IndexJob, KnowledgeDocument
from tests.factories import Shop
from tests.knowledge.publishing import draft, publish, publish_newest, revise
from tests.knowledge.test_indexing import (
    LONG,
    assert_live,
    assert_nothing_live,
    once,
    reread,
    start_publishing,
    vectors_of,
)
from zhifu import faults, jobs
from zhifu.transactions import database_now

pytestmark = pytest.mark.faults

BEFORE_THE_FLIP = [
    "index.after_claim",
    "index.after_embed",
    "index.after_upsert",
    "index.before_flip",
    "index.in_flip",
]


def expire_lease(job: IndexJob) -> None:
    IndexJob.objects.filter(pk=job.pk).update(lease_until=database_now() - timedelta(seconds=1), hinted_at=None)


def die_at(point: str, job: IndexJob) -> str:
    """Let a worker die at `point`; return the build it was writing."""
    with faults.at(point, faults.kill), pytest.raises(faults.Killed):
        indexing.run_index_job(job.pk)
    return reread(job).build


def assert_only_live_vectors(document: KnowledgeDocument, dead: list[str]) -> None:
    indexing.remove_dead_builds()
    assert [vectors_of(document, build) for build in dead] == [0] * len(dead)
    assert not DeadBuild.objects.filter(document_id=document.pk).exists()


@pytest.mark.parametrize("point", BEFORE_THE_FLIP)
def test_a_worker_killed_while_publishing_a_first_version_is_followed_by_another(shop: Shop, point: str) -> None:
    document = draft(shop, "键盘清洁", LONG)
    job = start_publishing(shop, document)
    dead = die_at(point, job)
    assert_nothing_live(document)
    # Until the lease has run out nobody else takes it.
    indexing.run_index_job(job.pk)
    assert reread(job).attempts == 1
    expire_lease(job)
    assert jobs.sweep() >= 1
    assert reread(job).hinted_at is not None
    indexing.run_index_job(job.pk)
    assert (reread(job).status, job.attempts, job.chunks_done) == ("COMPLETED", 2, job.chunks_total)
    assert_live(document, 1)
    assert_only_live_vectors(document, [dead])
    assert_live(document, 1)


@pytest.mark.parametrize("point", BEFORE_THE_FLIP)
def test_a_worker_killed_while_publishing_a_newer_version_leaves_the_older_answering(shop: Shop, point: str) -> None:
    document = publish(shop, "键盘清洁", "旧的。")
    old_build = document.live_build
    job = start_publishing(shop, revise(shop, document, "键盘清洁", LONG))
    dead = die_at(point, job)
    assert_live(document, 1)
    indexing.remove_dead_builds()
    assert_live(document, 1)
    expire_lease(job)
    indexing.run_index_job(job.pk)
    assert_live(document, 2)
    assert_only_live_vectors(document, [old_build, dead])
    assert_live(document, 2)


def test_a_worker_killed_right_after_the_flip_has_done_its_work(shop: Shop) -> None:
    document = publish(shop, "键盘清洁", "旧的。")
    old_build = document.live_build
    job = start_publishing(shop, revise(shop, document, "键盘清洁", "新的。"))
    die_at("index.after_flip", job)
    assert reread(job).status == "COMPLETED"
    expire_lease(job)
    indexing.run_index_job(job.pk)
    assert reread(job).attempts == 1
    assert_live(document, 2)
    assert_only_live_vectors(document, [old_build])


def test_a_worker_killed_while_removing_a_build_is_followed_by_another(shop: Shop) -> None:
    document = publish(shop, "键盘清洁", "旧的。")
    old_build = document.live_build
    document = publish_newest(shop, revise(shop, document, "键盘清洁", "新的。"))
    with faults.at("index.after_removal", faults.kill), pytest.raises(faults.Killed):
        indexing.remove_dead_builds()
    assert DeadBuild.objects.filter(document_id=document.pk).exists()
    assert_live(document, 2)
    assert_only_live_vectors(document, [old_build])


def test_a_job_that_kills_every_worker_ends_as_failed(shop: Shop) -> None:
    document = publish(shop, "键盘清洁", "旧的。")
    job = start_publishing(shop, revise(shop, document, "键盘清洁", LONG))
    dead = []
    for _attempt in range(settings.MAX_ATTEMPTS):
        dead.append(die_at("index.after_upsert", job))
        expire_lease(job)
    indexing.run_index_job(job.pk)
    assert (reread(job).status, job.error_code, job.open_document) == ("FAILED", "ATTEMPTS_EXHAUSTED", None)
    assert len(set(dead)) == settings.MAX_ATTEMPTS
    assert_live(document, 1)
    assert_only_live_vectors(document, dead)


@pytest.mark.parametrize("point", BEFORE_THE_FLIP[:-1])
def test_an_old_worker_that_wakes_up_after_losing_its_lease_harms_nothing(shop: Shop, point: str) -> None:
    document = publish(shop, "键盘清洁", "旧的。")
    job = start_publishing(shop, revise(shop, document, "键盘清洁", LONG))
    old_builds: list[str] = []

    def another_worker() -> None:
        old_builds.append(reread(job).build)
        expire_lease(job)
        indexing.run_index_job(job.pk)
        assert_live(document, 2)
        indexing.remove_dead_builds()

    with faults.at(point, once(another_worker)):
        indexing.run_index_job(job.pk)
    assert (reread(job).status, job.attempts) == ("COMPLETED", 2)
    assert_live(document, 2)
    assert document.live_build == job.build not in old_builds
    assert_only_live_vectors(document, old_builds)
    assert_live(document, 2)


@pytest.mark.parametrize("point", BEFORE_THE_FLIP[:-1])
def test_an_old_worker_that_wakes_up_while_the_new_one_works_harms_nothing(shop: Shop, point: str) -> None:
    document = draft(shop, "键盘清洁", LONG)
    job = start_publishing(shop, document)
    builds: list[str] = []

    def another_worker_that_dies_too() -> None:
        builds.append(reread(job).build)
        expire_lease(job)
        with faults.at("index.before_flip", faults.kill), pytest.raises(faults.Killed):
            indexing.run_index_job(job.pk)
        builds.append(reread(job).build)

    with faults.at(point, once(another_worker_that_dies_too)):
        indexing.run_index_job(job.pk)
    assert reread(job).status == "RUNNING"
    assert_nothing_live(document)
    expire_lease(job)
    indexing.run_index_job(job.pk)
    assert_live(document, 1)
    assert_only_live_vectors(document, builds)
