"""A turn and the memory it is written with: what moves meanwhile throws the answer away, what fails does not."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections

from agents.models import AgentRun
from config.models import UsageRecord, UsageStatus
from conversations import turns
from conversations.models import Message
from memory.models import EventKind, JobOutcome, MemoryEvent, MemoryProfile
from tests.conversations import talking
from tests.conversations.talking import assert_promises_kept
from tests.factories import Shop
from tests.knowledge.publishing import publish
from tests.memory import outages, remembering
from tests.memory.outages import OwnStore
from tests.model_server import ModelServer
from tests.model_shapes import Body, calls, has_results, quote, search, wishes
from zhifu import faults
from zhifu.jobs import JobStatus
from zhifu.transactions import database_now

pytestmark = pytest.mark.django_db

QUESTION = "键盘怎么清洁？"
CLEANING = "清洁键盘前请先拔掉电源。用软毛刷清洁键盘缝隙。"
CONCISE = "- response_style: concise"

# Where in a turn something may move: the early checks see it, or the commit does.
POINTS = ["agents.after_model", "agents.after_tool", "agents.before_commit"]


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop with something to say, whose customer likes it short."""
    publish(shop, "键盘清洁", CLEANING)
    remembering.consent(shop)
    remembering.change(shop, response_style="concise")
    return shop


@pytest.fixture
def model_server(model_server: ModelServer) -> ModelServer:
    """A model that searches and quotes, over and over."""
    model_server.say(*[search_then_quote] * 12)
    return model_server


def search_then_quote(request: Body) -> object:
    return quote(request) if has_results(request) else calls(search(request))


def ask(shop: Shop) -> str:
    conversation = talking.begin(shop)
    talking.say(shop, conversation, QUESTION)
    return conversation


def run_of(conversation: str) -> AgentRun:
    (run,) = talking.runs(conversation)
    return run


def once(act: Callable[[], object]) -> Callable[[], None]:
    left = [act]

    def first_time() -> None:
        if left:
            left.pop()()

    return first_time


def withdraw(shop: Shop) -> object:
    return remembering.consent(shop, enabled=False)


def want_details(shop: Shop) -> object:
    return remembering.change(shop, response_style="detailed")


DECISIONS: dict[str, tuple[Callable[[Shop], object], str]] = {
    "clear": (remembering.clear, ""),
    "withdraw": (withdraw, ""),
    "change": (want_details, "- response_style: detailed"),
}
decided = pytest.mark.parametrize(("decide", "line"), DECISIONS.values(), ids=DECISIONS)


def test_every_request_of_a_run_says_how_the_customer_likes_to_be_answered_and_the_run_keeps_none_of_it(
    shop: Shop, model_server: ModelServer
) -> None:
    conversation = ask(shop)
    (run,) = talking.work(conversation)
    assert run.status == JobStatus.COMPLETED
    prompts = remembering.prompts_of(model_server.requests)
    assert len(prompts) == 2
    assert all(CONCISE in prompt for prompt in prompts)
    kept = str(list(AgentRun.objects.values()) + list(Message.objects.values()) + list(MemoryEvent.objects.values()))
    assert "concise" not in kept
    assert_promises_kept()


def assert_asked_afresh(conversation: str, spent: int) -> AgentRun:
    """The first run is thrown away with what it cost on record; return the one that asks again."""
    stale, fresh = talking.runs(conversation)
    assert (stale.status, stale.error_code, stale.answer) == (JobStatus.FAILED, "MEMORY_CHANGED", None)
    assert "memory changed" in stale.error_message
    assert (fresh.retry_of_id, fresh.trigger_id) == (stale.pk, stale.trigger_id)
    usage = UsageRecord.objects.filter(purpose="answer", subject_id=stale.pk)
    assert [(record.status, record.input_tokens) for record in usage] == [(UsageStatus.SETTLED, 11)] * spent
    return fresh


@decided
@pytest.mark.parametrize("point", POINTS)
def test_an_answer_written_with_what_the_customer_has_taken_back_is_thrown_away_and_asked_afresh(
    shop: Shop, model_server: ModelServer, point: str, decide: Callable[[Shop], object], line: str
) -> None:
    conversation = ask(shop)
    with faults.at(point, once(lambda: decide(shop))):
        turns.run_turn(run_of(conversation).pk)
    assert talking.answers(shop, conversation) == []
    fresh = assert_asked_afresh(conversation, spent=2 if point == "agents.before_commit" else 1)

    asked = len(model_server.requests)
    talking.work(conversation)
    fresh.refresh_from_db()
    assert fresh.status == JobStatus.COMPLETED
    prompts = remembering.prompts_of(model_server.requests[asked:])
    assert len(prompts) == 2
    assert all(CONCISE not in prompt and line in prompt for prompt in prompts)
    assert len(talking.answers(shop, conversation)) == 1
    assert_promises_kept()


