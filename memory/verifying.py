"""Comparing the memory store with MySQL, both ways. It only reads, and a busy system may be compared: what looks
wrong is looked at again."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import Q

from memory import content, store
from memory.models import MemoryProfile, PendingErasure
from zhifu.batches import BATCH, batches
from zhifu.jobs import grace
from zhifu.transactions import database_now


class Kind(StrEnum):
    ORPHAN = "content that no row answers for"
    STRANGE = "key of another shape"
    OVERDUE = "erasure that is overdue"
    MISFIT = "pointer to another tenant, customer or epoch"
    # A store may lose things; it is said to the customer, and repaired by what they say next.
    GONE = "content that is gone"


@dataclass(frozen=True)
class Difference:
    """`where` names a key of ours or a row: numbers, nothing that was remembered."""

    kind: Kind
    where: str


def differences() -> Iterator[Difference]:
    """Yield every difference. Raises store.MemoryUnavailable."""
    yield from unanswered()
    yield from _overdue(database_now())
    for batch in batches(MemoryProfile.objects.exclude(value_key="")):
        yield from _misfits(batch)
        yield from _gone(batch)


def unanswered() -> Iterator[Difference]:
    """Yield the content that no row answers for, what content.erase_orphans would erase. Raises as differences."""
    for keys in store.keys_with_content():
        yield from _unanswered(keys)


def _unanswered(keys: list[str]) -> Iterator[Difference]:
    ours = [key for key in keys if store.parts(key) is not None]
    if len(ours) < len(keys):
        # Even the name of such a key may be somebody's words.
        yield from (Difference(Kind.STRANGE, "name withheld") for _ in range(len(keys) - len(ours)))
    # One that was erased since it was listed is none.
    yield from (Difference(Kind.ORPHAN, key) for key in sorted(store.holding(content.orphans_among(ours))))


def _overdue(now: datetime) -> Iterator[Difference]:
    before = now - grace()
    overdue = Q(created_at__lt=before) & (Q(staged_until=None) | Q(staged_until__lt=before))
    for row in PendingErasure.objects.filter(overdue).iterator(chunk_size=BATCH):
        yield Difference(Kind.OVERDUE, row.key)


def _misfits(profiles: list[MemoryProfile]) -> Iterator[Difference]:
    for profile in profiles:
        expected = store.KeyParts(profile.tenant_id, profile.customer_id, profile.epoch)
        if store.parts(profile.value_key) != expected:
            yield Difference(Kind.MISFIT, f"profile {profile.pk}")


def _gone(profiles: list[MemoryProfile]) -> Iterator[Difference]:
    now = database_now()
    pointers = {
        profile.value_key: profile.pk
        for profile in profiles
        if profile.value_expires_at is not None and now < profile.value_expires_at
    }
    missing = set(pointers) - store.holding(list(pointers))
    # One that was let go of since it was listed is none.
    still = MemoryProfile.objects.filter(value_key__in=missing).order_by("pk")
    yield from (Difference(Kind.GONE, f"profile {pk}") for pk in still.values_list("pk", flat=True))
