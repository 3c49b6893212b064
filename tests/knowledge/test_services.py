"""Saving, publishing and revoking: what each writes, and what it refuses."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from knowledge import services
from knowledge.models import (
    DeadBuild,
    DocumentVersion,
    IndexJob,
    KnowledgeChunk,
    KnowledgeDocument,
)
from tests.factories import Shop, make_member
from tests.knowledge.publishing import content, draft, publish, publish_newest, revise, revoke
from zhifu import credentials
from zhifu.errors import Conflict, Failure, Forbidden, Invalid, NotFound
from zhifu.models import AuditEvent, Role
from zhifu.scope import Scope

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def _revise(shop: Shop, document: KnowledgeDocument, text: str, expected: int, scope: Scope | None = None) -> Any:
    return services.revise_document(
        scope=scope or shop.staff_scope,
        document_id=document.public_id,
        content=content("退货", text),
        expected_version=expected,
    )


def _publish(shop: Shop, document: KnowledgeDocument) -> IndexJob:
    document.refresh_from_db()
    return services.publish_document(
        scope=shop.staff_scope, document_id=document.public_id, expected_version=document.version
    )


def test_a_new_document_is_a_draft_with_its_chunks_and_nothing_is_live(shop: Shop) -> None:
    document = draft(shop, "退货", "七天内可以退货。" * 100, tags=("售后",), entity_ref="A-100")
    version = document.versions.get()
    assert (document.version, document.status, document.live_version) == (1, "DRAFT", None)
    assert (version.author, version.tags, version.entity_ref) == (shop.member.user, ["售后"], "A-100")
    chunks = list(version.chunks.order_by("position"))
    assert len(chunks) == 2
    assert [chunk.text for chunk in chunks] == [version.source_text[chunk.start : chunk.end] for chunk in chunks]


def test_the_same_idempotency_key_makes_one_document_and_other_content_conflicts(shop: Shop, other_shop: Shop) -> None:
    def create(shop: Shop, text: str) -> DocumentVersion:
        return services.create_document(
            scope=shop.staff_scope, store=shop.store, content=content("退货", text), idempotency_key="k1"
        )

    first, again = create(shop, "七天。"), create(shop, "七天。")
    assert first.pk == again.pk
    with pytest.raises(Conflict) as refusal:
        create(shop, "十五天。")
    assert refusal.value.code == "CONFLICT"
    # Another tenant's same key is another key.
    assert create(other_shop, "十五天。").document.tenant == other_shop.tenant
    assert KnowledgeDocument.objects.filter(tenant=shop.tenant).count() == 1


def test_revising_makes_the_next_draft_and_what_is_live_stays(shop: Shop) -> None:
    document = revise(shop, publish(shop, "退货", "七天。"), "退货", "十五天。")
    assert (document.version, document.status, document.live_version) == (2, "DRAFT", 1)
    assert list(document.versions.order_by("version").values_list("status", flat=True)) == ["PUBLISHED", "DRAFT"]


def test_a_stale_expected_version_conflicts_and_says_the_current_one(shop: Shop) -> None:
    document = draft(shop, "退货", "一")
    _revise(shop, document, "二", 1)
    with pytest.raises(Conflict) as refusal:
        _revise(shop, document, "三", 1)
    assert (refusal.value.code, refusal.value.details) == ("VERSION_CONFLICT", {"current_version": 2})
    assert document.versions.count() == 2


def test_sending_a_revision_again_returns_the_draft_it_made(shop: Shop) -> None:
    document = draft(shop, "退货", "一")
    first, again = _revise(shop, document, "二", 1), _revise(shop, document, "二", 1)
    assert first.pk == again.pk
    assert document.versions.count() == 2


def test_a_retry_by_another_person_or_after_something_happened_conflicts(shop: Shop) -> None:
    document = draft(shop, "退货", "一")
    _revise(shop, document, "二", 1)
    colleague = credentials.member_scope(make_member(shop.tenant)).at_store(shop.store.pk)
    with pytest.raises(Conflict):
        _revise(shop, document, "二", 1, colleague)
    publish_newest(shop, document)
    with pytest.raises(Conflict):
        _revise(shop, document, "二", 1)


def test_publishing_twice_returns_the_open_job(shop: Shop) -> None:
    document = draft(shop, "退货", "七天。")
    assert _publish(shop, document).pk == _publish(shop, document).pk
    assert document.jobs.count() == 1


def test_publishing_what_is_live_returns_the_job_that_did_it(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。")
    job = _publish(shop, document)
    assert (job.status, document.jobs.count()) == ("COMPLETED", 1)


def test_publishing_a_newer_version_cancels_the_job_of_the_older(shop: Shop) -> None:
    document = draft(shop, "退货", "七天。")
    old = _publish(shop, document)
    new = _publish(shop, revise(shop, document, "退货", "十五天。"))
    old.refresh_from_db()
    assert (old.status, old.error_code, old.open_document) == ("CANCELLED", "SUPERSEDED", None)
    assert (new.status, new.document_version.version) == ("QUEUED", 2)


def test_a_revoked_document_has_nothing_to_publish_until_a_new_draft_is_saved(shop: Shop) -> None:
    document = revoke(shop, publish(shop, "退货", "七天。"))
    with pytest.raises(Conflict, match="draft"):
        _publish(shop, document)
    document = publish_newest(shop, revise(shop, document, "退货", "十五天。"))
    assert (document.version, document.live_version, document.status) == (3, 3, "PUBLISHED")


def test_revoking_takes_the_version_out_of_force_and_names_its_build_dead(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。")
    build = document.live_build
    document = revoke(shop, document)
    version = document.versions.get()
    assert (document.version, document.status, document.live_version, document.live_build) == (2, "REVOKED", None, "")
    assert version.status == "REVOKED"
    assert version.live_until is not None
    assert DeadBuild.objects.filter(document_id=document.pk, build=build).exists()


def test_revoking_cancels_the_open_job_and_leaves_the_draft_in_history(shop: Shop) -> None:
    document = draft(shop, "退货", "七天。")
    job = _publish(shop, document)
    document = revoke(shop, document)
    job.refresh_from_db()
    assert (job.status, job.error_code, job.open_document) == ("CANCELLED", "REVOKED", None)
    assert document.versions.get().status == "DRAFT"


def test_revoking_again_changes_nothing(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。")
    for expected in (1, 1, 2):
        answer = services.revoke_document(
            scope=shop.staff_scope, document_id=document.public_id, expected_version=expected
        )
        assert (answer.version, answer.status) == (2, "REVOKED")


def test_an_effective_moment_ahead_waits_in_the_job(shop: Shop) -> None:
    ahead = datetime.now(UTC) + timedelta(days=2)
    document = publish(shop, "退货", "七天。", effective_from=ahead)
    assert document.live_version is None
    assert document.jobs.get().run_after == ahead


BAD_CONTENT: list[dict[str, Any]] = [
    {"title": ""},
    {"title": " \u200b"},
    {"title": "a" * 201},
    {"title": "a\x00"},
    {"title": "\ud800"},
    {"source_text": ""},
    {"source_text": "\n\u3000"},
    {"source_text": "a\x00b"},
    {"source_text": "\udfff"},
    {"source_text": "a" * 100_001},
    {"source_text": ("字" * 498 + "\n\n") * 65},
    {"collection": "secret"},
    {"collection": "fin_faq_collection"},
    {"source_type": "ftp"},
    {"audience": "customer"},
    {"entity_ref": "a" * 129},
    {"entity_ref": " a"},
    {"tags": tuple(str(number) for number in range(21))},
    {"tags": ("a", "a")},
    {"tags": ("",)},
    {"tags": ("a" * 65,)},
    {"tags": ("\ud800",)},
    {"effective_from": NOW, "expires_at": NOW},
    {"effective_from": NOW, "expires_at": NOW - timedelta(seconds=1)},
    {"expires_at": datetime(2030, 1, 1)},  # noqa: DTZ001  # naive on purpose
    {"expires_at": datetime(9999, 12, 31, tzinfo=UTC)},
]


@pytest.mark.parametrize("wrong", BAD_CONTENT)
def test_bad_content_is_refused_and_nothing_is_written(shop: Shop, wrong: dict[str, Any]) -> None:
    values = {"title": "退货", "source_text": "七天。", "collection": "faq"} | wrong
    with pytest.raises(Invalid):
        services.create_document(scope=shop.staff_scope, store=shop.store, content=services.Content(**values))
    assert not KnowledgeDocument.objects.filter(tenant=shop.tenant).exists()


@pytest.mark.parametrize("role", [Role.ADVISOR, Role.RISK_OPERATOR])
def test_who_may_only_read_can_neither_save_nor_publish_nor_revoke(shop: Shop, role: str) -> None:
    document = publish(shop, "退货", "七天。")
    scope = credentials.member_scope(make_member(shop.tenant, role)).at_store(shop.store.pk)
    with pytest.raises(Forbidden):
        services.create_document(scope=scope, store=shop.store, content=content("a", "b"))
    with pytest.raises(Forbidden):
        _revise(shop, document, "二", 1, scope)
    for service in (services.publish_document, services.revoke_document):
        with pytest.raises(Forbidden):
            service(scope=scope, document_id=document.public_id, expected_version=1)
    document.refresh_from_db()
    assert (document.version, document.live_version) == (1, 1)


def test_a_foreign_document_is_not_found_whatever_is_asked(shop: Shop, other_shop: Shop) -> None:
    document = publish(other_shop, "退货", "七天。")
    with pytest.raises(NotFound):
        _revise(shop, document, "二", 1)
    with pytest.raises(NotFound):
        services.create_document(scope=shop.staff_scope, store=other_shop.store, content=content("a", "b"))
    for service in (services.publish_document, services.revoke_document):
        with pytest.raises(NotFound):
            service(scope=shop.staff_scope, document_id=document.public_id, expected_version=1)


def test_every_call_is_in_the_audit_trail_with_its_outcome(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。")
    with pytest.raises(Conflict):
        _revise(shop, document, "二", 9)
    revoke(shop, document)
    events = AuditEvent.objects.filter(tenant_id=shop.tenant.pk, object_id=str(document.public_id)).order_by("pk")
    assert list(events.values_list("action", "outcome", "code")) == [
        ("knowledge.create", "OK", ""),
        ("knowledge.publish", "OK", ""),
        ("knowledge.revise", "REFUSED", "VERSION_CONFLICT"),
        ("knowledge.revoke", "OK", ""),
    ]


def _in_threads(count: int, work: Any) -> list[Any]:
    """Run `work(number)` in `count` threads at once and return what each returned or raised."""
    results: list[Any] = [None] * count
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            barrier.wait(20)
            results[number] = work(number)
        except Failure as failure:
            results[number] = failure
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


@pytest.mark.django_db(transaction=True)
def test_of_eight_people_saving_at_once_one_wins_per_number(shop: Shop) -> None:
    document = draft(shop, "退货", "一")
    for expected in (1, 2):
        results = _in_threads(8, lambda number, at=expected: _revise(shop, document, f"第{number}稿 {at}", at))
        saved = [result for result in results if isinstance(result, DocumentVersion)]
        refused = [result for result in results if isinstance(result, Conflict)]
        assert (len(saved), len(refused)) == (1, 7)
        assert {refusal.code for refusal in refused} == {"VERSION_CONFLICT"}
    assert sorted(document.versions.values_list("version", flat=True)) == [1, 2, 3]
    assert KnowledgeChunk.objects.filter(document_version__document=document).count() == 3


@pytest.mark.django_db(transaction=True)
def test_eight_publications_and_creations_at_once_make_one_of_each(shop: Shop) -> None:
    document = draft(shop, "退货", "一")
    jobs = _in_threads(8, lambda _number: _publish(shop, KnowledgeDocument.objects.get(pk=document.pk)))
    assert {job.pk for job in jobs} == {document.jobs.get().pk}
    made = _in_threads(
        8,
        lambda _number: services.create_document(
            scope=shop.staff_scope, store=shop.store, content=content("新", "文"), idempotency_key="k"
        ),
    )
    assert len({version.pk for version in made}) == 1
    assert KnowledgeDocument.objects.filter(tenant=shop.tenant).count() == 2
