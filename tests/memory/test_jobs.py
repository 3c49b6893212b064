"""When a memory job may start, what it waits for, and who starts it then."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings as configured
from django.db import IntegrityError, transaction

from agents.models import AgentRun
from config.models import TenantQuota
from conversations import turns
from memory import jobs
from memory.models import JobOutcome, MemoryJob
from tests.conversations import talking
from tests.conversations.talking import assert_promises_kept
from tests.factories import Shop, make_customer, make_shop
from tests.memory import hints, remembering
from tests.memory.hints import Capture
from tests.memory.queueing import claimed, fresh, is_due, let_wait
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from zhifu import jobs as leased
from zhifu import sweeping
from zhifu.errors import Unavailable
from zhifu.jobs import JobStatus
from zhifu.models import Store
from zhifu.transactions import database_now

WISH = "以后请用英文回复"
ENGLISH = wishes(language="en", language_evidence=WISH)
CHINESE = wishes(language="zh", language_evidence="以后还是用中文回复")

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model_server")]


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


def test_an_allowance_that_is_raised_is_noticed_by_the_sweeper(
    shop: Shop, django_capture_on_commit_callbacks: Capture
) -> None:
    allow(shop, 0)
    job = remembering.hear(shop, WISH)
    let_wait(job, "ALLOWANCE")
    allow(shop, 1)
    MemoryJob.objects.filter(pk=job.pk).update(run_after=database_now() - timedelta(seconds=1))
    with hints.sent(django_capture_on_commit_callbacks) as sent:
        sweeping.run()
    assert sent == [job.pk]
    assert jobs.claim(job.pk) is not None


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


def test_nothing_is_queued_for_a_customer_who_does_not_consent(shop: Shop) -> None:
    remembering.consent(shop, enabled=False)
    conversation = talking.begin(shop)
    talking.say(shop, conversation, WISH)
    talking.work(conversation)
    assert not MemoryJob.objects.exists()
