"""The checks of the promises: each finds what contradicts it, and none is alarmed by a system at work."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction

from agents.models import AgentRun
from config.models import UsageRecord
from conversations import promises
from conversations.models import Conversation, ConversationEvent, Message, MessageSource
from knowledge import vectors
from knowledge.models import (
    DocumentVersion,
    IndexedVersion,
    IndexJob,
    IndexTarget,
    KnowledgeChunk,
    KnowledgeDocument,
    VersionTag,
)
from tests.conversations.talking import assert_promises_kept, begin, runs, say, work
from tests.factories import Shop, make_shop, make_store_key
from tests.knowledge.publishing import draft, publish, publish_newest, revise, revoke
from zhifu import jobs
from zhifu.models import StoreKey
from zhifu.transactions import database_now

TEXT = "清洁键盘前请先拔掉电源。用软毛刷清洁键盘缝隙。"
QUESTION = "键盘怎么清洁？"


@dataclass(frozen=True)
class World:
    """A shop with a document, an answer from it and an open run; and a stranger with the same."""

    shop: Shop
    document: KnowledgeDocument
    for_staff: KnowledgeDocument
    run: AgentRun
    open_run: AgentRun
    stranger: Shop
    foreign: KnowledgeDocument
    foreign_run: AgentRun

    @property
    def version(self) -> DocumentVersion:
        return DocumentVersion.objects.get(document=self.document)

    def change(self, row: Any, **values: Any) -> None:
        assert type(row)._base_manager.filter(pk=row.pk).update(**values) == 1

    def change_passages(self, **values: Any) -> None:
        for message in self.run.messages:
            for passage in message.get("passages", ()):
                passage.update(values)
        self.change(self.run, messages=self.run.messages)


def _answered(shop: Shop) -> tuple[KnowledgeDocument, AgentRun]:
    document = publish(shop, "键盘怎么清洁", TEXT)
    conversation = begin(shop)
    say(shop, conversation, QUESTION)
    (run,) = work(conversation)
    return document, run


@pytest.fixture
def world(shop: Shop) -> World:
    document, run = _answered(shop)
    for_staff = publish(shop, "进价", "内部进价是三十元。", audience="STAFF")
    conversation = begin(shop)
    say(shop, conversation, "在吗？")
    (open_run,) = runs(conversation)
    stranger = make_shop()
    foreign, foreign_run = _answered(stranger)
    make_store_key(shop.store)
    assert_promises_kept()
    return World(shop, document, for_staff, run, open_run, stranger, foreign, foreign_run)


def _long_ago() -> Any:
    return database_now() - timedelta(days=1)


def _swap_answers(world: World) -> None:
    ours, theirs = world.run.answer, world.foreign_run.answer
    world.change(world.run, answer=None)
    world.change(world.foreign_run, answer=ours)
    world.change(world.run, answer=theirs)


def _answer_twice(world: World) -> None:
    conversation = world.run.conversation
    answer = Message.objects.create(conversation=conversation, sequence=3, role="assistant", text="又一次")
    world.change(conversation, message_sequence=3)
    values = {name: getattr(world.run, name) for name in ("tenant", "store", "customer", "conversation", "trigger")}
    AgentRun.objects.create(status="COMPLETED", answer=answer, **values)


def _lose_a_message(world: World) -> None:
    conversation = world.run.conversation
    world.change(conversation, message_sequence=3)
    Message.objects.create(
        conversation=conversation, sequence=3, role="customer", text="有人吗", committed_at=_long_ago()
    )


def _reply_beyond_usage(world: World) -> None:
    note = {"role": "user", "content": "请重写", "note": "empty"}
    more = [{"role": "assistant", "content": "…"}, note, world.run.messages[-1]]
    world.change(world.run, messages=[*world.run.messages[:-1], *more])


def _sources(world: World) -> Any:
    return MessageSource.objects.filter(message=world.run.answer)


def _usage(world: World) -> Any:
    return UsageRecord.objects.filter(subject_id=world.run.pk)


def _indexed(world: World) -> Any:
    return IndexedVersion.objects.filter(document=world.document)


# What is done to the rows, and which promise it breaks.
BREACHES: dict[str, tuple[str, Callable[[World], object]]] = {
    "the version had ended": ("P1", lambda w: w.change(w.version, live_until=w.version.live_from)),
    "the version had not begun": ("P1", lambda w: w.change(w.version, live_from=w.run.answer.committed_at + _MINUTE)),
    "it had expired": ("P1", lambda w: w.change(w.version, expires_at=w.run.answer.committed_at - _MINUTE)),
    "it was not in effect yet": (
        "P1",
        lambda w: w.change(w.version, effective_from=w.run.answer.committed_at + _MINUTE),
    ),
    "another version is cited": ("P1", lambda w: _sources(w).update(version=9)),
    "another version was shown": ("P1", lambda w: w.change_passages(version=9)),
    "a version that is not there is live": (
        "P1",
        lambda w: (w.change(w.version, status="DRAFT"), w.change(w.document, live_version=77)),
    ),
    "a draft is live": ("P1", lambda w: w.change(w.version, status="DRAFT")),
    "a published version is not live": ("P1", lambda w: w.change(w.document, live_version=None, live_build="")),
    "a document in a foreign store": ("P2", lambda w: w.change(w.document, store=w.stranger.store)),
    "a conversation with a foreign store": ("P2", lambda w: w.change(w.run.conversation, store=w.stranger.store)),
    "a conversation of a foreign customer": (
        "P2",
        lambda w: w.change(w.run.conversation, customer=w.stranger.customer),
    ),
    "a run of a foreign tenant": ("P2", lambda w: w.change(w.run, tenant=w.stranger.tenant)),
    "a run about a foreign message": ("P2", lambda w: w.change(w.run, trigger=w.foreign_run.trigger)),
    "an answer in a foreign conversation": ("P2", _swap_answers),
    "a run that repeats a foreign one": ("P2", lambda w: w.change(w.run, retry_of=w.foreign_run)),
    "a foreign document is cited": ("P2", lambda w: _sources(w).update(document=w.foreign)),
    "a foreign document was shown": ("P2", lambda w: w.change_passages(document_id=w.foreign.pk)),
    "a document for staff was shown": ("P2", lambda w: w.change_passages(document_id=w.for_staff.pk)),
    "a member of a foreign store too": ("P2", lambda w: w.shop.member.stores.set([w.shop.store, w.stranger.store])),
    "a key of a foreign tenant": ("P2", lambda w: StoreKey.objects.update(tenant=w.stranger.tenant)),
    "a job about a foreign version": (
        "P2",
        lambda w: IndexJob.objects.filter(document=w.document).update(document=w.foreign),
    ),
    "usage of a foreign tenant": ("P2", lambda w: _usage(w).update(tenant=w.stranger.tenant)),
    "a run nobody takes": ("P4", lambda w: w.change(w.open_run, run_after=_long_ago())),
    "a run left by its worker": ("P4", lambda w: w.change(w.open_run, status="RUNNING", lease_until=_long_ago())),
    "a run without an end of its lease": ("P4", lambda w: w.change(w.open_run, status="RUNNING", lease_until=None)),
    "a failure without a reason": ("P4", lambda w: w.change(w.open_run, status="FAILED", active_conversation=None)),
    "an open run without its mark": ("P4", lambda w: w.change(w.open_run, active_conversation=None)),
    "a run that ended and kept its mark": ("P4", lambda w: w.change(w.open_run, status="CANCELLED")),
    "a run with the mark of another": (
        "P4",
        lambda w: w.change(w.open_run, active_conversation=w.run.conversation),
    ),
    "a message without a run": ("P4", _lose_a_message),
    "a message that waits and has a run": ("P4", lambda w: w.change(w.run.trigger, waiting_since=_long_ago())),
    "a message that was deleted": (
        "P4",
        lambda w: (AgentRun.objects.filter(pk=w.open_run.pk).delete(), w.open_run.trigger.delete()),
    ),
    "a message with two answers": ("P4", _answer_twice),
    "an answer of no run": ("P4", lambda w: w.change(w.run, answer=None, status="FAILED", error_code="X")),
    "an answer in the customer's name": ("P4", lambda w: w.change(w.run.answer, role="customer")),
    "a completed run without an answer": ("P4", lambda w: w.change(w.run, answer=None)),
    "an answer of a failed run": ("P4", lambda w: w.change(w.run, status="FAILED", error_code="X")),
    "a call without usage": ("P6", lambda w: _usage(w).first().delete()),
    "a call whose usage is of another purpose": ("P6", lambda w: _usage(w).update(purpose="other")),
    "a call before a note without usage": ("P6", _reply_beyond_usage),
    "usage that stays open": ("P6", lambda w: _usage(w).update(status="OPEN", created_at=_long_ago())),
    "a live version that is not recorded": ("P7", lambda w: _indexed(w).delete()),
    "a live version recorded with another size": ("P7", lambda w: _indexed(w).update(chunks=9)),
    "a live version without vectors": (
        "P7",
        lambda w: (w.change(w.document, live_build="1-0"), _indexed(w).update(build="1-0")),
    ),
    "chunks that are gone": ("P7", lambda w: KnowledgeChunk.objects.filter(document_version=w.version).delete()),
    "a tag that is not filtered by": ("P7", lambda w: w.change(w.version, tags=["新品"])),
    "a tag that is not shown": ("P7", lambda w: VersionTag.objects.create(document_version=w.version, tag="新品")),
    "no index in force": ("P7", lambda w: IndexTarget.objects.update(status="RETIRED", active=None)),
}
_MINUTE = timedelta(minutes=1)


def _broken() -> set[str]:
    return {check.promise for check in promises.CHECKS for _violation in check.find()}


def test_every_breach_is_found(world: World) -> None:
    missed = []
    for name, (promise, commit) in BREACHES.items():
        with transaction.atomic():
            commit(world)
            if promise not in _broken():
                missed.append(name)
            transaction.set_rollback(True)
        world.run.refresh_from_db()
        world.document.refresh_from_db()
    assert missed == []
    assert_promises_kept()


def test_a_long_queue_that_moves_is_no_lost_work(world: World) -> None:
    world.change(world.open_run, run_after=_long_ago(), hinted_at=database_now())
    world.change(world.run, started_at=_long_ago())
    world.change(world.foreign_run, started_at=_long_ago())
    assert _broken() == {"P4"}, "nobody takes anything"
    world.change(world.run, started_at=database_now())
    assert_promises_kept()
    rarest = timedelta(seconds=(jobs._LONGEST_PAUSE + 1) * settings.SWEEP_SECONDS)
    world.change(world.open_run, hinted_at=database_now() - rarest)
    assert_promises_kept()
    world.change(world.open_run, hinted_at=_long_ago())
    assert _broken() == {"P4"}, "the sweeper has forgotten it"


@pytest.mark.parametrize("change", ["publish", "revoke"])
def test_what_goes_out_of_force_while_it_is_counted_is_not_missing(
    shop: Shop, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = publish(shop, "退货", "七天。")
    count, build, changed = vectors.count_build, document.live_build, []

    def change_then_count(*args: Any, **kwargs: Any) -> int:
        if not changed:
            changed.append(True)
            if change == "revoke":
                revoke(shop, document)
            else:
                publish_newest(shop, revise(shop, document, "退货", "十五天。"))
            vectors.remove_builds(args[0], tenant_id=document.tenant_id, document_id=document.pk, builds=[build])
        return count(*args, **kwargs)

    monkeypatch.setattr(vectors, "count_build", change_then_count)
    assert list(promises.live_versions_missing_in_the_index()) == []
    assert changed


def test_a_call_made_while_usage_is_counted_is_not_missing(shop: Shop) -> None:
    answered = []

    def answer_meanwhile(execute: Any, sql: str, *rest: Any) -> Any:
        result = execute(sql, *rest)
        if "config_usagerecord" in sql and not answered:
            answered.append(True)
            _answered(shop)
        return result

    with connection.execute_wrapper(answer_meanwhile):
        assert list(promises.model_calls_without_usage()) == []
    assert answered
    assert UsageRecord.objects.exists()


def test_a_draft_an_event_or_an_idle_conversation_breaks_nothing(shop: Shop) -> None:
    draft(shop, "退货", "七天。")
    begin(shop)
    assert Conversation.objects.exists()
    assert not ConversationEvent.objects.exists()
    assert_promises_kept()
