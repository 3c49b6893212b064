"""Many at once: one lock per conversation keeps order, and nothing is lost when the broker is."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from celery import Celery
from django.db import connections

from agents.models import AgentRun
from conversations import history, turns
from conversations.models import ConversationEvent, Message
from tests.conversations.talking import CONVERSATIONS, answers, assert_promises_kept, begin, runs, say, talk, work
from tests.factories import Shop
from tests.knowledge.publishing import publish, revoke
from tests.servers import free_port
from zhifu import faults, jobs
from zhifu.celery import app as zhifu_app
from zhifu.jobs import OPEN_STATUSES, JobStatus


def _at_once(count: int, act: Callable[[int], object]) -> list[object]:
    """Run `act` in `count` threads that start together, and return what each returned."""
    start = threading.Barrier(count)

    def run(number: int) -> object:
        try:
            start.wait(10)
            return act(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def _be_a_worker(stop: threading.Event) -> None:
    try:
        while not stop.is_set() or AgentRun.objects.filter(status__in=OPEN_STATUSES).exists():
            for pk in AgentRun.objects.filter(status=JobStatus.QUEUED).values_list("pk", flat=True):
                turns.run_turn(pk)
            time.sleep(0.01)
    finally:
        connections.close_all()


@pytest.mark.django_db(transaction=True)
def test_sixteen_threads_post_to_one_conversation_while_two_workers_answer(shop: Shop) -> None:
    conversation = begin(shop)
    address = f"{CONVERSATIONS}/{conversation}/messages"
    stop = threading.Event()
    workers = [threading.Thread(target=_be_a_worker, args=(stop,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        statuses = _at_once(16, lambda number: shop.shopper.post(address, {"text": f"第{number}"}).status_code)
    finally:
        stop.set()
        for worker in workers:
            worker.join(60)
    assert statuses == [202] * 16
    said = talk(shop, conversation)
    assert [message["sequence"] for message in said] == list(range(1, 33))
    questions = [message["id"] for message in said if message["role"] == "customer"]
    assert [message["in_reply_to"] for message in said if message["role"] == "assistant"] == questions
    assert {run.status for run in runs(conversation)} == {JobStatus.COMPLETED}
    assert [run.trigger.sequence for run in runs(conversation)] == sorted(
        Message.objects.filter(role="customer").values_list("sequence", flat=True)
    )
    events = list(ConversationEvent.objects.order_by("sequence").values_list("sequence", flat=True))
    assert events == list(range(1, len(events) + 1))
    assert_promises_kept()


@pytest.mark.django_db(transaction=True)
def test_the_same_client_message_id_from_eight_threads_is_one_message(shop: Shop) -> None:
    conversation = begin(shop)
    address = f"{CONVERSATIONS}/{conversation}/messages"
    for number in range(1, 5):
        body = {"text": "你好", "client_message_id": f"id-{number}"}
        accepted = _at_once(8, lambda _, body=body: shop.shopper.post(address, body).json()["message"])
        assert {message["sequence"] for message in accepted} == {number}
    assert Message.objects.count() == 4
    assert len(runs(conversation)) == 1


@pytest.mark.django_db(transaction=True)
def test_cancelling_and_answering_at_once_settles_the_run_one_way(shop: Shop) -> None:
    for _ in range(4):
        conversation = begin(shop)
        run_id = say(shop, conversation, "你好")["run"]["id"]
        (run,) = runs(conversation)
        cancelled, _ = _at_once(
            2,
            lambda number, run=run, run_id=run_id: (
                turns.run_turn(run.pk) if number else shop.shopper.post(f"/openapi/v1/runs/{run_id}/cancel").status_code
            ),
        )
        (run,) = runs(conversation)
        assert (run.status, len(answers(shop, conversation)), cancelled) in [
            (JobStatus.COMPLETED, 1, 409),
            (JobStatus.CANCELLED, 0, 200),
        ]
    assert_promises_kept()


@pytest.mark.django_db(transaction=True)
def test_a_revocation_waits_for_the_commit_that_has_begun(shop: Shop) -> None:
    publish(shop, "退货期限", "商品签收后七天内可以无理由退货。")
    document = publish(shop, "退货地址", "无理由退货请寄到杭州仓库，签收后我们会短信通知。")
    conversation = begin(shop)
    say(shop, conversation, "签收后几天内可以无理由退货？")
    (run,) = runs(conversation)
    revoking: list[Future[object]] = []

    def revoke_elsewhere() -> None:
        try:
            revoke(shop, document)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:

        def start_revoking() -> None:
            revoking.append(pool.submit(revoke_elsewhere))
            with pytest.raises(TimeoutError):
                revoking[0].result(0.5)

        with faults.at("agents.in_commit", start_revoking):
            turns.run_turn(run.pk)
        revoking[0].result(10)
    (run,) = runs(conversation)
    assert run.status == JobStatus.COMPLETED
    assert document.pk in {shown for shown, _version, _build in history.shown_passages(run.messages)}
    # Not cited, so that no foreign key of the answer holds the revocation up.
    assert str(document.public_id) not in {ref["source_id"] for ref in answers(shop, conversation)[0]["source_refs"]}
    document.refresh_from_db()
    assert document.live_version is None
    assert_promises_kept()


@pytest.fixture
def broker_down(settings: object) -> Iterator[None]:
    """The product's Celery application, with its broker at an address where nothing listens."""
    settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{free_port()}"
    nowhere = Celery("zhifu", set_as_current=False)
    nowhere.config_from_object("django.conf:settings", namespace="CELERY")
    nowhere.set_current()
    yield
    nowhere.close()
    zhifu_app.set_current()


@pytest.mark.django_db(transaction=True)
def test_a_message_is_accepted_while_the_broker_is_down(
    shop: Shop, broker_down: None, caplog: pytest.LogCaptureFixture
) -> None:
    conversation = begin(shop)
    started = time.monotonic()
    say(shop, conversation, "有人吗？")
    assert time.monotonic() - started < 5
    assert "message not sent" in caplog.text
    zhifu_app.set_current()
    caplog.clear()
    assert jobs.sweep() == 1
    assert "message not sent" not in caplog.text
    work(conversation)
    assert len(answers(shop, conversation)) == 1
    assert_promises_kept()
