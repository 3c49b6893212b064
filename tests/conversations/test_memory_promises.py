"""The checks of memory: each finds what contradicts it, and none is alarmed by a memory at work."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import caches
from pytest_django.fixtures import Settings

from agents.models import AgentRun
from config.models import UsageRecord
from conversations import promises
from memory import store
from memory.models import FieldOrigin, MemoryEvent, MemoryJob, MemoryProfile, PendingErasure
from tests.conversations import talking
from tests.conversations.talking import assert_promises_kept
from tests.factories import Shop, make_customer, make_shop
from tests.memory import remembering
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from zhifu import faults
from zhifu.transactions import database_now


@dataclass(frozen=True)
class World:
    """A customer with a remembered wish and a job that waits, and a stranger of another tenant with the same."""

    shop: Shop
    learned: MemoryJob
    waiting: MemoryJob
    stranger: Shop
    foreign: MemoryJob

    @property
    def profile(self) -> MemoryProfile:
        return remembering.profile_of(self.shop)

    @property
    def origins(self) -> Any:
        return FieldOrigin.objects.filter(profile=self.profile)

    @property
    def events(self) -> Any:
        return MemoryEvent.objects.filter(profile=self.profile, kind="EXTRACTED")

    def change(self, row: Any, **values: Any) -> None:
        assert type(row)._base_manager.filter(pk=row.pk).update(**values) == 1


def _learn(shop: Shop, model_server: ModelServer) -> MemoryJob:
    remembering.consent(shop)
    model_server.wish(wishes(language="en", language_evidence="以后用英文"))
    return remembering.learn(shop, "以后用英文回复我")


@pytest.fixture
def world(shop: Shop, model_server: ModelServer) -> World:
    learned = _learn(shop, model_server)
    waiting = remembering.hear(shop, "以后请说得详细一些")
    stranger = make_shop()
    foreign = _learn(stranger, model_server)
    assert remembering.remembered(shop) == {"language": "en"}
    return World(shop, learned, waiting, stranger, foreign)


def _long_ago() -> Any:
    return database_now() - timedelta(hours=1)


def _usage(world: World) -> Any:
    return UsageRecord.objects.filter(purpose="extraction", subject_id=world.learned.pk)


def _clear_and_bring_back(world: World) -> None:
    """Clear, and undo of it what a wrong commit of an old job would: pointer and origin."""
    key, origin = world.profile.value_key, world.origins.get()
    remembering.clear(world.shop)
    PendingErasure.objects.all().delete()
    profile = world.profile
    fresh = store.new_key(profile.tenant_id, profile.customer_id, profile.epoch)
    assert store.write(fresh, {"language": "en"})
    world.change(profile, value_key=fresh, value_expires_at=database_now() + timedelta(days=1))
    store.erase(key)
    origin.pk = None
    origin.save()


def _point_to(world: World, **other: int) -> None:
    parts = {"tenant_id": world.profile.tenant_id, "customer_id": world.profile.customer_id}
    key = store.new_key(**{**parts, "epoch": world.profile.epoch, **other})
    PendingErasure.objects.create(key=world.profile.value_key)
    world.change(world.profile, value_key=key)


BREACHES: dict[str, tuple[str, Callable[[World], object]]] = {
    "a customer without a profile": (
        "P3",
        lambda w: MemoryProfile.objects.filter(customer=make_customer(w.shop.tenant)).delete(),
    ),
    "content without consent": ("P3", lambda w: w.change(w.profile, consent=False)),
    "an origin without consent": (
        "P3",
        lambda w: (
            PendingErasure.objects.create(key=w.profile.value_key),
            w.change(w.profile, consent=False, value_key=""),
        ),
    ),
    "a pointer to another customer's content": ("P3", lambda w: _point_to(w, customer_id=w.stranger.customer.pk)),
    "a pointer to another tenant's content": ("P3", lambda w: _point_to(w, tenant_id=w.stranger.tenant.pk)),
    "a pointer to an earlier epoch's content": ("P3", lambda w: _point_to(w, epoch=w.profile.epoch - 1)),
    "a pointer that names nobody": ("P3", lambda w: w.change(w.profile, value_key="x")),
    "content without an end": ("P3", lambda w: w.change(w.profile, value_expires_at=None)),
    "an origin by another customer's job": ("P3", lambda w: w.origins.update(job=w.foreign)),
    "an origin by a job that did not complete": ("P3", lambda w: w.origins.update(job=w.waiting)),
    "a value that came back after a clear": ("P3", _clear_and_bring_back),
    "an event in another epoch than its job": ("P3", lambda w: w.events.update(epoch=9)),
    "content that is pointed to and to be erased": (
        "P3",
        lambda w: PendingErasure.objects.create(key=w.profile.value_key),
    ),
    "content nobody points to": (
        "P3",
        lambda w: (FieldOrigin.objects.all().delete(), w.change(w.profile, value_key="", value_expires_at=None)),
    ),
    "an erasure that does not happen": (
        "P3",
        lambda w: PendingErasure.objects.create(key="1:1:1:x", created_at=_long_ago()),
    ),
    "staged content that nobody erases": (
        "P3",
        lambda w: PendingErasure.objects.create(key="1:1:1:x", created_at=_long_ago(), staged_until=_long_ago()),
    ),
    "a run that keeps its system prompt": (
        "P3",
        lambda w: w.change(_run(w), messages=[{"role": "system", "content": "x"}, *_run(w).messages]),
    ),
    "a profile of another tenant": ("P2", lambda w: w.change(w.profile, tenant=w.stranger.tenant)),
    "a job of another tenant": ("P2", lambda w: w.change(w.learned, tenant=w.stranger.tenant)),
    "a job about another customer's message": (
        "P2",
        lambda w: w.change(w.waiting, customer=w.stranger.customer),
    ),
    "an event of another customer's job": ("P2", lambda w: w.events.update(job=w.foreign)),
    "an event of another customer's run": ("P2", lambda w: w.events.update(run=_run_of(w.stranger))),
    "usage of another tenant": ("P2", lambda w: _usage(w).update(tenant=w.stranger.tenant)),
    "a job nobody takes": ("P4", lambda w: (w.change(w.waiting, run_after=_long_ago()), _nothing_moves())),
    "a job left by its worker": (
        "P4",
        lambda w: w.change(w.waiting, status="RUNNING", lease_until=_long_ago(), running_customer=w.shop.customer),
    ),
    "a running job without its mark": (
        "P4",
        lambda w: w.change(w.waiting, status="RUNNING", lease_until=database_now() + timedelta(minutes=1)),
    ),
    "a settled job with its mark": ("P4", lambda w: w.change(w.learned, running_customer=w.shop.customer)),
    "a failure without a reason": ("P4", lambda w: w.change(w.waiting, status="FAILED")),
    "a completed job that does not say with what": ("P6", lambda w: w.change(w.learned, outcome="")),
    "an outcome before the end": ("P6", lambda w: w.change(w.waiting, outcome="NOTHING")),
    "something stored that is not on record": ("P6", lambda w: w.events.update(job=None)),
    "a completed job without usage": ("P6", lambda w: _usage(w).delete()),
    "usage that stays open": ("P6", lambda w: _usage(w).update(status="OPEN", created_at=_long_ago())),
}


def _run(world: World) -> Any:
    return _run_of(world.shop)


def _run_of(shop: Shop) -> Any:
    return AgentRun.objects.filter(customer=shop.customer).first()


def _nothing_moves() -> None:
    MemoryJob.objects.filter(started_at__isnull=False).update(started_at=_long_ago())


def _broken() -> set[str]:
    return {check.promise for check in promises.CHECKS for _violation in check.find()}


@pytest.mark.parametrize("name", BREACHES)
def test_every_breach_is_found(world: World, name: str) -> None:
    assert_promises_kept()
    promise, commit = BREACHES[name]
    commit(world)
    assert promise in _broken()


def test_content_that_somebody_put_into_the_store_is_found(world: World) -> None:
    caches["memory"].set(f"{world.shop.tenant.pk}:{world.shop.customer.pk}:0:feed", '{"language": "fr"}', 60)
    assert _broken() == {"P3"}


def test_a_store_that_does_not_answer_cannot_be_checked_and_that_is_said(world: World, settings: Settings) -> None:
    settings.CACHES = {**settings.CACHES, "memory": settings.CACHES["memory"] | {"LOCATION": "redis://127.0.0.1:1"}}
    assert _broken() == {"P3"}


@pytest.mark.parametrize(
    "point", ["memory.after_claim", "memory.before_write", "memory.after_write", "memory.before_commit"]
)
def test_a_job_at_work_breaks_no_promise(world: World, model_server: ModelServer, point: str) -> None:
    model_server.wish(wishes(response_style="detailed", response_style_evidence="请说得详细一些"))
    looked = []

    def look() -> None:
        assert_promises_kept()
        looked.append(point)

    with faults.at(point, look):
        remembering.work(world.waiting)
    assert looked == [point]
    assert remembering.remembered(world.shop) == {"response_style": "detailed", "language": "en"}
    assert_promises_kept()


def test_a_customer_who_decides_breaks_no_promise(world: World) -> None:
    for decide in (
        lambda: remembering.change(world.shop, response_style="detailed"),
        lambda: remembering.clear(world.shop),
        lambda: remembering.consent(world.shop, False),
        lambda: remembering.consent(world.shop),
    ):
        decide()
        assert_promises_kept()
    talking.begin(world.shop)
    remembering.sweep()
    assert_promises_kept()
