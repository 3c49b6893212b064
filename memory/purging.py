"""Taking back what should never have been remembered, by where it came from; for operators.

Each customer's memory is one short commit, so that a purge may be stopped anywhere and run again. As with the
customer's own decisions epoch and revision grow: jobs in flight are cancelled, answers in flight asked afresh.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from memory import content, profiles, queries, recalling, recording, store
from memory.communication import Communication
from memory.models import EventKind, FieldOrigin, MemoryJob, MemoryProfile
from zhifu import audit, errors
from zhifu.batches import batches
from zhifu.jobs import OPEN_STATUSES
from zhifu.scope import ActorKind, Scope
from zhifu.transactions import commit, database_now

_TRIES = 5


class KeepsMoving(errors.Conflict):
    """Somebody changed the memory each time it was about to be purged."""

    def __init__(self) -> None:
        super().__init__("记忆一直在变，请再试一次 / The memory keeps changing; run it again.")


class _Moved(errors.Conflict):
    """The memory is no longer the one that was looked at."""

    def __init__(self) -> None:
        super().__init__("记忆刚刚变过 / The memory has just changed.")


@dataclass(frozen=True)
class Selection:
    """Which values: a job's, those of a message, said since, of a tenant. All that is given must hold, and something
    is given. What customers set themselves has no job and no message."""

    job_id: int | None = None
    message_id: int | None = None
    since: datetime | None = None
    tenant_id: int | None = None

    def __post_init__(self) -> None:
        if self.is_whole_tenant and self.tenant_id is None:
            raise ValueError("A selection of nothing would be everything.")

    @property
    def is_whole_tenant(self) -> bool:
        return self.job_id is None and self.message_id is None and self.since is None

    def origins(self) -> QuerySet[FieldOrigin]:
        """Return the origins of the selected values. What was withdrawn has none."""
        wanted = {
            "job_id": self.job_id,
            "message_id": self.message_id,
            "stated_at__gte": self.since,
            "profile__tenant_id": self.tenant_id,
        }
        given = {lookup: value for lookup, value in wanted.items() if value is not None}
        return FieldOrigin.objects.filter(withdrawn_at=None, **given)

    def profiles(self) -> QuerySet[MemoryProfile]:
        """Return the profiles that hold something selected; of a whole tenant also content that nothing explains, and
        those of which a message is still being read."""
        explained = Q(pk__in=self.origins().values("profile_id"))
        if not self.is_whole_tenant:
            return MemoryProfile.objects.filter(explained)
        open_jobs = MemoryJob.objects.filter(status__in=OPEN_STATUSES, epoch=OuterRef("epoch"))
        being_read = Exists(open_jobs.filter(customer_id=OuterRef("customer_id")))
        return MemoryProfile.objects.filter(Q(tenant_id=self.tenant_id), explained | ~Q(value_key="") | being_read)


@dataclass(frozen=True)
class Purge:
    """What goes of one customer's memory, and what stays if it still counts and can be read."""

    profile: MemoryProfile
    gone: frozenset[str]
    staying: frozenset[str]


def selected(selection: Selection) -> Iterator[MemoryProfile]:
    """Yield the profiles that hold something selected, by their ids."""
    for batch in batches(selection.profiles().select_related("customer")):
        yield from batch


def plan(profile: MemoryProfile, selection: Selection) -> Purge:
    """Return what a purge would do to one customer's memory, without asking the store."""
    known = FieldOrigin.objects.filter(profile=profile, withdrawn_at=None).values_list("field", flat=True)
    gone = selection.origins().filter(profile=profile).values_list("field", flat=True)
    return Purge(profile, frozenset(gone), frozenset(known) - frozenset(gone))


def purge(profile_id: int, selection: Selection) -> bool:
    """Take the selected values out of one customer's memory; False when there is none any more.

    When nothing is left that counts and can be read, everything goes. Call it with no transaction open. Raises
    store.MemoryUnavailable when the rest cannot be kept just now, and KeepsMoving: nothing has changed then.
    """
    for _attempt in range(_TRIES):
        profile = selection.profiles().filter(pk=profile_id).first()
        if profile is None:
            return False
        wanted = plan(profile, selection)
        try:
            with audit.recorded(_operator(profile), "memory.purge", "memory", str(profile.pk)) as entry:
                entry.data = {"fields": sorted(wanted.gone)}
                _purge(wanted)
        except _Moved:
            continue
        return True
    raise KeepsMoving


def waiting() -> int:
    """Return how many keys are to be erased now: what is left of them while the store is out of reach."""
    return content.due().count()


def _purge(wanted: Purge) -> None:
    now = database_now()
    kept = _kept(wanted, now)
    expires = wanted.profile.value_expires_at
    if not kept or expires is None:
        commit(_commit, wanted, "")
        return
    # What stays is kept for no longer than it would have been.
    spare = settings.MEMORY_STORED - settings.MEMORY_READABLE
    key = content.stage(wanted.profile, wanted.profile.epoch + 1, kept, expires - now + spare)
    try:
        commit(_commit, wanted, key)
    except errors.Failure:
        content.doom(key)
        raise


def _kept(wanted: Purge, now: datetime) -> Communication:
    """Return what stays: nothing of content that may not be read, or is lost. Raises store.MemoryUnavailable."""
    if not wanted.staying or not recalling.is_readable(wanted.profile, now):
        return Communication()
    try:
        known = recalling.read_content(wanted.profile)
    except store.MemoryLost:
        return Communication()
    counting = queries.fields_in_use(queries.origins_of(wanted.profile), now)
    return known.only(wanted.staying.intersection(counting))


def _commit(wanted: Purge, key: str) -> None:
    """Bring what stays, under `key`, into force; without a key everything goes. Raises _Moved."""
    profile = MemoryProfile.objects.select_for_update().get(pk=wanted.profile.pk)
    if (profile.epoch, profile.revision) != (wanted.profile.epoch, wanted.profile.revision):
        raise _Moved
    origins = FieldOrigin.objects.filter(profile=profile)
    if key:
        expires = profile.value_expires_at
        content.adopt(profile, key, database_now())
        profile.value_expires_at = expires
        origins = origins.filter(field__in=wanted.gone)
    else:
        content.let_go(profile)
    origins.delete()
    profiles.begin_epoch(profile)
    fields = wanted.gone if key else wanted.gone | wanted.staying
    recording.record(profile, EventKind.PURGED, fields=fields, scope=_operator(profile))


def _operator(profile: MemoryProfile) -> Scope:
    """Return who purges, for the trail of the tenant: the platform. A command runs without an account, and may do
    nothing else by this."""
    return Scope(
        tenant_id=profile.tenant_id,
        actor_kind=ActorKind.PLATFORM,
        actor_id=0,
        actor_public_id=None,
        role="platform",
        permissions=frozenset(),
    )
