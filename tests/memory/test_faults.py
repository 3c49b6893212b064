"""Memory workers that die or stall, and a store that is away, hung, emptied or brought back from an old copy: what was
said is settled once, and nothing stays that no row answers for."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as configured
from django.db import connection

from config import gateway
from config.models import UsageRecord, UsageStatus
from memory import content, extracting, store
from memory.communication import Communication
from memory.models import EventKind, JobOutcome, MemoryEvent, MemoryJob, MemoryProfile, PendingErasure
from tests.conversations.talking import assert_promises_kept
from tests.factories import Shop
from tests.memory import outages, remembering
from tests.memory.outages import OwnStore
from tests.memory.remembering import MEMORY, die_at, let_lease_expire, let_staging_expire
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from zhifu import faults, jobs
from zhifu.jobs import JobStatus
from zhifu.transactions import commit, database_now

pytestmark = [pytest.mark.django_db, pytest.mark.faults, pytest.mark.usefixtures("model_server")]

WISH = "以后请用英文回复"
ENGLISH = wishes(language="en", language_evidence=WISH)
REMEMBERED = {"language": "en", "response_style": "concise"}

BEFORE_WRITING = ["memory.after_claim", "memory.before_model", "memory.after_model", "memory.before_write"]
AFTER_WRITING = ["memory.after_write", "memory.before_commit", "memory.in_commit"]


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop whose customer consents, and likes it short."""
    remembering.consent(shop)
    remembering.change(shop, response_style="concise")
    remembering.sweep()
    return shop


def assert_settled(shop: Shop, expected: dict[str, str]) -> None:
    """Once the sweeper has been, all that is held of the customer is what can be read."""
    let_staging_expire()
    remembering.sweep()
    assert remembering.remembered(shop) == expected
    assert remembering.keys_of(shop) == {remembering.profile_of(shop).value_key} - {""}
    assert not PendingErasure.objects.exists()
    assert_promises_kept()


# --- a worker dies ---
@pytest.mark.parametrize("point", BEFORE_WRITING + AFTER_WRITING)
def test_a_memory_worker_killed_anywhere_is_followed_by_another(
    shop: Shop, model_server: ModelServer, point: str
) -> None:
    model_server.wish(ENGLISH, ENGLISH)
    job = remembering.hear(shop, WISH)
    die_at(point, job)
    assert remembering.remembered(shop) == {"response_style": "concise"}
    assert len(remembering.keys_of(shop)) == (2 if point in AFTER_WRITING else 1)
    assert remembering.work(job).attempts == 1, "the lease of the dead worker still holds"

    let_lease_expire(job)
    assert jobs.sweep() >= 1
    job = remembering.work(job)
    assert (job.status, job.outcome, job.attempts) == (JobStatus.COMPLETED, JobOutcome.STORED, 2)
    assert MemoryEvent.objects.filter(kind=EventKind.EXTRACTED).count() == 1
    assert_settled(shop, REMEMBERED)


def test_a_memory_worker_killed_after_its_commit_is_not_followed(shop: Shop, model_server: ModelServer) -> None:
    model_server.wish(ENGLISH)
    job = remembering.hear(shop, WISH)
    die_at("memory.after_commit", job)
    let_lease_expire(job)
    job = remembering.work(job)
    assert (job.status, job.outcome, job.attempts) == (JobStatus.COMPLETED, JobOutcome.STORED, 1)
    assert_settled(shop, REMEMBERED)


def test_a_memory_worker_killed_in_its_claim_has_claimed_nothing(shop: Shop, model_server: ModelServer) -> None:
    model_server.wish(ENGLISH)
    job = remembering.hear(shop, WISH)
    die_at("memory.in_claim", job)
    job.refresh_from_db()
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    assert remembering.work(job).outcome == JobOutcome.STORED
    assert_settled(shop, REMEMBERED)


@pytest.mark.parametrize("point", AFTER_WRITING)
def test_what_a_dead_worker_wrote_of_a_customer_who_has_cleared_since_is_erased(
    shop: Shop, model_server: ModelServer, point: str
) -> None:
    model_server.wish(ENGLISH)
    job = remembering.hear(shop, WISH)
    die_at(point, job)
    remembering.clear(shop)
    let_lease_expire(job)
    job = remembering.work(job)
    assert (job.status, job.error_code, job.outcome) == (JobStatus.CANCELLED, "EPOCH_ENDED", "")
    assert_settled(shop, {})