@pytest.mark.django_db(transaction=True)
@decided
def test_an_answer_that_the_model_is_writing_while_the_customer_decides_is_never_seen(
    shop: Shop, model_server: ModelServer, decide: Callable[[Shop], object], line: str
) -> None:
    conversation = ask(shop)
    run = run_of(conversation)
    model_server.reset()
    model_server.say(search_then_quote)
    thinking = model_server.gate(quote)
    model_server.say(search_then_quote, search_then_quote)
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(_elsewhere, lambda: turns.run_turn(run.pk))
        assert thinking.reached.wait(10)
        decide(shop)
        thinking.release()
        turn.result(20)
    assert CONCISE in remembering.prompts_of(model_server.requests)[-1]
    assert_asked_afresh(conversation, spent=2)
    talking.work(conversation)
    last = remembering.prompts_of(model_server.requests)[-1]
    assert CONCISE not in last
    assert line in last
    assert len(talking.answers(shop, conversation)) == 1
    assert_promises_kept()


def _elsewhere(act: Callable[[], object]) -> None:
    try:
        act()
    finally:
        connections.close_all()


def test_consent_given_during_a_run_counts_from_the_fresh_run_on(shop: Shop, model_server: ModelServer) -> None:
    withdraw(shop)
    conversation = ask(shop)
    with faults.at("agents.before_commit", once(lambda: remembering.consent(shop))):
        talking.work(conversation)
    assert assert_asked_afresh(conversation, spent=2).status == JobStatus.COMPLETED
    assert_promises_kept()


@pytest.mark.parametrize("decide", [remembering.clear, withdraw], ids=["clear", "withdraw"])
def test_what_a_customer_decides_who_does_not_consent_changes_nothing_for_a_run(
    shop: Shop, model_server: ModelServer, decide: Callable[[Shop], object]
) -> None:
    withdraw(shop)
    conversation = ask(shop)
    with faults.at("agents.before_commit", once(lambda: decide(shop))):
        talking.work(conversation)
    assert run_of(conversation).status == JobStatus.COMPLETED
    assert_promises_kept()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("point", POINTS)
def test_an_extraction_that_lands_during_a_run_has_it_asked_afresh_with_the_new_memory(
    shop: Shop, model_server: ModelServer, point: str
) -> None:
    job = remembering.hear(shop, "以后请用英文回复")
    thinking = model_server.wish_gate(wishes(language="en", language_evidence="以后请用英文回复"))
    with ThreadPoolExecutor(1) as pool:
        extraction = pool.submit(_elsewhere, lambda: remembering.work(job))
        assert thinking.reached.wait(10)
        # The run begins after the claim, so that the extraction has not waited for it.
        conversation = ask(shop)
        asked = len(model_server.requests)

        def let_it_land() -> None:
            thinking.release()
            extraction.result(20)

        with faults.at(point, once(let_it_land)):
            turns.run_turn(run_of(conversation).pk)
    job.refresh_from_db()
    assert (job.status, job.outcome) == (JobStatus.COMPLETED, JobOutcome.STORED)
    fresh = assert_asked_afresh(conversation, spent=2 if point == "agents.before_commit" else 1)
    talking.work(conversation)
    fresh.refresh_from_db()
    assert fresh.status == JobStatus.COMPLETED
    before, *_, after = remembering.prompts_of(model_server.requests[asked:])
    assert ("language: en" in before, "language: en" in after) == (False, True)
    assert CONCISE in after
    assert_promises_kept()


def test_a_memory_that_never_stops_changing_ends_in_a_failure_the_customer_sees(
    shop: Shop, model_server: ModelServer
) -> None:
    conversation = ask(shop)
    with faults.at("agents.before_commit", lambda: want_details(shop)):
        talking.work(conversation)
    ended = [(run.status, run.error_code) for run in talking.runs(conversation)]
    assert ended == [(JobStatus.FAILED, "MEMORY_CHANGED")] * (1 + turns.MAX_FRESH_RUNS)
    (question,) = talking.talk(shop, conversation)
    assert question["run"]["error_code"] == "MEMORY_CHANGED"
    assert question["run"]["error_message"]
    assert_promises_kept()


