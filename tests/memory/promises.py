"""What must hold of a World at any time, and once everything has come to rest."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.db.models import Count

import conversations.promises
from agents.models import AgentRun
from config.models import UsageRecord, UsageStatus
from conversations.models import ConversationEvent
from memory import store
from memory.models import EventKind, FieldOrigin, MemoryEvent, MemoryJob, MemoryProfile, PendingErasure
from tests.memory import surroundings
from tests.memory.books import LEASE, row_of
from tests.memory.remembering import NOTHING
from tests.memory.surroundings import CuttableRedis, Line
from tests.memory.world import World
from zhifu.jobs import JobStatus
from zhifu.models import AuditEvent

# Where nothing of memory may stand; each with the columns that hold free content.
_QUIET = (
    (AgentRun, ("messages", "memory_snapshot", "error_message")),
    (MemoryJob, ("error_message",)),
    (MemoryEvent, ("fields",)),
    (ConversationEvent, ("data",)),
    (AuditEvent, ("data", "object_id")),
)


def check(world: World) -> None:
    world.keep_books()
    world.hold(not world.log.wrong, "the log tells nothing and nothing breaks", records=world.log.wrong[:1])
    for customer in (0, 1):
        check_reading(world, customer, world.look(customer))
        _check_origins(world, customer)
    _check_store(world)
    _check_jobs(world)
    _check_usage(world)


def come_to_rest(world: World) -> None:
    """Mend what is broken, let everything that is under way end, and check what is then left."""
    CuttableRedis.line = Line.UP
    for _ in range(20):
        world.clock.move(LEASE)
        world.erase()
        jobs, runs = [*world.open_jobs(0), *world.open_jobs(1)], [*world.open_runs(0), *world.open_runs(1)]
        if not jobs and not runs:
            break
        for run in runs:
            world.answer(run)
        for job in jobs:
            world.read(job)
    world.hold(not jobs, "every job settles", jobs=jobs)
    world.hold(not runs, "every run settles", runs=runs)
    world.scan()
    check(world)
    _check_nothing_left(world)
    _check_quiet(world)
    _check_losses(world)
    for check_promise in conversations.promises.CHECKS:
        violations = [str(violation) for violation in check_promise.find()]
        world.hold(not violations, "check_promises finds nothing", violations=violations)


def check_reading(world: World, customer: int, answer: Any) -> None:
    """Hold that an answer tells what may be read of a customer's memory now."""
    memory = world.memories[customer]
    has_content = memory.has_content(world.clock.now)
    if has_content and (memory.lost or CuttableRedis.line != Line.UP):
        world.hold(answer.status_code == 503, "content that cannot be read is not passed off as none")
        waiting_helps = CuttableRedis.line != Line.UP
        world.hold(("Retry-After" in answer) == waiting_helps, "Retry-After is sent where waiting helps")
        return
    world.hold(answer.status_code == 200, "memory can be read", customer=customer, answer=answer.content)
    if answer.status_code != 200:
        return
    body = answer.json()
    wanted = NOTHING | memory.readable(world.clock.now)
    world.hold(body["communication"] == wanted, "what is read is what may be", read=body["communication"], may=wanted)
    position = (body["consent"], body["epoch"], body["revision"])
    expected = (memory.consent, memory.epoch, memory.revision)
    world.hold(position == expected, "memory moves only with what happened", is_=position, expected=expected)


def _check_origins(world: World, customer: int) -> None:
    rows = FieldOrigin.objects.filter(profile__customer=world.shops[customer].customer)
    origins = {(row.field, row.message_id, row.withdrawn_at is not None) for row in rows}
    expected = {
        (name, origin.said.pk if origin.said else None, origin.withdrawn)
        for name, origin in world.memories[customer].origins.items()
    }
    world.hold(origins == expected, "origins are those of this epoch's newest", is_=origins, expected=expected)


def _check_store(world: World) -> None:
    contents = surroundings.contents()
    held = {key: text for key, text in contents.items() if text}
    world.seen |= held
    pending = set(PendingErasure.objects.values_list("key", flat=True))
    pointed = _pointed()
    for key in held:
        known = key in pending or key in world.restored or (key in pointed and store.parts(key) == pointed[key])
        world.hold(known, "content is pointed to or pending", key=key)


def _pointed() -> dict[str, store.KeyParts]:
    profiles = MemoryProfile.objects.exclude(value_key="")
    return {row.value_key: store.KeyParts(row.tenant_id, row.customer_id, row.epoch) for row in profiles}


def _check_jobs(world: World) -> None:
    for job in MemoryJob.objects.filter(pk__in=world.jobs):
        settled = world.jobs[job.pk].settled
        world.hold(settled in (None, row_of(job)), "a settled job never changes", job=job.pk)
    running = Counter(MemoryJob.objects.filter(status=JobStatus.RUNNING).values_list("customer_id", flat=True))
    world.hold(all(count == 1 for count in running.values()), "one job of a customer runs at a time")


def _check_usage(world: World) -> None:
    recorded = UsageRecord.objects.order_by().values_list("purpose", "subject_id").annotate(calls=Count("id"))
    counted = {(purpose, subject): calls for purpose, subject, calls in recorded}
    world.hold(counted == dict(world.calls), "every call of the model is recorded once", recorded=counted)
    world.hold(not UsageRecord.objects.filter(status=UsageStatus.OPEN).exists(), "every call is settled")


def _check_nothing_left(world: World) -> None:
    held = surroundings.holding()
    world.hold(held <= set(_pointed()), "at rest only what is pointed to is left", held=held)
    world.hold(not PendingErasure.objects.exists(), "at rest no erasure waits")
    for customer, memory in enumerate(world.memories):
        shop = world.shops[customer]
        own = [key for key in held if key.startswith(f"{shop.tenant.pk}:{shop.customer.pk}:")]
        world.hold(own == [] or memory.content is not None, "after clear and withdrawal no byte is left", keys=own)


def _check_quiet(world: World) -> None:
    for text in _recorded():
        # A customer's own words stand in the talk itself, as they must; what was made of them does not.
        told = [word for word in surroundings.CODES if word in text]
        world.hold(not told, "no record tells what is remembered", told=told)


def _recorded() -> Iterator[str]:
    for model, columns in _QUIET:
        rows: Any = model._base_manager.values_list(*columns)
        yield from (str(row) for row in rows)


def _check_losses(world: World) -> None:
    losses = Counter(MemoryEvent.objects.filter(kind=EventKind.LOST).values_list("profile_id", "revision"))
    world.hold(all(count == 1 for count in losses.values()), "a loss is noted once")