@pytest.mark.parametrize(("point", "status"), [("gateway.before_call", "OPEN"), ("memory.after_model", "SETTLED")])
def test_what_a_killed_worker_spent_stays_on_record(
    shop: Shop, model_server: ModelServer, point: str, status: str
) -> None:
    job = remembering.hear(shop, WISH)
    model_server.wish(ENGLISH, ENGLISH)
    die_at(point, job)
    (spent,) = UsageRecord.objects.filter(purpose="extraction", subject_id=job.pk)
    assert spent.status == status
    UsageRecord.objects.filter(pk=spent.pk).update(
        created_at=database_now() - 5 * timedelta(seconds=configured.LEASE_SECONDS)
    )
    assert gateway.settle_stale() == (1 if status == "OPEN" else 0)
    let_lease_expire(job)
    assert remembering.work(job).outcome == JobOutcome.STORED
    states = UsageRecord.objects.filter(purpose="extraction", subject_id=job.pk).order_by("pk")
    first = UsageStatus.ESTIMATED if status == "OPEN" else UsageStatus.SETTLED
    assert [record.status for record in states] == [first, UsageStatus.SETTLED]


def test_a_maintenance_worker_killed_after_it_erased_a_key_is_followed_by_another(shop: Shop) -> None:
    key = remembering.profile_of(shop).value_key
    remembering.clear(shop)
    with faults.at("memory.after_erase", faults.kill), pytest.raises(faults.Killed):
        content.erase_pending()
    assert PendingErasure.objects.get().key == key
    assert outages.bytes_at(key) == b'""'
    assert_settled(shop, {})


# --- a worker stalls, and goes on when nobody waits for it any more ---
@pytest.mark.parametrize("point", [*BEFORE_WRITING[2:], "memory.after_write", "memory.before_commit"])
def test_a_worker_that_wakes_up_after_another_has_done_its_job_changes_nothing(
    shop: Shop, model_server: ModelServer, point: str
) -> None:
    model_server.wish(wishes(language="ja", language_evidence=f"{WISH}，不，日文"), ENGLISH, ENGLISH)
    job = remembering.hear(shop, f"{WISH}，不，日文")
    stalled = [True]

    def stall() -> None:
        if not stalled:
            return
        stalled.clear()
        let_lease_expire(job)
        extracting.run_extraction(job.pk)

    with faults.at(point, stall):
        job = remembering.work(job)
    assert not stalled
    assert (job.status, job.outcome, job.attempts) == (JobStatus.COMPLETED, JobOutcome.STORED, 2)
    assert MemoryEvent.objects.filter(kind=EventKind.EXTRACTED).count() == 1
    assert_settled(shop, REMEMBERED)


@pytest.mark.parametrize("point", ["memory.before_write", "memory.after_write", "memory.before_commit"])
def test_a_worker_that_wakes_up_after_its_content_was_given_up_brings_nothing_into_force_and_tries_again(
    shop: Shop, model_server: ModelServer, point: str
) -> None:
    model_server.wish(ENGLISH, ENGLISH)
    job = remembering.hear(shop, WISH)

    def stall() -> None:
        let_staging_expire()
        assert content.erase_pending() == 1

    with faults.at(point, stall):
        job = remembering.work(job)
    assert (job.status, job.error_code) == (JobStatus.QUEUED, "MEMORY_UNAVAILABLE")
    assert remembering.remembered(shop) == {"response_style": "concise"}
    assert remembering.work(job).outcome == JobOutcome.STORED
    assert_settled(shop, REMEMBERED)


@pytest.mark.parametrize("point", ["memory.before_write", "memory.after_write"])
def test_a_customers_change_that_took_too_long_is_refused_and_changes_nothing(shop: Shop, point: str) -> None:
    before = remembering.read(shop)

    def stall() -> None:
        let_staging_expire()
        assert content.erase_pending() == 1

    with faults.at(point, stall):
        refused = shop.shopper.patch(MEMORY, {"language": "en", "expected_revision": before["revision"]})
    assert (refused.status_code, refused.json()["code"]) == (503, "MEMORY_UNAVAILABLE")
    assert refused.headers["Retry-After"] == "5"
    assert remembering.read(shop) == before
    assert_settled(shop, {"response_style": "concise"})


