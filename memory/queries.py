"""Reading a customer's profile, and the lookups from here into conversations and runs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from django.db.models import QuerySet

from memory.communication import FIELDS, LEAST_CONFIDENCE, confidence_now
from memory.models import FieldOrigin, MemoryEvent, MemoryProfile
from zhifu.errors import NotFound
from zhifu.models import Customer
from zhifu.scope import Scope


@dataclass(frozen=True)
class Snapshot:
    """What must not have moved between reading a memory and committing an answer written with it. It says where the
    content lies and nothing of it; without consent there is no snapshot."""

    epoch: int
    revision: int
    value_key: str

    @classmethod
    def of(cls, profile: MemoryProfile) -> Self | None:
        return cls(profile.epoch, profile.revision, profile.value_key) if profile.consent else None

    @classmethod
    def from_dict(cls, data: dict[str, Any] | None) -> Self | None:
        return cls(**data) if data is not None else None

    def as_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "revision": self.revision, "value_key": self.value_key}


def get_profile(scope: Scope) -> MemoryProfile:
    """Return the profile of the customer who asks. Raises NotFound for anybody else."""
    own = MemoryProfile.objects.in_scope(scope)
    profile: MemoryProfile | None = own.first() if scope.is_customer else None
    if profile is None:
        raise NotFound
    return profile


def snapshot(customer_id: int) -> Snapshot | None:
    """Return the snapshot of now, without a lock."""
    return Snapshot.of(MemoryProfile.objects.get(customer_id=customer_id))


def lock_snapshot(customer_id: int) -> Snapshot | None:
    """Return the snapshot with the profile locked until the transaction ends."""
    return Snapshot.of(MemoryProfile.objects.select_for_update().get(customer_id=customer_id))


def origins_of(profile: MemoryProfile) -> dict[str, FieldOrigin]:
    """Return who set or withdrew each field, by its name."""
    origins = FieldOrigin.objects.filter(profile=profile, field__in=FIELDS)
    return {origin.field: origin for origin in origins.select_related("message", "job")}


def fields_in_use(origins: dict[str, FieldOrigin], now: datetime) -> list[str]:
    """Return the fields whose value still counts: set, not withdrawn, and not too long ago."""
    return [
        field
        for field, origin in origins.items()
        if origin.withdrawn_at is None and confidence_now(origin.confidence, origin.stated_at, now) >= LEAST_CONFIDENCE
    ]


def history(scope: Scope) -> QuerySet[MemoryEvent]:
    """Return what happened to the memory of the customer who asks. Raises NotFound for anybody else."""
    get_profile(scope)
    return MemoryEvent.objects.in_scope(scope).select_related("job__message", "run")


def is_idle(customer_id: int) -> bool:
    """Say whether no conversation of the customer has an active run: follows keys to the right by their names."""
    return not Customer.objects.filter(pk=customer_id, conversations__active_run__isnull=False).exists()


def question_of_run(run: UUID | int) -> int | None:
    """Return the message that a run (its UUID or id) answers, None when there is no such run: follows keys as
    is_idle does."""
    name = "public_id" if isinstance(run, UUID) else "pk"
    runs = Customer.objects.filter(**{f"conversations__runs__{name}": run})
    return runs.values_list("conversations__runs__trigger_id", flat=True).first()
