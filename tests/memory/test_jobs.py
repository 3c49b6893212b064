"""When a memory job may start, what it waits for, who starts it then, and how it ends."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings as configured
from django.db import IntegrityError, transaction
from pytest_django.fixtures import Settings

from agents.models import AgentRun
from config.models import TenantQuota, UsagePurpose, UsageRecord
from conversations import turns
from memory import extracting, jobs
from memory.models import JobOutcome, MemoryEvent, MemoryJob, PendingErasure
from tests.conversations import talking
from tests.conversations.talking import assert_promises_kept
from tests.factories import Shop, make_customer, make_shop
from tests.memory import hints, remembering
from tests.memory.hints import Capture
from tests.model_server import ModelServer
from tests.model_shapes import refusal, wishes
from tests.servers import free_port
from zhifu import faults, sweeping
from zhifu import jobs as leased
from zhifu.errors import LeaseLost, Unavailable
from zhifu.jobs import JobStatus
from zhifu.models import Customer, Store, Tenant
from zhifu.transactions import database_now

WISH = "以后请用英文回复"
ENGLISH = wishes(language="en", language_evidence=WISH)
CHINESE = wishes(language="zh", language_evidence="以后还是用中文回复")
NO_LANGUAGE = wishes(language="withdrawn", language_evidence="不用英文了")

pytestmark = pytest.mark.usefixtures("model_server")


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop whose customer consents."""
    remembering.consent(shop)
    return shop


def colleague(shop: Shop) -> Shop:
    """Return the same shop with another customer, who consents."""
    other = replace(shop, customer=make_customer(shop.tenant))
    remembering.consent(other)
    return other


def allow(shop: Shop, background_jobs: int) -> None:
    TenantQuota.objects.update_or_create(tenant=shop.tenant, defaults={"background_jobs": background_jobs})


def now_due(job: MemoryJob) -> MemoryJob:
    """Let the time pass that a job waits before it is looked at again."""
    MemoryJob.objects.filter(pk=job.pk).update(run_after=database_now(), hinted_at=None)
    return fresh(job)


def fresh(job: MemoryJob) -> MemoryJob:
    return MemoryJob.objects.get(pk=job.pk)


def claimed(job: MemoryJob) -> MemoryJob:
    """Be the worker that gets the hint of a job which may start."""
    held = jobs.claim(now_due(job).pk)
    assert held is not None
    assert (held.status, held.waits_for) == (JobStatus.RUNNING, "")
    return held


def let_wait(job: MemoryJob, what: str) -> MemoryJob:
    """Be the worker that gets the hint of a job which has to wait."""
    assert jobs.claim(now_due(job).pk) is None
    waiting = fresh(job)
    assert (waiting.status, waiting.waits_for) == (JobStatus.QUEUED, what)
    assert waiting.attempts == job.attempts, "having to wait is no attempt"
    assert timedelta() < waiting.run_after - database_now() <= timedelta(seconds=configured.SWEEP_SECONDS)
    return waiting


def is_due(job: MemoryJob) -> bool:
    row = fresh(job)
    return row.status == JobStatus.QUEUED and row.run_after <= database_now()


def calls_for(job: MemoryJob) -> int:
    return UsageRecord.objects.filter(purpose=UsagePurpose.EXTRACTION, subject_id=job.pk).count()


# --- waiting for the run ---
def _answered(conversation: str) -> None:
    talking.work(conversation)


def _failed(conversation: str) -> None:
    (run,) = talking.runs(conversation)
    type(run).objects.filter(pk=run.pk).update(attempts=configured.MAX_ATTEMPTS)
    turns.run_turn(run.pk)


def _out_of_scope(conversation: str) -> None:
    (run,) = talking.runs(conversation)
    Store.objects.filter(pk=run.store_id).update(is_open=False)
    talking.work(conversation)