# --- the store is away ---
DECISIONS: dict[str, Callable[[Shop], Any]] = {
    "clear": remembering.clear,
    "withdraw": lambda shop: remembering.consent(shop, enabled=False),
}


@pytest.mark.parametrize("decide", DECISIONS.values(), ids=DECISIONS)
def test_a_customer_is_obeyed_at_once_while_the_store_is_away_and_the_bytes_go_when_it_is_back(
    shop: Shop, decide: Callable[[Shop], Any]
) -> None:
    key = remembering.profile_of(shop).value_key
    with outages.away():
        answered = decide(shop)
        assert answered["communication"] == remembering.NOTHING
        assert remembering.remembered(shop) == {}
        assert content.erase_pending() == 0
        assert PendingErasure.objects.get().key == key
    assert "concise" in str(outages.bytes_at(key)), "it could not be reached"
    assert remembering.remembered(shop) == {}
    assert content.erase_pending() == 1
    assert outages.bytes_at(key) == b'""'
    assert_settled(shop, {})


@pytest.mark.parametrize("decide", DECISIONS.values(), ids=DECISIONS)
def test_a_store_that_was_stopped_and_started_again_keeps_nothing_of_who_has_cleared_meanwhile(
    own_store: OwnStore, shop: Shop, decide: Callable[[Shop], Any]
) -> None:
    key = remembering.profile_of(shop).value_key
    own_store.stop()
    decide(shop)
    own_store.start()
    assert "concise" in str(outages.bytes_at(key)), "it has kept what it held"
    assert remembering.remembered(shop) == {}
    assert_settled(shop, {})
    assert outages.bytes_at(key) == b'""'


def test_a_change_while_the_store_is_away_is_refused_for_now_and_changes_nothing(shop: Shop) -> None:
    before, events = remembering.read(shop), remembering.history(shop)
    body = {"language": "en", "expected_revision": before["revision"]}
    with outages.away():
        refused = shop.shopper.patch(MEMORY, body)
    assert (refused.status_code, refused.json()["code"]) == (503, "MEMORY_UNAVAILABLE")
    assert refused.headers["Retry-After"] == "5"
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert remembering.read(shop) == before
    assert remembering.history(shop) == events
    assert shop.shopper.patch(MEMORY, body).status_code == 200
    assert_settled(shop, REMEMBERED)


def test_reading_while_the_store_is_away_says_so_and_when_to_come_back(shop: Shop) -> None:
    with outages.away():
        answer = shop.shopper.get(MEMORY)
    assert (answer.status_code, answer.json()["code"]) == (503, "MEMORY_UNAVAILABLE")
    assert answer.headers["Retry-After"] == "5"
    assert not MemoryEvent.objects.filter(kind=EventKind.LOST).exists()
    assert remembering.remembered(shop) == {"response_style": "concise"}


@pytest.mark.parametrize("point", ["memory.after_claim", "memory.after_model", "memory.before_write"])
def test_an_extraction_that_meets_the_store_away_is_tried_again(
    shop: Shop, model_server: ModelServer, point: str
) -> None:
    model_server.wish(ENGLISH, ENGLISH)
    job = remembering.hear(shop, WISH)
    with ExitStack() as outage, faults.at(point, lambda: outage.enter_context(outages.away())):
        job = remembering.work(job)
    assert (job.status, job.error_code) == (JobStatus.QUEUED, "MEMORY_UNAVAILABLE")
    assert remembering.work(job).outcome == JobOutcome.STORED
    assert_settled(shop, REMEMBERED)


def test_a_store_that_is_long_away_costs_no_model_call_and_ends_no_job(shop: Shop, model_server: ModelServer) -> None:
    model_server.wish(ENGLISH)
    job = remembering.hear(shop, WISH)
    asked = len(model_server.requests)
    with outages.away():
        for _ in range(2 * configured.MAX_ATTEMPTS):
            job = remembering.work(job)
            assert (job.status, job.error_code, job.attempts) == (JobStatus.QUEUED, "MEMORY_UNAVAILABLE", 0)
    assert len(model_server.requests) == asked
    assert remembering.work(job).outcome == JobOutcome.STORED
    assert_settled(shop, REMEMBERED)


