"""Doors to documents, and what counts as live."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction

from knowledge import queries, services
from knowledge.models import Audience, DocumentVersion, KnowledgeDocument
from tests.factories import Shop, make_store
from tests.knowledge.publishing import draft, publish, publish_newest, revise, revoke
from zhifu.errors import NotFound

Shown = tuple[int, int, str]


def shown(document: KnowledgeDocument) -> Shown:
    """What a passage of the live version says about itself."""
    document.refresh_from_db()
    assert document.live_version is not None
    return document.pk, document.live_version, document.live_build


def test_a_foreign_or_unknown_document_version_or_job_is_not_found(shop: Shop, other_shop: Shop) -> None:
    document = publish(other_shop, "退货", "七天。")
    elsewhere = shop.staff_scope.at_store(make_store(shop.tenant).pk)
    mine = publish(shop, "退货", "七天。")
    for scope, found in ((shop.staff_scope, document), (elsewhere, mine)):
        for public_id in (found.public_id, uuid4()):
            with pytest.raises(NotFound):
                queries.get_document(scope, public_id)
            with pytest.raises(NotFound):
                queries.get_version(scope, public_id, 1)
            with pytest.raises(NotFound):
                queries.live_text(scope, public_id, 1)
        with pytest.raises(NotFound):
            queries.get_index_job(scope, found.jobs.get().public_id)
    assert queries.get_document(shop.staff_scope, mine.public_id) == mine


def test_the_newest_version_of_a_revoked_document_is_what_was_written_last(shop: Shop) -> None:
    document = revoke(shop, revise(shop, publish(shop, "退货", "七天。"), "退货", "十五天。"))
    assert document.version == 3
    assert queries.newest_version(document).version == 2
    listed = queries.documents(shop.staff_scope, with_text=True).get(pk=document.pk)
    assert [version.version for version in listed.newest] == [2]


def test_live_text_is_every_passage_in_order_of_the_live_version_only(shop: Shop) -> None:
    document = publish(shop, "退货", "七天内可以退货。" * 200, tags=("售后",))
    passages = queries.live_text(shop.customer_scope, document.public_id, 1)
    assert [passage.position for passage in passages] == [0, 1, 2, 3]
    assert {(passage.version, passage.build, passage.tags) for passage in passages} == {
        (1, document.live_build, ("售后",))
    }
    assert passages[0].updated_at == document.versions.get().live_from
    document = publish_newest(shop, revise(shop, document, "退货", "十五天。"))
    with pytest.raises(NotFound):
        queries.live_text(shop.customer_scope, document.public_id, 1)
    assert [passage.text for passage in queries.live_text(shop.customer_scope, document.public_id, 2)] == ["十五天。"]
    revoke(shop, document)
    with pytest.raises(NotFound):
        queries.live_text(shop.customer_scope, document.public_id, 2)


def test_drafts_and_what_is_for_staff_are_not_live_for_customers(shop: Shop) -> None:
    unpublished = draft(shop, "退货", "七天。")
    internal = publish(shop, "退货", "七天。", audience=Audience.STAFF)
    for document in (unpublished, internal):
        with pytest.raises(NotFound):
            queries.live_text(shop.customer_scope, document.public_id, 1)
    assert queries.live_text(shop.staff_scope, internal.public_id, 1)


def test_validity_is_from_inclusive_and_to_exclusive(shop: Shop) -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    tick = timedelta(microseconds=1)
    version = draft(shop, "退货", "七天。", effective_from=moment, expires_at=moment + 2 * tick).versions.get()

    def valid(now: datetime) -> bool:
        return DocumentVersion.objects.filter(queries.valid_at(now), pk=version.pk).exists()

    assert [valid(moment + offset * tick) for offset in (-1, 0, 1, 2)] == [False, True, True, False]
    always = draft(shop, "退货", "七天。").versions.get()
    assert DocumentVersion.objects.filter(queries.valid_at(moment), pk=always.pk).exists()


def test_an_expired_version_is_live_in_name_only(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert document.live_version == 1
    assert not queries.still_live([shown(document)])
    with pytest.raises(NotFound):
        queries.live_text(shop.staff_scope, document.public_id, 1)


def _newer(shop: Shop, document: KnowledgeDocument) -> None:
    publish_newest(shop, revise(shop, document, "退货", "十五天。"))


def _rebuilt(shop: Shop, document: KnowledgeDocument) -> None:
    KnowledgeDocument.objects.filter(pk=document.pk).update(live_build="another-build")


@pytest.mark.parametrize("check", [queries.still_live, queries.lock_live])
@pytest.mark.parametrize("happens", [revoke, _newer, _rebuilt])
def test_what_was_shown_is_live_until_it_is_revoked_replaced_or_rebuilt(
    shop: Shop, check: Callable[[Any], bool], happens: Callable[[Shop, KnowledgeDocument], Any]
) -> None:
    first, second = publish(shop, "退货", "七天。"), publish(shop, "运费", "包邮。")
    passages = [shown(first), shown(second), shown(first)]
    assert check(passages)
    assert check([])
    happens(shop, second)
    assert not check(passages)
    assert check(passages[:1])


def test_saving_a_draft_does_not_end_what_was_shown(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。")
    passage = shown(document)
    revise(shop, document, "退货", "十五天。")
    assert queries.still_live([passage])


def test_two_versions_of_one_document_are_never_both_live(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。")
    old = shown(document)
    _newer(shop, document)
    assert not queries.still_live([old, shown(document)])


@pytest.mark.django_db(transaction=True)
def test_a_locked_document_cannot_be_revoked_before_the_commit(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。")
    revoked = threading.Event()

    def withdraw() -> None:
        try:
            services.revoke_document(scope=shop.staff_scope, document_id=document.public_id, expected_version=1)
            revoked.set()
        finally:
            connection.close()

    thread = threading.Thread(target=withdraw)
    with transaction.atomic():
        assert queries.lock_live([shown(document)])
        thread.start()
        assert not revoked.wait(0.5)
    thread.join(20)
    assert revoked.is_set()
    document.refresh_from_db()
    assert document.live_version is None