@pytest.mark.parametrize(
    ("end", "status"),
    [(_answered, JobStatus.COMPLETED), (_failed, JobStatus.FAILED), (_out_of_scope, JobStatus.CANCELLED)],
)
def test_a_job_waits_for_the_run_that_answers_its_message_and_starts_when_it_ends_in_whatever_way(
    shop: Shop, django_capture_on_commit_callbacks: Capture, end: Callable[[str], None], status: JobStatus
) -> None:
    conversation = talking.begin(shop)
    with hints.sent(django_capture_on_commit_callbacks) as sent:
        job = remembering.job_of(talking.say(shop, conversation, WISH)["message"]["id"])
    assert (sent, job.waits_for) == ([], "RUN")
    assert jobs.claim(job.pk) is None, "not before it is due"
    assert let_wait(job, "RUN").run_after > database_now()

    with hints.sent(django_capture_on_commit_callbacks) as sent:
        end(conversation)
    assert [run.status for run in talking.runs(conversation)] == [status]
    assert sent == [job.pk]
    assert is_due(job)
    claimed(job)


def test_a_job_starts_when_its_run_is_cancelled_by_the_customer(
    shop: Shop, django_capture_on_commit_callbacks: Capture
) -> None:
    conversation = talking.begin(shop)
    accepted = talking.say(shop, conversation, WISH)
    job = remembering.job_of(accepted["message"]["id"])
    with hints.sent(django_capture_on_commit_callbacks) as sent:
        assert shop.shopper.post(f"/openapi/v1/runs/{accepted['run']['id']}/cancel").status_code == 200
    assert sent == [job.pk]
    assert remembering.work(job).status == JobStatus.COMPLETED
    assert_promises_kept()


def test_a_job_waits_for_a_run_of_any_conversation_of_the_customer_and_of_no_other_customer(
    shop: Shop, django_capture_on_commit_callbacks: Capture
) -> None:
    other = colleague(shop)
    job, others = remembering.hear(shop, WISH), remembering.hear(other, WISH)
    with remembering.active_run(shop) as run:
        let_wait(job, "RUN")
        claimed(others)
    (run,) = talking.runs(str(run.conversation.public_id))
    assert run.status == JobStatus.COMPLETED
    assert is_due(job)
    claimed(job)


def test_messages_that_wait_for_their_turn_are_read_after_the_last_of_them_is_answered(
    shop: Shop, model_server: ModelServer
) -> None:
    conversation = talking.begin(shop)
    accepted = [talking.say(shop, conversation, text) for text in (WISH, "还在吗？", "以后还是用中文回复")]
    first, second, third = (remembering.job_of(each["message"]["id"]) for each in accepted)
    turns.run_turn(talking.runs(conversation)[0].pk)
    for job in (first, second, third):
        let_wait(job, "RUN")
    talking.work(conversation)
    model_server.wish(ENGLISH, wishes(), CHINESE)
    assert [remembering.work(job).outcome for job in (first, second, third)] == ["STORED", "NOTHING", "STORED"]
    assert remembering.remembered(shop) == {"language": "zh"}
    assert_promises_kept()


def test_a_job_put_back_for_a_while_keeps_its_time_when_a_run_ends(
    shop: Shop, django_capture_on_commit_callbacks: Capture
) -> None:
    job = claimed(remembering.hear(shop, WISH))
    jobs.put_back(job, Unavailable("down", code="MODEL_UNAVAILABLE"), 60)
    with hints.sent(django_capture_on_commit_callbacks) as sent, remembering.active_run(shop):
        pass
    assert job.pk not in sent
    assert fresh(job).run_after - database_now() > timedelta(seconds=50)