def test_a_store_that_hangs_holds_up_no_request_of_a_customer_for_long(own_store: OwnStore, shop: Shop) -> None:
    revision = remembering.read(shop)["revision"]
    asked: list[tuple[str, Callable[[], Any], int]] = [
        ("read", lambda: shop.shopper.get(MEMORY), 503),
        ("change", lambda: shop.shopper.patch(MEMORY, {"language": "en", "expected_revision": revision}), 503),
        ("clear", lambda: shop.shopper.post(f"{MEMORY}/clear", {"expected_revision": revision}), 200),
        ("read what is empty", lambda: shop.shopper.get(MEMORY), 200),
    ]
    with own_store.frozen():
        for what, ask, status in asked:
            started = time.monotonic()
            assert ask().status_code == status, what
            assert time.monotonic() - started < 2, what
    assert_settled(shop, {})


# --- the store has lost something ---
def lose_everything(own_store: OwnStore, shop: Shop) -> None:
    own_store.stop()
    own_store.start_empty()


def lose_one_key(own_store: OwnStore, shop: Shop) -> None:
    outages.lose(remembering.profile_of(shop).value_key)


def somebody_elses_bytes(own_store: OwnStore, shop: Shop) -> None:
    outages.put(remembering.profile_of(shop).value_key, b"\x80\x04\x95 not ours")


def no_object(own_store: OwnStore, shop: Shop) -> None:
    outages.put(remembering.profile_of(shop).value_key, json.dumps(json.dumps(["concise"])).encode())


LOSSES = [lose_everything, lose_one_key, somebody_elses_bytes, no_object]
Loss = Callable[[OwnStore, Shop], None]


@pytest.mark.parametrize("lose", LOSSES)
def test_what_is_lost_is_said_to_be_lost_and_noted_once(own_store: OwnStore, shop: Shop, lose: Loss) -> None:
    lose(own_store, shop)
    for _ in range(3):
        answer = shop.shopper.get(MEMORY)
        assert (answer.status_code, answer.json()["code"]) == (503, "MEMORY_UNAVAILABLE")
        assert "Retry-After" not in answer.headers, "waiting does not help"
        assert "has been lost" in answer.json()["detail"]
    kinds = [event["kind"] for event in remembering.history(shop)]
    assert kinds == ["LOST", "CHANGED", "CONSENTED"]


@pytest.mark.parametrize("lose", LOSSES)
def test_after_a_loss_the_next_extraction_starts_from_empty(
    own_store: OwnStore, shop: Shop, model_server: ModelServer, lose: Loss
) -> None:
    model_server.wish(ENGLISH)
    job = remembering.hear(shop, WISH)
    lose(own_store, shop)
    assert remembering.work(job).outcome == JobOutcome.STORED
    assert_settled(shop, {"language": "en"})


@pytest.mark.parametrize("lose", LOSSES)
def test_after_a_loss_a_change_and_a_clear_work(own_store: OwnStore, shop: Shop, lose: Loss) -> None:
    lose(own_store, shop)
    assert remembering.change(shop, language="ja")["communication"]["language"] == "ja"
    assert [origin["field"] for origin in remembering.read(shop)["origins"]] == ["language"]
    assert_settled(shop, {"language": "ja"})
    lose(own_store, shop)
    remembering.clear(shop)
    assert_settled(shop, {})


def test_a_loss_before_and_one_after_a_change_are_both_noted(shop: Shop) -> None:
    for language in ("ja", "en"):
        outages.lose(remembering.profile_of(shop).value_key)
        assert shop.shopper.get(MEMORY).status_code == 503
        remembering.change(shop, language=language)
    kinds = [event["kind"] for event in remembering.history(shop)]
    assert kinds == ["CHANGED", "LOST", "CHANGED", "LOST", "CHANGED", "CONSENTED"]


# --- the store holds what it should not ---
@pytest.mark.parametrize("where", ["under its erased key", "under another key"])
def test_a_store_brought_back_from_an_old_copy_is_cleaned_by_the_scan(shop: Shop, other_shop: Shop, where: str) -> None:
    remembering.consent(other_shop)
    remembering.change(other_shop, language="zh")
    old_key = remembering.profile_of(shop).value_key
    old = outages.bytes_at(old_key)
    assert old is not None
    remembering.clear(shop)
    remembering.sweep()
    assert outages.bytes_at(old_key) == b'""'
    epoch = remembering.profile_of(shop).epoch
    back = old_key if where == "under its erased key" else store.new_key(shop.tenant.pk, shop.customer.pk, epoch)
    outages.put(back, old)

    assert remembering.remembered(shop) == {}
    assert content.erase_pending() == 0, "no row knows of it"
    assert content.erase_orphans() == 1
    assert outages.bytes_at(back) == b'""'
    assert content.erase_orphans() == 0
    assert remembering.remembered(other_shop) == {"language": "zh"}
    assert_settled(shop, {})


