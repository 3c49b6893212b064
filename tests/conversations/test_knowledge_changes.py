"""The published material changes while an answer is being made: nothing stale is ever committed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from config.models import UsageRecord, UsageStatus
from conversations import history, turns
from conversations.models import ConversationEvent, Message
from knowledge.models import KnowledgeDocument
from tests.conversations.talking import answers, assert_promises_kept, begin, runs, say, talk, work
from tests.factories import Shop
from tests.knowledge.publishing import publish, publish_newest, revise, revoke
from tests.model_server import ModelServer
from tests.model_shapes import calls, quote, search
from zhifu import faults
from zhifu.jobs import JobStatus

TITLE = "退货期限"
OLD = "商品签收后七天内可以无理由退货。"
NEW = "商品签收后十五天内可以无理由退货。"
QUESTION = "签收后几天内可以无理由退货？"

AFTER_SHOWN = ["agents.after_tool", "agents.before_commit"]


def publish_a_newer_one(shop: Shop, document: KnowledgeDocument) -> None:
    publish_newest(shop, revise(shop, document, TITLE, NEW))


def once(action: Callable[[], object]) -> Callable[[], None]:
    """Return `action` for a fault point that is passed several times: only the first pass acts."""
    left = [action]

    def act() -> None:
        if left:
            left.pop()()

    return act


@pytest.mark.parametrize("point", AFTER_SHOWN)
@pytest.mark.parametrize("change", [revoke, publish_a_newer_one])
def test_an_answer_from_what_has_changed_is_thrown_away_and_asked_afresh(
    shop: Shop, point: str, change: Callable[[Shop, KnowledgeDocument], object]
) -> None:
    document = publish(shop, TITLE, OLD)
    conversation = begin(shop)
    first_id = say(shop, conversation, QUESTION)["run"]["id"]
    with faults.at(point, once(lambda: change(shop, document))):
        turns.run_turn(runs(conversation)[0].pk)

    stale, fresh = runs(conversation)
    assert (stale.status, stale.error_code, stale.answer) == (JobStatus.FAILED, "KNOWLEDGE_CHANGED", None)
    assert (fresh.status, fresh.retry_of_id, fresh.trigger_id) == (JobStatus.QUEUED, stale.pk, stale.trigger_id)
    assert Message.objects.count() == 1
    # The early check spares the second call; what was spent stays on record.
    assert UsageRecord.objects.filter(subject_id=stale.pk).count() == (1 if point == "agents.after_tool" else 2)
    seen = shop.shopper.get(f"/openapi/v1/runs/{first_id}").json()
    assert (seen["error_code"], seen["retried_by"]) == ("KNOWLEDGE_CHANGED", str(fresh.public_id))
    assert talk(shop, conversation)[0]["run"]["id"] == str(fresh.public_id)

    work(conversation)
    (answer,) = answers(shop, conversation)
    assert "七天" not in answer["text"]
    if change is revoke:
        assert answer["source_refs"] == []
    else:
        assert "十五天" in answer["text"]
        assert answer["source_refs"][0]["version"] == 2
    assert [event.kind for event in ConversationEvent.objects.order_by("sequence")] == [
        "message",
        "run.started",
        "run.failed",
        "run.started",
        "message",
        "run.completed",
    ]
    assert_promises_kept()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", [revoke, publish_a_newer_one])
def test_an_answer_written_while_the_material_changes_is_never_seen(
    shop: Shop, model_server: ModelServer, change: Callable[[Shop, KnowledgeDocument], object]
) -> None:
    document = publish(shop, TITLE, OLD)
    conversation = begin(shop)
    say(shop, conversation, QUESTION)
    (run,) = runs(conversation)
    model_server.say(lambda request: calls(search(request)))
    thinking = model_server.gate(quote)
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(work_elsewhere, run.pk)
        assert thinking.reached.wait(10)
        change(shop, document)
        thinking.release()
        turn.result(20)
    assert "七天" in str(model_server.requests[-1])
    stale, _fresh = runs(conversation)
    assert (stale.status, stale.error_code) == (JobStatus.FAILED, "KNOWLEDGE_CHANGED")
    spent = UsageRecord.objects.filter(subject_id=stale.pk)
    assert [(usage.status, usage.input_tokens) for usage in spent] == [(UsageStatus.SETTLED, 11)] * 2

    model_server.say(lambda request: calls(search(request)), quote)
    work(conversation)
    assert "七天" not in str(model_server.requests[-1])
    (answer,) = answers(shop, conversation)
    assert "七天" not in answer["text"]
    assert bool(answer["source_refs"]) == (change is publish_a_newer_one)
    assert_promises_kept()


def work_elsewhere(run_id: int) -> None:
    """Be a worker in a thread of its own."""
    try:
        turns.run_turn(run_id)
    finally:
        connections.close_all()


@pytest.mark.parametrize("point", AFTER_SHOWN)
def test_a_passage_that_was_shown_and_not_cited_counts_as_much(shop: Shop, point: str) -> None:
    publish(shop, TITLE, OLD)
    other = publish(shop, "退货地址", "无理由退货请寄到杭州仓库，签收后我们会短信通知。")

    undisturbed = begin(shop)
    say(shop, undisturbed, QUESTION)
    (run,) = work(undisturbed)
    shown = {document for document, _version, _build in history.shown_passages(run.messages)}
    assert other.pk in shown
    assert str(other.public_id) not in {ref["source_id"] for ref in answers(shop, undisturbed)[0]["source_refs"]}

    conversation = begin(shop)
    say(shop, conversation, QUESTION)
    with faults.at(point, once(lambda: revoke(shop, other))):
        work(conversation)
    stale, fresh = runs(conversation)
    assert (stale.status, stale.error_code) == (JobStatus.FAILED, "KNOWLEDGE_CHANGED")
    assert fresh.status == JobStatus.COMPLETED
    assert other.pk not in {document for document, _version, _build in history.shown_passages(fresh.messages)}
    assert_promises_kept()


def test_material_that_never_stops_changing_ends_in_a_visible_failure(shop: Shop) -> None:
    document = publish(shop, TITLE, OLD)
    conversation = begin(shop)
    say(shop, conversation, QUESTION)
    say(shop, conversation, "在吗？")

    def edit() -> None:
        if len(runs(conversation)) <= 1 + turns.MAX_FRESH_RUNS:
            publish_a_newer_one(shop, document)

    with faults.at("agents.before_commit", edit):
        work(conversation)
    *asked, following = runs(conversation)
    assert [(run.status, run.error_code) for run in asked] == [(JobStatus.FAILED, "KNOWLEDGE_CHANGED")] * 4
    assert following.status == JobStatus.COMPLETED
    question = talk(shop, conversation)[0]
    assert (question["run"]["status"], question["run"]["error_code"]) == ("FAILED", "KNOWLEDGE_CHANGED")
    assert question["run"]["error_message"]
    assert len(answers(shop, conversation)) == 1
    assert_promises_kept()


def test_a_draft_saved_meanwhile_changes_nothing(shop: Shop) -> None:
    document = publish(shop, TITLE, OLD)
    conversation = begin(shop)
    say(shop, conversation, QUESTION)
    with faults.at("agents.before_commit", once(lambda: revise(shop, document, TITLE, NEW))):
        work(conversation)
    (run,) = runs(conversation)
    assert run.status == JobStatus.COMPLETED
    assert "七天" in answers(shop, conversation)[0]["text"]
    assert_promises_kept()