# --- waiting for the customer's other job ---
ENDINGS: dict[str, Callable[[MemoryJob], None]] = {
    "completed": lambda job: jobs.finish(job, JobStatus.COMPLETED, outcome=JobOutcome.NOTHING),
    "failed": lambda job: jobs.finish(job, JobStatus.FAILED, code="ATTEMPTS_EXHAUSTED"),
    "cancelled": lambda job: jobs.finish(job, JobStatus.CANCELLED, code="EPOCH_ENDED"),
    "put back": lambda job: jobs.put_back(job, Unavailable("down"), 60),
}


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_a_job_waits_for_the_customers_other_job_and_starts_when_that_ends_in_whatever_way(
    shop: Shop, django_capture_on_commit_callbacks: Capture, end: Callable[[MemoryJob], None]
) -> None:
    first, second, third = (remembering.hear(shop, text) for text in (WISH, "你好", "再见"))
    running = claimed(first)
    let_wait(second, "JOB")
    let_wait(third, "JOB")
    with hints.sent(django_capture_on_commit_callbacks) as sent:
        end(running)
    assert sent == [second.pk], "one at a time, the oldest first"
    assert is_due(second)
    assert not is_due(third)
    running = claimed(second)
    with hints.sent(django_capture_on_commit_callbacks) as sent:
        end(running)
    assert sent == [third.pk]
    claimed(third)


def test_a_job_cancelled_before_it_starts_lets_the_one_behind_it_start(
    shop: Shop, django_capture_on_commit_callbacks: Capture
) -> None:
    dead, old, waiting = (remembering.hear(shop, text) for text in (WISH, "你好", "再见"))
    claimed(dead)
    for job in (old, waiting):
        let_wait(job, "JOB")
    remembering.let_lease_expire(dead)
    remembering.clear(shop)
    with hints.sent(django_capture_on_commit_callbacks) as sent:
        assert jobs.claim(dead.pk) is None
    assert fresh(dead).status == JobStatus.CANCELLED
    assert sent == [old.pk]
    with hints.sent(django_capture_on_commit_callbacks) as sent:
        assert jobs.claim(old.pk) is None
    assert (fresh(old).status, fresh(old).error_code) == (JobStatus.CANCELLED, "EPOCH_ENDED")
    assert sent == [waiting.pk]
    assert remembering.work(waiting).status == JobStatus.CANCELLED
    assert_promises_kept()


def test_two_running_jobs_of_one_customer_are_refused_by_the_database(shop: Shop) -> None:
    first, second = remembering.hear(shop, WISH), remembering.hear(shop, "你好")
    assert claimed(first).running_customer_id == shop.customer.pk
    with pytest.raises(IntegrityError), transaction.atomic():
        MemoryJob.objects.filter(pk=second.pk).update(status=JobStatus.RUNNING, running_customer=shop.customer)
    other = colleague(shop)
    claimed(remembering.hear(other, WISH))


# --- waiting for the tenant's allowance ---
def test_a_job_waits_for_the_tenants_allowance_and_starts_when_another_customers_job_ends(
    shop: Shop, django_capture_on_commit_callbacks: Capture
) -> None:
    allow(shop, 2)
    first, second, third, fourth = (remembering.hear(colleague(shop), WISH) for _ in range(4))
    elsewhere = make_shop()
    remembering.consent(elsewhere)
    running = [claimed(first), claimed(second)]
    let_wait(third, "ALLOWANCE")
    let_wait(fourth, "ALLOWANCE")
    claimed(remembering.hear(elsewhere, WISH))
    for ended, next_one in zip(running, (third, fourth), strict=True):
        with hints.sent(django_capture_on_commit_callbacks) as sent:
            jobs.finish(ended, JobStatus.COMPLETED, outcome=JobOutcome.NOTHING)
        assert sent == [next_one.pk]
        assert is_due(next_one)
        claimed(next_one)


@pytest.mark.parametrize("obstacle", ["RUN", "JOB", "cancelled"])
def test_a_freed_allowance_that_its_job_cannot_use_goes_to_the_next_one(
    shop: Shop, django_capture_on_commit_callbacks: Capture, obstacle: str
) -> None:
    allow(shop, 2)
    hindered, last = colleague(shop), colleague(shop)
    others = [remembering.hear(colleague(shop), WISH) for _ in range(2)]
    before, job, next_one = (remembering.hear(one, WISH) for one in (hindered, hindered, last))
    running = [claimed(other) for other in others]
    for waiting in (job, next_one):
        let_wait(waiting, "ALLOWANCE")
    allow(shop, 3)
    if obstacle == "JOB":
        claimed(before)
    if obstacle == "cancelled":
        remembering.clear(hindered)
    if obstacle == "RUN":
        conversation = talking.begin(hindered)
        talking.say(hindered, conversation, "在吗？")

    with hints.sent(django_capture_on_commit_callbacks) as sent:
        jobs.finish(running[0], JobStatus.COMPLETED, outcome=JobOutcome.NOTHING)
    assert sent == [job.pk]
    with hints.sent(django_capture_on_commit_callbacks) as sent:
        assert jobs.claim(job.pk) is None
    assert next_one.pk in sent
    assert is_due(next_one)
    claimed(next_one)


