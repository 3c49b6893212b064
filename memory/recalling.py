"""Reading what may be read of a customer's memory now; a loss that is noticed goes on record."""

from dataclasses import dataclass
from datetime import datetime

from memory import queries, recording, store
from memory.communication import Communication
from memory.models import EventKind, FieldOrigin, MemoryEvent, MemoryProfile
from memory.queries import Snapshot
from zhifu import faults
from zhifu.transactions import commit, database_now

# How often a memory that keeps changing is read again.
_TRIES = 5


@dataclass(frozen=True)
class Recollection:
    """What is known, under which snapshot. `failure`: why content that may be read could not be; nothing is then
    known."""

    profile: MemoryProfile
    snapshot: Snapshot | None
    communication: Communication
    origins: dict[str, FieldOrigin]
    failure: store.MemoryUnavailable | None = None


def recall(customer_id: int, run_id: int | None = None) -> Recollection:
    """Return what is known of a customer; what moved while it was read is read again.

    Without consent and after expiry nothing is; `run_id` is on whose behalf it is read.
    """
    for _attempt in range(_TRIES):
        profile = MemoryProfile.objects.get(customer_id=customer_id)
        if not is_readable(profile, database_now()):
            return Recollection(profile, Snapshot.of(profile), Communication(), {})
        faults.point("memory.after_profile")
        found = _read(profile)
        if _stands(found, run_id):
            return found
    return _without(profile, store.MemoryUnavailable())


def _read(profile: MemoryProfile) -> Recollection:
    try:
        content = read_content(profile)
    except store.MemoryUnavailable as failure:
        return _without(profile, failure)
    faults.point("memory.after_content")
    return known(profile, content)


def _without(profile: MemoryProfile, failure: store.MemoryUnavailable) -> Recollection:
    return Recollection(profile, Snapshot.of(profile), Communication(), {}, failure)


def _stands(found: Recollection, run_id: int | None) -> bool:
    """Say whether the profile is still the one that content and origins were read under; a loss goes on record."""
    if isinstance(found.failure, store.MemoryLost):
        return commit(_note_loss, found.profile, run_id)
    return queries.snapshot(found.profile.customer_id) == found.snapshot


def known(profile: MemoryProfile, content: Communication) -> Recollection:
    """Return what counts of the content that `profile` points to."""
    origins = queries.origins_of(profile)
    counting = content.only(queries.fields_in_use(origins, database_now()))
    return Recollection(profile, Snapshot.of(profile), counting, {field: origins[field] for field in counting.stored()})


def is_readable(profile: MemoryProfile, now: datetime) -> bool:
    """Say whether the profile allows reading, and points to content that has not expired."""
    expires = profile.value_expires_at
    return bool(profile.consent and profile.value_key and expires is not None and now < expires)


def read_content(profile: MemoryProfile) -> Communication:
    """Return the content a profile points to. Raises store.MemoryUnavailable, and store.MemoryLost when it is gone."""
    return Communication.from_stored(store.read(profile.value_key))


def _note_loss(seen: MemoryProfile, run_id: int | None) -> bool:
    """Record once that the content of this revision is gone; False when the profile has moved on, and nothing is."""
    profile = MemoryProfile.objects.select_for_update().get(pk=seen.pk)
    if Snapshot.of(profile) != Snapshot.of(seen):
        return False
    if not MemoryEvent.objects.filter(profile=profile, kind=EventKind.LOST, revision=profile.revision).exists():
        recording.record(profile, EventKind.LOST, run_id=run_id)
    return True
