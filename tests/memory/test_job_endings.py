"""How a memory job ends: once, in the end, and never with what has been overtaken."""

from collections.abc import Callable

import pytest
from django.conf import settings as configured
from pytest_django.fixtures import Settings

from memory import extracting, jobs
from memory.models import JobOutcome, MemoryEvent, MemoryJob, PendingErasure
from tests.conversations import talking
from tests.conversations.talking import assert_promises_kept
from tests.factories import Shop
from tests.memory import remembering
from tests.memory.queueing import calls_for, claimed, fresh
from tests.model_server import ModelServer
from tests.model_shapes import refusal, wishes
from tests.servers import free_port
from zhifu import faults
from zhifu.errors import LeaseLost, Unavailable
from zhifu.jobs import JobStatus
from zhifu.models import Customer, Store, Tenant
from zhifu.transactions import database_now

WISH = "以后请用英文回复"
ENGLISH = wishes(language="en", language_evidence=WISH)
CHINESE = wishes(language="zh", language_evidence="以后还是用中文回复")
NO_LANGUAGE = wishes(language="withdrawn", language_evidence="不用英文了")

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model_server")]


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop whose customer consents."""
    remembering.consent(shop)
    return shop


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
    model_server.wish(ENGLISH)
    asked = len(model_server.requests)
    extracting.run_extraction(job.pk)
    assert len(model_server.requests) == asked, "nobody asks for it"
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
    taken_back = "之前说的语言要求取消吧"
    no_language = wishes(language="withdrawn", language_evidence=taken_back)
    for said, expected in ((ENGLISH, {"language": "en"}), (CHINESE, {"language": "zh"}), (no_language, {})):
        model_server.wish(said)
        remembering.learn(shop, f"{WISH}。以后还是用中文回复。" if expected else taken_back)
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