def test_an_allowance_that_is_raised_is_noticed_by_the_sweeper(shop: Shop) -> None:
    allow(shop, 0)
    job = remembering.hear(shop, WISH)
    let_wait(job, "ALLOWANCE")
    allow(shop, 1)
    claimed(job)


# --- the sweeper ---
@pytest.mark.parametrize("obstacle", ["RUN", "JOB", "ALLOWANCE"])
def test_the_sweeper_looks_at_a_waiting_job_again_when_what_it_waited_for_went_unnoticed(
    shop: Shop, django_capture_on_commit_callbacks: Capture, obstacle: str
) -> None:
    allow(shop, 1)
    job = remembering.hear(shop, WISH)
    blocking = remembering.hear(shop if obstacle == "JOB" else colleague(shop), "你好")
    conversation = talking.begin(shop)
    if obstacle == "RUN":
        talking.say(shop, conversation, "还在问")
    else:
        claimed(blocking)
    let_wait(job, obstacle)
    # Whatever ended it, ended it without a word.
    AgentRun.objects.update(active_conversation=None, status=JobStatus.CANCELLED)
    MemoryJob.objects.filter(pk=blocking.pk).update(status=JobStatus.CANCELLED, running_customer=None)

    with hints.sent(django_capture_on_commit_callbacks) as sent:
        sweeping.run()
    assert job.pk not in sent, "it was looked at a moment ago"
    MemoryJob.objects.filter(pk=job.pk).update(run_after=database_now() - timedelta(seconds=1))
    with hints.sent(django_capture_on_commit_callbacks) as sent:
        sweeping.run()
    assert job.pk in sent
    held = jobs.claim(job.pk)
    assert held is not None


def test_a_job_whose_hint_was_lost_is_sent_by_the_sweeper(
    shop: Shop, django_capture_on_commit_callbacks: Capture
) -> None:
    job = remembering.hear(shop, WISH)
    with hints.sent(django_capture_on_commit_callbacks) as sent:
        assert leased.sweep() >= 1
    assert sent == [job.pk]


# --- once, and in the end ---
def test_a_job_is_claimed_by_one_worker_at_a_time(shop: Shop) -> None:
    job = claimed(remembering.hear(shop, WISH))
    assert jobs.claim(job.pk) is None
    remembering.let_lease_expire(job)
    follower = jobs.claim(job.pk)
    assert follower is not None
    assert follower.lease_token != job.lease_token
    assert follower.attempts == 2
    with pytest.raises(LeaseLost):
        jobs.finish(job, JobStatus.COMPLETED, outcome=JobOutcome.NOTHING)
    with pytest.raises(LeaseLost):
        jobs.put_back(job, Unavailable("down"), 5)
    assert fresh(job).lease_token == follower.lease_token


def test_a_job_delivered_twice_works_once(shop: Shop, model_server: ModelServer) -> None:
    model_server.wish(ENGLISH, CHINESE)
    job = remembering.hear(shop, WISH)

    def deliver_again() -> None:
        extracting.run_extraction(job.pk)

    with faults.at("memory.before_model", deliver_again):
        assert remembering.work(job).outcome == JobOutcome.STORED
    assert remembering.work(job).attempts == 1
    assert calls_for(job) == 1
    assert MemoryEvent.objects.filter(kind="EXTRACTED", job=job).count() == 1
    assert remembering.remembered(shop) == {"language": "en"}
    assert_promises_kept()


def test_a_job_whose_row_is_gone_is_nobodys(shop: Shop, model_server: ModelServer) -> None:
    job = remembering.hear(shop, WISH)
    MemoryJob.objects.filter(pk=job.pk).delete()
    extracting.run_extraction(job.pk)
    assert remembering.remembered(shop) == {}


