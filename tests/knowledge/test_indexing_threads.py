"""Editors and workers at once, in real threads: whatever the order, what is live is whole, and every job settles."""

import random
import threading
from collections.abc import Callable

import pytest
from django.db import connection

from knowledge import indexing, services
from knowledge.models import DeadBuild, IndexedVersion, IndexJob, KnowledgeDocument
from tests.factories import Shop
from tests.knowledge.publishing import content, draft
from tests.knowledge.test_indexing import assert_live, assert_nothing_live, vectors_of
from zhifu.errors import Conflict
from zhifu.jobs import OPEN_STATUSES


def _edit(shop: Shop, document_id: int, chance: random.Random) -> None:
    document = KnowledgeDocument.objects.get(pk=document_id)
    scope, expected = shop.staff_scope, document.version
    action = chance.choice(["revise", "publish", "publish", "revoke"])
    try:
        if action == "revise":
            text = f"第 {chance.random()} 稿。"
            services.revise_document(
                scope=scope, document_id=document.public_id, content=content("退货", text), expected_version=expected
            )
        elif action == "publish":
            services.publish_document(scope=scope, document_id=document.public_id, expected_version=expected)
        else:
            services.revoke_document(scope=scope, document_id=document.public_id, expected_version=expected)
    except Conflict:
        pass  # Somebody else was faster, or there was nothing to publish.


def _work(shop: Shop) -> None:
    for pk in IndexJob.objects.filter(document__tenant=shop.tenant, status="QUEUED").values_list("pk", flat=True):
        indexing.run_index_job(pk)
    indexing.remove_dead_builds()


def _edit_often(shop: Shop, documents: list[KnowledgeDocument], rounds: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # no secret
    for _round in range(rounds):
        _edit(shop, chance.choice(documents).pk, chance)


def _work_until(edited: threading.Event, shop: Shop) -> None:
    while not edited.wait(0.01):
        _work(shop)


def _thread(escaped: list[BaseException], job: Callable[..., None], *arguments: object) -> threading.Thread:
    """Start a thread that runs `job` and leaves in `escaped` what it raises."""

    def run() -> None:
        try:
            job(*arguments)
        except BaseException as error:  # noqa: BLE001  # the test fails with it
            escaped.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def _storm(shop: Shop, documents: list[KnowledgeDocument], rounds: int) -> list[BaseException]:
    """Let four editors and three workers loose; return what escaped them."""
    escaped: list[BaseException] = []
    edited = threading.Event()
    workers = [_thread(escaped, _work_until, edited, shop) for _ in range(3)]
    editors = [_thread(escaped, _edit_often, shop, documents, rounds, seed) for seed in range(4)]
    for thread in editors:
        thread.join(60)
    edited.set()
    for thread in workers:
        thread.join(60)
    return escaped


@pytest.mark.django_db(transaction=True)
def test_after_a_storm_of_edits_and_workers_every_document_is_live_and_whole_or_not_live(shop: Shop) -> None:
    documents = [draft(shop, "退货", "七天。") for _ in range(3)]
    assert _storm(shop, documents, rounds=12) == []
    _work(shop)
    assert not IndexJob.objects.filter(document__tenant=shop.tenant, status__in=OPEN_STATUSES).exists()
    assert not IndexJob.objects.exclude(open_document=None).exists()
    assert not DeadBuild.objects.exists()
    for document in documents:
        document.refresh_from_db()
        if document.live_version is None:
            assert_nothing_live(document)
        else:
            assert_live(document, document.live_version)
        builds = {job.build for job in document.jobs.all()} - {document.live_build}
        assert sum(vectors_of(document, build) for build in builds) == 0
        assert IndexedVersion.objects.filter(document=document).count() == (document.live_version is not None)
