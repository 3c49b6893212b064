"""A turn from the message to the committed answer, with the built-in model."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest

from agents.models import AgentRun, InvocationStatus, ToolInvocation
from config.models import UsageRecord, UsageStatus
from conversations import history, turns
from conversations.models import Conversation, ConversationEvent, Message
from knowledge.models import KnowledgeDocument
from tests.conversations.talking import (
    answers,
    assert_promises_kept,
    begin,
    let_lease_expire,
    runs,
    say,
    talk,
    work,
)
from tests.factories import Shop
from tests.knowledge.publishing import publish, publish_newest, revise, revoke
from tests.servers import free_port
from zhifu import errors, faults, sweeping
from zhifu.jobs import JobStatus
from zhifu.transactions import database_now

KEYBOARD = "清洁键盘前请先拔掉电源。用软毛刷清洁键盘缝隙，再用微湿的布擦拭键帽。"
RETURNS = "商品签收后十五天内可以无理由退货，运费由店铺承担。"


def test_a_question_is_answered_from_what_is_published(shop: Shop) -> None:
    document = publish(shop, "键盘怎么清洁", KEYBOARD)
    conversation = begin(shop)
    asked = say(shop, conversation, "键盘怎么清洁？")
    work(conversation)

    question, answer = talk(shop, conversation)
    assert question["run"]["status"] == "COMPLETED"
    assert question["run"]["error_code"] == ""
    assert (answer["role"], answer["sequence"], answer["in_reply_to"]) == ("assistant", 2, question["id"])
    body = answer["answer"]
    assert (body["text"], body["generated_by"]) == (answer["text"], "ai")
    assert (body["degraded"], body["degradation_reason"]) == (False, "")
    source = body["source_refs"][0]
    assert source["source_id"] == str(document.public_id)
    assert (source["version"], source["title"]) == (1, "键盘怎么清洁")
    assert source["quote"] in KEYBOARD
    assert "[1]" in body["text"]
    assert shop.shopper.get(f"/api/v1/knowledge-references/{source['reference_token']}").status_code == 200

    run = shop.shopper.get(f"/openapi/v1/runs/{asked['run']['id']}").json()
    assert (run["status"], run["answer"]["text"]) == ("COMPLETED", body["text"])
    assert ToolInvocation.objects.filter(run__public_id=run["id"], status=InvocationStatus.OK).count() == 1
    assert set(UsageRecord.objects.values_list("status", flat=True)) <= {UsageStatus.SETTLED, UsageStatus.ESTIMATED}
    assert_promises_kept()


def test_a_question_the_material_does_not_answer_gets_an_answer_without_a_source(shop: Shop) -> None:
    conversation = begin(shop)
    say(shop, conversation, "键盘怎么清洁？")
    work(conversation)
    (answer,) = answers(shop, conversation)
    assert answer["source_refs"] == []
    assert_promises_kept()


def test_messages_sent_during_a_run_are_answered_one_by_one_in_order(shop: Shop) -> None:
    publish(shop, "键盘怎么清洁", KEYBOARD)
    conversation = begin(shop)
    say(shop, conversation, "键盘怎么清洁？")

    def say_more() -> None:
        if Message.objects.count() == 1:
            say(shop, conversation, "那鼠标呢？")
            say(shop, conversation, "还有屏幕呢？")

    with faults.at("agents.after_model", say_more):
        work(conversation)
    said = talk(shop, conversation)
    questions = [message for message in said if message["role"] == "customer"]
    replies = [message["in_reply_to"] for message in said if message["role"] == "assistant"]
    assert [question["run"]["status"] for question in questions] == ["COMPLETED"] * 3
    assert replies == [question["id"] for question in questions]
    assert_promises_kept()


def test_a_later_turn_knows_the_earlier_ones_without_their_source_numbers(shop: Shop) -> None:
    publish(shop, "键盘怎么清洁", KEYBOARD)
    conversation = begin(shop)
    say(shop, conversation, "键盘怎么清洁？")
    work(conversation)
    say(shop, conversation, "再说一遍？")
    run = runs(conversation)[-1]
    question, answer, again = history.opening_messages(run)
    assert (question["role"], question["content"]) == ("user", "键盘怎么清洁？")
    assert answer["role"] == "assistant"
    assert "[1]" in Message.objects.get(sequence=2).text
    assert "[1]" not in answer["content"]
    assert (again["role"], again["content"]) == ("user", "再说一遍？")
    assert history.shown_passages([answer])


def publish_another_text(shop: Shop, document: KnowledgeDocument) -> None:
    publish_newest(shop, revise(shop, document, "键盘怎么清洁", RETURNS))


@pytest.mark.parametrize("change", [revoke, publish_another_text])
def test_an_earlier_answer_is_left_out_once_its_material_has_changed(
    shop: Shop, change: Callable[[Shop, KnowledgeDocument], object]
) -> None:
    document = publish(shop, "键盘怎么清洁", KEYBOARD)
    conversation = begin(shop)
    say(shop, conversation, "键盘怎么清洁？")
    work(conversation)
    change(shop, document)
    say(shop, conversation, "再说一遍？")
    question, answer, _again = history.opening_messages(runs(conversation)[-1])
    assert question["content"] == "键盘怎么清洁？"
    assert "软毛刷" not in answer["content"]
    assert history.shown_passages([answer]) == set()


def test_material_an_earlier_answer_rests_on_counts_as_shown(shop: Shop) -> None:
    document = publish(shop, "键盘怎么清洁", KEYBOARD)
    conversation = begin(shop)
    say(shop, conversation, "键盘怎么清洁？")
    work(conversation)
    say(shop, conversation, "¿¿¿")
    with faults.at("agents.before_commit", lambda: revoke_once(shop, document)):
        work(conversation)
    _first, second, third = runs(conversation)
    assert (second.status, second.error_code) == (JobStatus.FAILED, "KNOWLEDGE_CHANGED")
    assert (third.status, third.retry_of_id) == (JobStatus.COMPLETED, second.pk)
    assert "软毛刷" not in str(third.messages)
    assert_promises_kept()


def revoke_once(shop: Shop, document: KnowledgeDocument) -> None:
    document.refresh_from_db()
    if document.live_version is not None:
        revoke(shop, document)


def test_history_is_bounded_and_keeps_the_newest(shop: Shop) -> None:
    conversation = begin(shop)
    for number in range(history.MAX_EXCHANGES + 3):
        say(shop, conversation, f"问题{number}" + "。" * 400)
    work(conversation)
    say(shop, conversation, "最后")
    messages = history.opening_messages(runs(conversation)[-1])
    assert sum(len(message["content"]) for message in messages) <= history.MAX_CHARACTERS + len("最后")
    assert len([m for m in messages if m["role"] == "user"]) <= history.MAX_EXCHANGES + 1
    assert messages[0]["role"] == "user"
    assert f"问题{history.MAX_EXCHANGES + 2}" in messages[-3]["content"]


def test_a_run_cancelled_while_the_model_thinks_leaves_nothing(shop: Shop) -> None:
    publish(shop, "键盘怎么清洁", KEYBOARD)
    conversation = begin(shop)
    run = say(shop, conversation, "键盘怎么清洁？")["run"]["id"]
    say(shop, conversation, "算了，怎么退货？")

    def cancel() -> None:
        shop.shopper.post(f"/openapi/v1/runs/{run}/cancel")

    with faults.at("agents.after_model", cancel):
        turns.run_turn(runs(conversation)[0].pk)
    cancelled, following = runs(conversation)
    assert (cancelled.status, cancelled.answer) == (JobStatus.CANCELLED, None)
    assert following.status == JobStatus.QUEUED
    work(conversation)
    assert len(answers(shop, conversation)) == 1
    assert UsageRecord.objects.filter(subject_id=cancelled.pk).count() == 1
    late = shop.shopper.post(f"/openapi/v1/runs/{following.public_id}/cancel")
    assert (late.status_code, late.json()["run_status"]) == (409, "COMPLETED")
    assert_promises_kept()


@pytest.mark.parametrize("point", ["agents.after_claim", "agents.after_model", "agents.before_commit"])
@pytest.mark.parametrize("ends", ["customer", "store", "tenant"])
def test_a_run_whose_customer_is_no_longer_served_ends_visibly(shop: Shop, point: str, ends: str) -> None:
    publish(shop, "键盘怎么清洁", KEYBOARD)
    conversation = begin(shop)
    say(shop, conversation, "键盘怎么清洁？")
    say(shop, conversation, "在吗？")
    row, column = {
        "customer": (shop.customer, "is_active"),
        "store": (shop.store, "is_open"),
        "tenant": (shop.tenant, "is_active"),
    }[ends]

    def end() -> None:
        type(row).objects.filter(pk=row.pk).update(**{column: False})

    with faults.at(point, end):
        work(conversation)
    assert [(run.status, run.error_code) for run in runs(conversation)] == [(JobStatus.CANCELLED, "SCOPE_ENDED")] * 2
    assert Message.objects.count() == 2
    assert_promises_kept()


def test_a_run_that_outlived_its_attempts_fails_visibly_and_gives_way(shop: Shop, settings: object) -> None:
    conversation = begin(shop)
    say(shop, conversation, "第一")
    say(shop, conversation, "第二")
    run = runs(conversation)[0]
    for _ in range(settings.MAX_ATTEMPTS):
        with faults.at("agents.after_claim", faults.kill), suppress(faults.Killed):
            turns.run_turn(run.pk)
        let_lease_expire(run)
    turns.run_turn(run.pk)
    first, second = runs(conversation)
    assert (first.status, first.error_code) == (JobStatus.FAILED, "ATTEMPTS_EXHAUSTED")
    assert talk(shop, conversation)[0]["run"]["error_message"]
    assert second.status == JobStatus.QUEUED
    assert_promises_kept()


def test_a_model_that_is_down_is_asked_again_later(shop: Shop, settings: object) -> None:
    settings.CHAT_MODEL, settings.CHAT_BASE_URL = "some-model", f"http://127.0.0.1:{free_port()}/v1"
    conversation = begin(shop)
    say(shop, conversation, "你好")
    turns.run_turn(runs(conversation)[0].pk)
    (run,) = runs(conversation)
    assert (run.status, run.error_code) == (JobStatus.QUEUED, "MODEL_UNAVAILABLE")
    assert run.run_after > database_now()
    turns.run_turn(run.pk)
    assert runs(conversation)[0].attempts == 1, "its time has not come"

    settings.CHAT_MODEL = "offline"
    work(conversation)
    (run,) = runs(conversation)
    assert (run.status, run.error_code, run.error_message, run.attempts) == (JobStatus.COMPLETED, "", "", 2)
    assert len(answers(shop, conversation)) == 1
    assert_promises_kept()


def test_a_model_that_stays_down_ends_in_a_visible_failure(shop: Shop, settings: object) -> None:
    settings.CHAT_MODEL, settings.CHAT_BASE_URL = "some-model", f"http://127.0.0.1:{free_port()}/v1"
    conversation = begin(shop)
    say(shop, conversation, "第一")
    say(shop, conversation, "第二")
    work(conversation)
    for run in runs(conversation):
        assert (run.status, run.error_code) == (JobStatus.FAILED, "MODEL_UNAVAILABLE")
        assert run.attempts == UsageRecord.objects.filter(subject_id=run.pk).count() == settings.MAX_ATTEMPTS
    assert all(message["run"]["error_message"] for message in talk(shop, conversation))
    assert_promises_kept()


def test_a_model_that_refuses_is_not_asked_again(shop: Shop, settings: object) -> None:
    settings.CHAT_MODEL, settings.CHAT_BASE_URL = "some-model", ""
    conversation = begin(shop)
    say(shop, conversation, "你好")
    turns.run_turn(runs(conversation)[0].pk)
    (question,) = talk(shop, conversation)
    assert (question["run"]["status"], question["run"]["error_code"]) == ("FAILED", "MODEL_UNAVAILABLE")
    assert "ZHIFU" not in question["run"]["error_message"], "settings are not the customer's business"


def test_something_unforeseen_is_tried_again_and_then_shown(shop: Shop, settings: object) -> None:
    def break_down() -> None:
        raise ZeroDivisionError

    conversation = begin(shop)
    say(shop, conversation, "你好")
    with faults.at("agents.before_commit", break_down):
        turns.run_turn(runs(conversation)[0].pk)
        (run,) = runs(conversation)
        assert (run.status, run.error_code) == (JobStatus.QUEUED, "INTERNAL")
        assert run.run_after > database_now()
        work(conversation)
    (run,) = runs(conversation)
    assert (run.status, run.error_code, run.attempts) == (JobStatus.FAILED, "INTERNAL", settings.MAX_ATTEMPTS)
    assert "ZeroDivision" not in str(talk(shop, conversation))


def test_the_sweeper_starts_a_run_for_a_message_that_was_left_waiting(shop: Shop) -> None:
    conversation = begin(shop)
    row = Conversation.objects.get(public_id=conversation)
    Message.objects.create(
        conversation=row, sequence=1, role="customer", text="有人吗", waiting_since=database_now() - timedelta(hours=1)
    )
    Conversation.objects.filter(pk=row.pk).update(message_sequence=1)
    sweeping.run()
    assert [run.status for run in runs(conversation)] == [JobStatus.QUEUED]
    sweeping.run()
    assert len(work(conversation)) == 1
    assert len(answers(shop, conversation)) == 1
    assert turns.start_waiting() == 0


def test_a_run_that_is_done_or_held_by_another_is_left_alone(shop: Shop) -> None:
    conversation = begin(shop)
    say(shop, conversation, "你好")
    (run,) = runs(conversation)
    with faults.at("agents.before_commit", lambda: turns.run_turn(run.pk)):
        turns.run_turn(run.pk)
    turns.run_turn(run.pk)
    turns.run_turn(run.pk + 1_000_000)
    (run,) = runs(conversation)
    assert (run.status, run.attempts) == (JobStatus.COMPLETED, 1)
    assert Message.objects.count() == 2


def test_an_old_worker_that_wakes_up_after_its_lease_writes_nothing(shop: Shop) -> None:
    conversation = begin(shop)
    say(shop, conversation, "你好")
    (run,) = runs(conversation)

    def another_takes_over() -> None:
        if AgentRun.objects.get(pk=run.pk).attempts == 1:
            let_lease_expire(run)
            turns.run_turn(run.pk)

    with faults.at("agents.before_commit", another_takes_over):
        turns.run_turn(run.pk)
    (run,) = runs(conversation)
    assert (run.status, run.attempts) == (JobStatus.COMPLETED, 2)
    assert Message.objects.filter(role="assistant").count() == 1
    assert ConversationEvent.objects.filter(kind="run.completed").count() == 1
    assert_promises_kept()


def test_a_commit_that_finds_its_run_ended_says_so(shop: Shop) -> None:
    conversation = begin(shop)
    say(shop, conversation, "你好")
    (row,) = runs(conversation)
    run = AgentRun.claim(row.pk)
    AgentRun.objects.filter(pk=run.pk).update(status=JobStatus.CANCELLED, active_conversation=None)
    with pytest.raises(errors.LeaseLost):
        turns._end(run, JobStatus.FAILED, turns.GivenUp())
    assert not ConversationEvent.objects.filter(kind="run.failed").exists()