@pytest.mark.parametrize("point", ["memory.after_claim", "memory.after_model", "memory.before_commit"])
def test_a_job_whose_row_goes_while_it_is_worked_on_writes_nothing(
    shop: Shop, model_server: ModelServer, point: str
) -> None:
    model_server.wish(ENGLISH)
    job = remembering.hear(shop, WISH)
    with faults.at(point, lambda: MemoryJob.objects.filter(pk=job.pk).delete()):
        extracting.run_extraction(job.pk)
    assert remembering.remembered(shop) == {}
    remembering.sweep()
    assert remembering.keys_of(shop) == set()


def test_a_job_that_ends_its_workers_is_given_up_with_a_reason(shop: Shop, model_server: ModelServer) -> None:
    job = remembering.hear(shop, WISH)
    for attempt in range(1, configured.MAX_ATTEMPTS + 1):
        remembering.die_at("memory.after_claim", job)
        assert fresh(job).attempts == attempt
        remembering.let_lease_expire(job)
    job = remembering.work(job)
    assert (job.status, job.error_code) == (JobStatus.FAILED, "ATTEMPTS_EXHAUSTED")
    assert "Several attempts" in job.error_message
    assert job.finished_at is not None
    assert (job.running_customer_id, job.lease_until) == (None, None)
    assert calls_for(job) == 0
    remembering.work(job)
    assert fresh(job).attempts == configured.MAX_ATTEMPTS + 1
    assert_promises_kept()


def test_a_job_is_tried_again_after_growing_pauses_and_then_fails_with_the_last_reason(
    shop: Shop, settings: Settings
) -> None:
    settings.CHAT_BASE_URL = f"http://127.0.0.1:{free_port()}/v1"
    job = remembering.hear(shop, WISH)
    pauses = []
    for attempt in range(1, configured.MAX_ATTEMPTS):
        job = remembering.work(job)
        assert (job.status, job.error_code, job.attempts) == (JobStatus.QUEUED, "MODEL_UNAVAILABLE", attempt)
        assert (job.running_customer_id, job.lease_until) == (None, None)
        pauses.append(round((job.run_after - database_now()).total_seconds()))
    assert pauses == [5, 10, 20, 40]
    job = remembering.work(job)
    assert (job.status, job.error_code) == (JobStatus.FAILED, "MODEL_UNAVAILABLE")
    assert calls_for(job) == configured.MAX_ATTEMPTS
    assert_promises_kept()


def test_a_job_waits_as_long_as_the_models_host_asks_for(shop: Shop, model_server: ModelServer) -> None:
    def slow_down(_request: object) -> None:
        raise refusal(429, "slow down", {"Retry-After": "77"})

    model_server.wish(slow_down)
    job = remembering.learn(shop, WISH)
    assert job.status == JobStatus.QUEUED
    assert 70 < (job.run_after - database_now()).total_seconds() <= 77


def test_a_repeated_job_goes_on_to_its_end(shop: Shop, model_server: ModelServer) -> None:
    def be_down(_request: object) -> None:
        raise refusal(503, "down")

    model_server.wish(be_down, be_down, ENGLISH)
    job = remembering.hear(shop, WISH)
    statuses = [remembering.work(job).status for _ in range(3)]
    assert statuses == [JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.COMPLETED]
    job = fresh(job)
    assert (job.outcome, job.attempts) == (JobOutcome.STORED, 3)
    assert remembering.remembered(shop) == {"language": "en"}
    assert_promises_kept()


# --- customer, store or merchant switched off ---
SWITCHES: dict[str, Callable[[Shop], object]] = {
    "customer": lambda shop: Customer.objects.filter(pk=shop.customer.pk).update(is_active=False),
    "store": lambda shop: Store.objects.filter(pk=shop.store.pk).update(is_open=False),
    "tenant": lambda shop: Tenant.objects.filter(pk=shop.tenant.pk).update(is_active=False),
}