def test_the_scan_erases_what_it_cannot_read_and_leaves_what_is_on_its_way(
    shop: Shop, model_server: ModelServer
) -> None:
    strange = store.new_key(shop.tenant.pk, shop.customer.pk, 1)
    outages.put(strange, b"\xff\x00 nobody's")
    outages.put("no key of ours", b'"{}x"')
    model_server.wish(ENGLISH)
    job = remembering.hear(shop, WISH)
    found = []
    with faults.at("memory.before_commit", lambda: found.append(content.erase_orphans())):
        assert remembering.work(job).outcome == JobOutcome.STORED
    assert found == [2]
    assert outages.bytes_at(strange) == b'""'
    assert_settled(shop, REMEMBERED)


@contextmanager
def adopted_once_asked_for(what: str, profile: MemoryProfile, key: str) -> Iterator[None]:
    """Bring `key` into force as soon as the block has run a statement that has `what` in it."""

    def adopt() -> None:
        locked = MemoryProfile.objects.select_for_update().get(pk=profile.pk)
        content.adopt(locked, key, database_now())
        locked.save()

    waiting = [adopt]

    def then_adopt(execute: Callable[..., Any], *asked: Any) -> Any:
        answer = execute(*asked)
        if waiting and what in asked[0]:
            commit(waiting.pop())
        return answer

    with connection.execute_wrapper(then_adopt):
        yield
    assert not waiting


def test_a_key_that_comes_into_force_while_the_scan_looks_is_no_orphan(shop: Shop) -> None:
    profile = remembering.profile_of(shop)
    key = content.stage(profile, profile.epoch, Communication(language="en"))
    with adopted_once_asked_for("SELECT", profile, key):
        assert content.orphans_among([key]) == []
    remembering.sweep()
    assert remembering.keys_of(shop) == {key}


def test_a_key_that_comes_into_force_while_the_sweeper_counts_it_as_given_up_is_not_erased(shop: Shop) -> None:
    profile = remembering.profile_of(shop)
    key = content.stage(profile, profile.epoch, Communication(language="en"))
    let_staging_expire()
    with adopted_once_asked_for(PendingErasure._meta.db_table, profile, key):
        content.erase_pending()
    remembering.sweep()
    assert remembering.keys_of(shop) == {key}


@pytest.mark.parametrize("known", ["doomed", "orphans"])
def test_however_much_is_to_be_erased_all_of_it_goes(shop: Shop, known: str) -> None:
    keys = [store.new_key(shop.tenant.pk, shop.customer.pk, number) for number in range(1100)]
    for key in keys:
        store.write(key, {"language": "en"})
    if known == "doomed":
        PendingErasure.objects.bulk_create(PendingErasure(key=key) for key in keys)
        assert content.erase_pending() == len(keys)
    else:
        assert content.erase_orphans() == len(keys)
    assert_settled(shop, {"response_style": "concise"})


def test_a_scan_of_a_store_that_is_away_erases_nothing_and_says_so(shop: Shop) -> None:
    with outages.away(), pytest.raises(store.MemoryUnavailable):
        content.erase_orphans()
    assert_settled(shop, {"response_style": "concise"})


def test_an_extraction_of_before_a_clear_never_comes_back_however_it_ends(
    shop: Shop, model_server: ModelServer
) -> None:
    """The customer clears at each step of one extraction; each time it is cancelled, and all that it wrote goes."""
    steps = [*BEFORE_WRITING, "memory.after_write", "memory.before_commit"]
    for point in steps:
        model_server.reset()
        model_server.wish(ENGLISH)
        job = remembering.hear(shop, WISH)
        with faults.at(point, lambda: remembering.clear(shop)):
            job = remembering.work(job)
        assert (job.status, job.error_code) == (JobStatus.CANCELLED, "EPOCH_ENDED"), point
        assert_settled(shop, {})
    assert MemoryJob.objects.filter(status=JobStatus.CANCELLED).count() == len(steps)
