"""Reading what may be read of a customer's memory now; a loss that is noticed goes on record."""

from dataclasses import dataclass
from datetime import datetime

from memory import queries, recording, store
from memory.communication import Communication
from memory.models import EventKind, FieldOrigin, MemoryEvent, MemoryProfile
from memory.queries import Snapshot
from zhifu.transactions import commit, database_now


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
    """Return what is known of a customer. The profile is read before the content it points to.

    Without consent and after expiry nothing is; `run_id` is on whose behalf it is read.
    """
    profile = MemoryProfile.objects.get(customer_id=customer_id)
    snapshot = Snapshot.of(profile)
    if not is_readable(profile, database_now()):
        return Recollection(profile, snapshot, Communication(), {})
    try:
        content = read_content(profile)
    except store.MemoryLost as lost:
        commit(_note_loss, profile, run_id)
        return Recollection(profile, snapshot, Communication(), {}, lost)
    except store.MemoryUnavailable as failure:
        return Recollection(profile, snapshot, Communication(), {}, failure)
    return known(profile, content)


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


def _note_loss(seen: MemoryProfile, run_id: int | None) -> None:
    """Record once that the content of this revision is gone, unless the profile has moved on."""
    profile = MemoryProfile.objects.select_for_update().get(pk=seen.pk)
    noted = MemoryEvent.objects.filter(profile=profile, kind=EventKind.LOST, revision=profile.revision)
    if profile.value_key != seen.value_key or noted.exists():
        return
    recording.record(profile, EventKind.LOST, run_id=run_id)