@pytest.mark.parametrize("point", ["memory.after_claim", "memory.after_model"])
@pytest.mark.parametrize("switch", SWITCHES.values(), ids=SWITCHES)
def test_a_job_of_somebody_who_is_no_longer_served_is_cancelled(
    shop: Shop, model_server: ModelServer, switch: Callable[[Shop], object], point: str
) -> None:
    model_server.wish(ENGLISH)
    job = remembering.hear(shop, WISH)
    with faults.at(point, lambda: switch(shop)):
        job = remembering.work(job)
    assert (job.status, job.error_code) == (JobStatus.CANCELLED, "SCOPE_ENDED")
    assert job.error_message
    assert calls_for(job) == (0 if point == "memory.after_claim" else 1)
    profile = remembering.profile_of(shop)
    assert (profile.value_key, profile.revision) == ("", 1)
    assert remembering.keys_of(shop) == set()
    assert not PendingErasure.objects.exists()
    assert_promises_kept()


# --- the newest wish wins, whenever it is read ---
@pytest.mark.parametrize("where", ["the same conversation", "another conversation"])
@pytest.mark.parametrize(
    ("newer", "is_left"), [(CHINESE, {"language": "zh"}), (NO_LANGUAGE, {})], ids=["set", "withdrawn"]
)
def test_an_older_message_that_is_read_later_changes_nothing_that_a_newer_one_said(
    shop: Shop, model_server: ModelServer, newer: dict, is_left: dict, where: str
) -> None:
    conversation = talking.begin(shop)
    old = remembering.hear(shop, WISH, conversation)
    same = where == "the same conversation"
    new = remembering.hear(shop, "以后还是用中文回复，不用英文了", conversation if same else "")
    model_server.wish(newer)
    remembering.work(new)
    revision = remembering.profile_of(shop).revision

    model_server.wish(ENGLISH)
    old = remembering.work(old)
    assert (old.status, old.outcome) == (JobStatus.COMPLETED, JobOutcome.NOTHING)
    assert calls_for(old) == 1
    assert remembering.remembered(shop) == is_left
    assert remembering.profile_of(shop).revision == revision
    remembering.sweep()
    assert len(remembering.keys_of(shop)) == len(is_left)
    assert_promises_kept()


def test_messages_read_in_the_order_they_were_said_leave_the_last_word(shop: Shop, model_server: ModelServer) -> None:
    for said, expected in ((ENGLISH, {"language": "en"}), (CHINESE, {"language": "zh"}), (NO_LANGUAGE, {})):
        model_server.wish(said)
        remembering.learn(shop, f"{WISH}。以后还是用中文回复。不用英文了。")
        assert remembering.remembered(shop) == expected
    model_server.wish(ENGLISH)
    remembering.learn(shop, WISH)
    assert remembering.remembered(shop) == {"language": "en"}, "said again after it was withdrawn"
    assert_promises_kept()


def test_of_an_older_message_that_is_read_later_the_fields_count_that_no_newer_one_names(
    shop: Shop, model_server: ModelServer
) -> None:
    old = remembering.hear(shop, "以后请用英文回复，简短一点")
    new = remembering.hear(shop, "以后还是用中文回复")
    model_server.wish(CHINESE)
    remembering.work(new)
    model_server.wish(
        wishes(
            language="en",
            language_evidence="以后请用英文回复",
            response_style="concise",
            response_style_evidence="简短一点",
        )
    )
    assert remembering.work(old).outcome == JobOutcome.STORED
    assert remembering.remembered(shop) == {"language": "zh", "response_style": "concise"}
    origins = {origin["field"]: origin["message_id"] for origin in remembering.read(shop)["origins"]}
    assert origins["language"] == str(new.message.public_id)
    assert origins["response_style"] == str(old.message.public_id)
    assert_promises_kept()


def test_nothing_is_queued_for_a_customer_who_does_not_consent(shop: Shop) -> None:
    remembering.consent(shop, enabled=False)
    conversation = talking.begin(shop)
    talking.say(shop, conversation, WISH)
    talking.work(conversation)
    assert not MemoryJob.objects.exists()
