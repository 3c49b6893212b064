"""An agents worker dies at every step: each message still ends in exactly one answer or one visible failure."""

import pytest

from agents.models import InvocationStatus, ToolInvocation
from conversations import turns
from conversations.models import ConversationEvent, Message
from tests.conversations.talking import (
    answers,
    assert_promises_kept,
    begin,
    die_at,
    let_lease_expire,
    runs,
    say,
    work,
)
from tests.factories import Shop
from tests.knowledge.publishing import publish, revoke
from zhifu import jobs
from zhifu.jobs import JobStatus

pytestmark = pytest.mark.faults

POINTS = [
    "agents.after_claim",
    "agents.before_model",
    "agents.after_model",
    "agents.before_tool",
    "agents.after_tool",
    "agents.before_commit",
    "agents.in_commit",
]


def _shop_asked(shop: Shop) -> str:
    publish(shop, "键盘怎么清洁", "清洁键盘前请先拔掉电源。用软毛刷清洁键盘缝隙。")
    conversation = begin(shop)
    say(shop, conversation, "键盘怎么清洁？")
    return conversation


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_anywhere_is_followed_by_another(shop: Shop, point: str) -> None:
    conversation = _shop_asked(shop)
    (run,) = runs(conversation)
    die_at(point, run)
    assert Message.objects.count() == 1
    turns.run_turn(run.pk)
    assert runs(conversation)[0].attempts == 1, "the lease of the dead worker still holds"

    let_lease_expire(run)
    assert jobs.sweep() >= 1
    turns.run_turn(run.pk)
    (run,) = runs(conversation)
    assert (run.status, run.attempts) == (JobStatus.COMPLETED, 2)
    assert len(answers(shop, conversation)) == 1
    assert len(answers(shop, conversation)[0]["source_refs"]) >= 1
    assert ConversationEvent.objects.filter(kind="run.completed").count() == 1
    done = ToolInvocation.objects.filter(run=run, tool="search_knowledge", status=InvocationStatus.OK)
    assert done.count() == 1, "a tool that had finished is not run again"
    assert_promises_kept()


def test_a_worker_killed_after_its_commit_is_not_followed(shop: Shop) -> None:
    conversation = _shop_asked(shop)
    (run,) = runs(conversation)
    die_at("agents.after_commit", run)
    jobs.sweep()
    turns.run_turn(run.pk)
    (run,) = runs(conversation)
    assert (run.status, run.attempts) == (JobStatus.COMPLETED, 1)
    assert len(answers(shop, conversation)) == 1
    assert_promises_kept()


@pytest.mark.parametrize("point", ["agents.before_commit", "agents.in_commit"])
def test_what_changed_while_nobody_worked_is_noticed_by_the_one_who_follows(shop: Shop, point: str) -> None:
    document = publish(shop, "键盘怎么清洁", "清洁键盘前请先拔掉电源。用软毛刷清洁键盘缝隙。")
    conversation = begin(shop)
    say(shop, conversation, "键盘怎么清洁？")
    (run,) = runs(conversation)
    die_at(point, run)
    revoke(shop, document)
    let_lease_expire(run)
    turns.run_turn(run.pk)
    assert runs(conversation)[0].error_code == "KNOWLEDGE_CHANGED"
    work(conversation)
    (answer,) = answers(shop, conversation)
    assert answer["source_refs"] == []
    assert_promises_kept()
