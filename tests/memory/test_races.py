"""Memory with many at once, in real threads and real transactions."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from celery import current_app
from django.conf import settings as configured
from django.db import connections

from config.models import TenantQuota, UsagePurpose, UsageRecord, UsageStatus
from conversations import turns
from memory import content, extracting, jobs
from memory.models import JobOutcome, MemoryJob, PendingErasure
from tests.conversations import talking
from tests.conversations.talking import assert_promises_kept
from tests.factories import Shop, make_customer
from tests.memory import hints, remembering
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from tests.processes.system import eventually
from zhifu import faults
from zhifu.jobs import OPEN_STATUSES, JobStatus
from zhifu.transactions import database_now

WISH = "以后请用英文回复"
ENGLISH = wishes(language="en", language_evidence=WISH)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("model_server")]


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop whose customer consents, and a broker that holds nothing yet."""
    remembering.consent(shop)
    for queue in ("memory", "agents", "maintenance"):
        hints.taken(queue)
    return shop


def elsewhere(act: Callable[[], object]) -> object:
    """Act in a thread of one's own."""
    try:
        return act()
    finally:
        connections.close_all()


def at_once(acts: list[Callable[[], object]]) -> list[object]:
    """Let all act in threads that start together, and return what each returned."""
    start = threading.Barrier(len(acts))

    def begin(act: Callable[[], object]) -> object:
        start.wait(10)
        return elsewhere(act)

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(begin, acts))