# --- somebody else goes on with the run ---
@decided
@pytest.mark.parametrize("point", ["agents.before_tool", "agents.before_commit", "agents.in_commit"])
def test_who_takes_a_run_over_does_not_go_on_with_steps_of_an_older_memory(
    shop: Shop, model_server: ModelServer, point: str, decide: Callable[[Shop], object], line: str
) -> None:
    conversation = ask(shop)
    talking.die_at(point, run_of(conversation))
    saved = run_of(conversation)
    assert len(saved.messages) > 1
    asked = len(model_server.requests)
    decide(shop)
    talking.let_lease_expire(saved)
    turns.run_turn(saved.pk)
    assert len(model_server.requests) == asked, "it stops before it asks the model anything"
    assert_asked_afresh(conversation, spent=asked)
    talking.work(conversation)
    assert line in remembering.prompts_of(model_server.requests)[-1]
    assert len(talking.answers(shop, conversation)) == 1
    assert_promises_kept()


def test_who_takes_a_run_over_goes_on_when_the_memory_is_the_same(shop: Shop, model_server: ModelServer) -> None:
    conversation = ask(shop)
    talking.die_at("agents.after_tool", run_of(conversation))
    talking.let_lease_expire(run_of(conversation))
    turns.run_turn(run_of(conversation).pk)
    assert run_of(conversation).status == JobStatus.COMPLETED
    assert all(CONCISE in prompt for prompt in remembering.prompts_of(model_server.requests))
    assert_promises_kept()


# --- expired, away, lost ---
def expire(shop: Shop) -> None:
    past = database_now() - timedelta(seconds=1)
    assert MemoryProfile.objects.filter(customer=shop.customer).exclude(value_key="").update(value_expires_at=past) == 1


@pytest.mark.parametrize("point", POINTS)
def test_a_memory_that_expires_during_a_run_is_no_change_of_it(
    shop: Shop, model_server: ModelServer, point: str
) -> None:
    conversation = ask(shop)
    with faults.at(point, once(lambda: expire(shop))):
        talking.work(conversation)
    assert run_of(conversation).status == JobStatus.COMPLETED
    ask_again = ask(shop)
    talking.work(ask_again)
    assert CONCISE not in remembering.prompts_of(model_server.requests)[-1]
    assert remembering.remembered(shop) == {}
    assert run_of(ask_again).warning_code == ""
    assert_promises_kept()


def seen_warnings(shop: Shop, conversation: str) -> set[str]:
    """Return the warnings at both addresses that show a run to the customer."""
    run = shop.shopper.get(f"/openapi/v1/runs/{run_of(conversation).public_id}").json()
    return {run["warning_code"], talking.talk(shop, conversation)[0]["run"]["warning_code"]}


def test_a_run_that_finds_the_store_away_answers_without_memory_and_says_so(
    shop: Shop, model_server: ModelServer
) -> None:
    conversation = ask(shop)
    with outages.away():
        talking.work(conversation)
    (answer,) = talking.answers(shop, conversation)
    assert answer["source_refs"]
    assert seen_warnings(shop, conversation) == {"MEMORY_UNAVAILABLE"}
    assert CONCISE not in str(remembering.prompts_of(model_server.requests))
    assert not MemoryEvent.objects.filter(kind=EventKind.LOST).exists()

    later = ask(shop)
    talking.work(later)
    assert seen_warnings(shop, later) == {""}
    assert CONCISE in remembering.prompts_of(model_server.requests)[-1]
    assert_promises_kept()


def test_a_store_that_hangs_delays_an_answer_by_its_time_out_alone(
    shop: Shop, model_server: ModelServer, own_store: OwnStore
) -> None:
    conversation = ask(shop)
    talking.work(conversation)
    usual = _seconds_of_the_run(conversation)
    conversation = ask(shop)
    with own_store.frozen():
        talking.work(conversation)
    assert run_of(conversation).status == JobStatus.COMPLETED
    assert seen_warnings(shop, conversation) == {"MEMORY_UNAVAILABLE"}
    assert 0.9 < _seconds_of_the_run(conversation) < usual + 3


def _seconds_of_the_run(conversation: str) -> float:
    run = run_of(conversation)
    return float((run.finished_at - run.started_at).total_seconds())


def test_a_run_that_finds_what_is_remembered_lost_answers_and_notes_it_once(
    shop: Shop, model_server: ModelServer
) -> None:
    outages.lose(remembering.profile_of(shop).value_key)
    first, second = ask(shop), ask(shop)
    for conversation in (first, second):
        talking.work(conversation)
        assert len(talking.answers(shop, conversation)) == 1
        assert seen_warnings(shop, conversation) == {"MEMORY_UNAVAILABLE"}
    assert CONCISE not in str(remembering.prompts_of(model_server.requests))
    lost = [event for event in remembering.history(shop) if event["kind"] == "LOST"]
    assert [event["run_id"] for event in lost] == [str(run_of(first).public_id)]
    assert_promises_kept()
