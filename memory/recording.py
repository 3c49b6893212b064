"""The record of what happened to a customer's memory: written in the transaction that did it, profile locked."""

from collections.abc import Iterable

from memory.models import EventKind, MemoryEvent, MemoryJob, MemoryProfile
from zhifu.scope import Scope


def record(
    profile: MemoryProfile,
    kind: EventKind,
    *,
    fields: Iterable[str] = (),
    scope: Scope | None = None,
    job: MemoryJob | None = None,
    run_id: int | None = None,
) -> None:
    """Insert what happened at the profile's present epoch and revision: by whom (`scope`), by which job or run."""
    MemoryEvent.objects.create(
        profile=profile,
        epoch=profile.epoch,
        revision=profile.revision,
        kind=kind,
        fields=sorted(fields),
        job=job,
        run_id=run_id,
        actor_kind=scope.actor_kind if scope else "",
        actor_id=scope.actor_id if scope else None,
    )