class Meanwhile:
    """Does something in another thread from within a fault point, where it must wait for the commit that is under
    way; `result` is what came of it afterwards."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._pool = ThreadPoolExecutor(1)
        self._begun: list[Future[object]] = []

    def __call__(self) -> None:
        if self._begun:
            return
        self._begun.append(self._pool.submit(elsewhere, self._act))
        with pytest.raises(TimeoutError):
            self._begun[0].result(0.5)

    @property
    def result(self) -> object:
        (begun,) = self._begun
        self._pool.shutdown()
        return begun.result(10)


def due(shop: Shop, text: str = WISH) -> MemoryJob:
    """Say something that is answered at once; return its job, which may start."""
    return remembering.hear(shop, text)


# --- a job that decides to wait ---
def cancel(shop: Shop, run_id: str) -> None:
    assert shop.shopper.post(f"/openapi/v1/runs/{run_id}/cancel").status_code == 200


@pytest.mark.parametrize("end", ["answered", "cancelled"])
def test_a_run_that_ends_while_its_customers_job_is_about_to_wait_for_it_starts_the_job(shop: Shop, end: str) -> None:
    conversation = talking.begin(shop)
    accepted = talking.say(shop, conversation, WISH)
    job = remembering.job_of(accepted["message"]["id"])
    (run,) = talking.runs(conversation)
    # As after an earlier run of the customer's has ended.
    MemoryJob.objects.update(run_after=database_now(), waits_for="")

    def end_run() -> None:
        if end == "answered":
            turns.run_turn(run.pk)
        else:
            cancel(shop, accepted["run"]["id"])

    ending = Meanwhile(end_run)
    with faults.at("memory.in_claim", ending):
        assert jobs.claim(job.pk) is None
    assert ending.result is None
    job.refresh_from_db()
    assert (job.status, job.waits_for) == (JobStatus.QUEUED, "")
    assert job.run_after <= database_now(), "it is not left to the sweeper"
    assert hints.taken("memory") == [("memory.run_extraction", job.pk)]
    assert jobs.claim(job.pk) is not None


def test_a_run_that_ends_while_a_dead_workers_job_is_about_to_wait_leaves_it_to_the_next_sweep_at_worst(
    shop: Shop,
) -> None:
    job = due(shop)
    assert jobs.claim(job.pk) is not None
    remembering.let_lease_expire(job)
    conversation = talking.begin(shop)
    accepted = talking.say(shop, conversation, "还在问")

    with faults.at("memory.in_claim", lambda: elsewhere_now(lambda: cancel(shop, accepted["run"]["id"]))):
        assert jobs.claim(job.pk) is None
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    assert job.run_after - database_now() <= timedelta(seconds=configured.SWEEP_SECONDS)


def elsewhere_now(act: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(elsewhere, act).result(10)


@pytest.mark.parametrize("_round", range(4))
def test_claims_and_endings_at_once_leave_no_job_that_nobody_looks_at(shop: Shop, _round: int) -> None:
    conversation = talking.begin(shop)
    accepted = talking.say(shop, conversation, WISH)
    job = remembering.job_of(accepted["message"]["id"])
    (run,) = talking.runs(conversation)
    MemoryJob.objects.update(run_after=database_now(), waits_for="")
    at_once([lambda: jobs.claim(job.pk), lambda: jobs.claim(job.pk), lambda: turns.run_turn(run.pk)])
    run.refresh_from_db()
    assert run.status == JobStatus.COMPLETED, "it has ended, whatever came between"
    job.refresh_from_db()
    if job.status == JobStatus.QUEUED:
        assert job.run_after <= database_now(), "it is not left to the sweeper"
        assert jobs.claim(job.pk) is not None
        job.refresh_from_db()
    assert (job.status, job.attempts) == (JobStatus.RUNNING, 1)


# --- claims at once ---
def test_of_eight_workers_who_claim_one_job_at_once_one_wins(shop: Shop) -> None:
    job = due(shop)
    held = [claimed for claimed in at_once([lambda: jobs.claim(job.pk)] * 8) if claimed is not None]
    assert len(held) == 1
    job.refresh_from_db()
    assert (job.status, job.attempts) == (JobStatus.RUNNING, 1)
    assert job.lease_token == held[0].lease_token


def test_of_several_jobs_of_one_customer_claimed_at_once_one_runs_and_the_others_wait_for_it(shop: Shop) -> None:
    queued = [due(shop, f"第{number}句") for number in range(4)]
    held = at_once([lambda job=job: jobs.claim(job.pk) for job in queued])
    assert len([claimed for claimed in held if claimed is not None]) == 1
    states = MemoryJob.objects.values_list("status", "waits_for")
    assert sorted(states) == [(JobStatus.QUEUED, "JOB")] * 3 + [(JobStatus.RUNNING, "")]


def test_no_more_jobs_of_a_tenant_run_at_once_than_it_is_allowed(shop: Shop) -> None:
    TenantQuota.objects.create(tenant=shop.tenant, background_jobs=2)
    queued = [due(customer) for customer in consenting(shop, 6)]
    at_once([lambda job=job: jobs.claim(job.pk) for job in queued])
    states = MemoryJob.objects.values_list("status", "waits_for")
    assert sorted(states) == [(JobStatus.QUEUED, "ALLOWANCE")] * 4 + [(JobStatus.RUNNING, "")] * 2


def consenting(shop: Shop, count: int) -> list[Shop]:
    customers = [replace(shop, customer=make_customer(shop.tenant)) for _ in range(count)]
    for customer in customers:
        remembering.consent(customer)
    return customers


@contextmanager
def working(*queues: str) -> Iterator[None]:
    """Keep one worker per name in `queues`, each in a thread; all they know is what hints say."""
    current_app.loader.import_default_modules()
    stop = threading.Event()

    def be_a_worker(queue: str) -> None:
        while not stop.is_set():
            for task, row in hints.taken(queue):
                current_app.tasks[task].run(row)
            time.sleep(0.01)

    with ThreadPoolExecutor(len(queues)) as pool:
        workers = [pool.submit(elsewhere, partial(be_a_worker, queue)) for queue in queues]
        try:
            yield
        finally:
            stop.set()
    for worker in workers:
        worker.result()


def test_hints_alone_bring_every_message_to_an_answer_and_every_job_to_its_end(shop: Shop) -> None:
    """No sweeper here: what ends must start what waited for it, every time."""
    TenantQuota.objects.create(tenant=shop.tenant, background_jobs=2)

    def talk(customer: Shop) -> None:
        conversations = [talking.begin(customer) for _ in range(2)]
        for number in range(3):
            for conversation in conversations:
                talking.say(customer, conversation, f"第{number}句")

    with working("agents", "agents", "memory", "memory"):
        at_once([partial(talk, customer) for customer in consenting(shop, 4)])
        eventually(lambda: not MemoryJob.objects.filter(status__in=OPEN_STATUSES).exists(), "all jobs end")
    states = MemoryJob.objects.values_list("status", "outcome")
    assert list(states) == [(JobStatus.COMPLETED, JobOutcome.NOTHING)] * 24
    assert_promises_kept()


# --- decisions while the model thinks ---
def withdraw(shop: Shop) -> object:
    return remembering.consent(shop, enabled=False)


def consent_again(shop: Shop) -> object:
    withdraw(shop)
    return remembering.consent(shop)


def detail(shop: Shop) -> object:
    return remembering.change(shop, response_style="detailed")


DECISIONS: dict[str, tuple[Callable[[Shop], object], dict[str, str]]] = {
    "clear": (remembering.clear, {}),
    "withdraw": (withdraw, {}),
    "withdraw and consent again": (consent_again, {}),
    "change": (detail, {"language": "zh", "response_style": "detailed"}),
}


@pytest.mark.parametrize(("decide", "is_left"), DECISIONS.values(), ids=DECISIONS)
def test_what_a_customer_decides_while_the_model_thinks_ends_the_extraction(
    shop: Shop, model_server: ModelServer, decide: Callable[[Shop], object], is_left: dict[str, str]
) -> None:
    remembering.change(shop, language="zh")
    job = due(shop)
    thinking = model_server.wish_gate(ENGLISH)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(elsewhere, lambda: remembering.work(job))
        assert thinking.reached.wait(10)
        decide(shop)
        thinking.release()
        work.result(20)
    job.refresh_from_db()
    assert (job.status, job.error_code) == (JobStatus.CANCELLED, "EPOCH_ENDED")
    assert "withdrawn, cleared or changed" in job.error_message
    (spent,) = UsageRecord.objects.filter(purpose=UsagePurpose.EXTRACTION)
    assert (spent.subject_id, spent.status, spent.input_tokens) == (job.pk, UsageStatus.SETTLED, 11)
    assert remembering.remembered(shop) == is_left
    remembering.sweep()
    assert remembering.keys_of(shop) == {remembering.profile_of(shop).value_key} - {""}
    assert not PendingErasure.objects.exists()
    assert_promises_kept()


def test_a_clear_waits_for_the_extraction_that_has_begun_to_commit_and_is_then_asked_to_look_again(
    shop: Shop, model_server: ModelServer
) -> None:
    model_server.wish(ENGLISH)
    job = due(shop)
    seen = remembering.read(shop)["revision"]
    clearing = Meanwhile(lambda: shop.shopper.post(f"{remembering.MEMORY}/clear", {"expected_revision": seen}))
    with faults.at("memory.in_commit", clearing):
        extracting.run_extraction(job.pk)
    refused = clearing.result
    assert (refused.status_code, refused.json()["code"], refused.json()["revision"]) == (
        409,
        "REVISION_CONFLICT",
        seen + 1,
    )
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED
    assert remembering.remembered(shop) == {"language": "en"}
    remembering.clear(shop)
    remembering.sweep()
    assert remembering.keys_of(shop) == set()
    assert_promises_kept()


def test_a_clear_waits_for_the_answer_that_has_begun_to_commit(shop: Shop) -> None:
    remembering.change(shop, language="en")
    conversation = talking.begin(shop)
    talking.say(shop, conversation, "键盘怎么清洁？")
    clearing = Meanwhile(lambda: remembering.clear(shop))
    with faults.at("agents.in_commit", clearing):
        talking.work(conversation)
    assert clearing.result["communication"] == remembering.NOTHING
    (run,) = talking.runs(conversation)
    assert run.status == JobStatus.COMPLETED
    assert_promises_kept()


@pytest.mark.parametrize("_round", range(3))
def test_sweepers_writers_and_a_customer_at_once_leave_one_key_or_none(shop: Shop, _round: int) -> None:
    def change_often() -> None:
        for number in range(5):
            style = ("concise", "detailed")[number % 2]
            body = {"response_style": style, "expected_revision": remembering.profile_of(shop).revision}
            assert shop.shopper.patch(remembering.MEMORY, body).status_code in {200, 409}

    def sweep_often() -> None:
        for _ in range(10):
            content.erase_pending()
            content.erase_orphans()

    at_once([change_often, change_often, sweep_often, sweep_often])
    kept = remembering.profile_of(shop).value_key
    assert remembering.remembered(shop)["response_style"] in {"concise", "detailed"}
    remembering.let_staging_expire()
    remembering.sweep()
    assert remembering.keys_of(shop) == {kept}
    assert_promises_kept()
