"""How content comes into force and goes: write-ahead, pointer, erasure. Every key is, at any moment, pointed to by a
profile, or pending, or erased."""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.core.cache import cache
from django.db.models import Q, QuerySet

from memory import store
from memory.communication import Communication
from memory.models import MemoryProfile, PendingErasure
from zhifu import errors, faults, queue
from zhifu.batches import BATCH
from zhifu.transactions import database_now, run_statement

logger = logging.getLogger(__name__)

_SCAN_EVERY = timedelta(days=1)
_SCANNED = "memory.scanned"


class StagedContentErased(errors.Unavailable):
    """Its writer took longer than anybody may; the content was erased before it could come into force."""

    code = "MEMORY_UNAVAILABLE"

    def __init__(self) -> None:
        super().__init__("写入记忆超时，请重试 / Storing took too long; try again.")


def stage(profile: MemoryProfile, epoch: int, content: Communication, kept: timedelta | None = None) -> str:
    """Store `content` under a new key, and return the key; `adopt` brings it into force, else it is erased.

    `kept`: for how long, if not for settings.MEMORY_STORED. Call it with no transaction open. Raises
    store.MemoryUnavailable and StagedContentErased.
    """
    key = store.new_key(profile.tenant_id, profile.customer_id, epoch)
    until = database_now() + timedelta(seconds=settings.LEASE_SECONDS)
    PendingErasure.objects.create(key=key, staged_until=until)
    faults.point("memory.before_write")
    if not store.write(key, content.stored(), kept):
        raise StagedContentErased
    faults.point("memory.after_write")
    return key


def adopt(profile: MemoryProfile, key: str, now: datetime) -> None:
    """Point the locked `profile` to staged content, and doom what it pointed to; the caller saves the profile.

    Raises StagedContentErased when the sweeper has begun to erase it.
    """
    staged, _ = PendingErasure.objects.filter(key=key, staged_until__isnull=False).delete()
    if staged != 1:
        raise StagedContentErased
    let_go(profile)
    profile.value_key = key
    profile.value_expires_at = now + settings.MEMORY_READABLE


def let_go(profile: MemoryProfile) -> None:
    """Take the content of the locked `profile` out of reach and doom it; the caller saves the profile."""
    if profile.value_key:
        PendingErasure.objects.bulk_create([PendingErasure(key=profile.value_key)], ignore_conflicts=True)
        queue.send("memory.erase_pending")
    profile.value_key = ""
    profile.value_expires_at = None


def doom(key: str) -> None:
    """Have staged content that did not come into force erased now instead of when its time is over.

    Also when its row has been swept: what its writer wrote after that may lie there all the same.
    """
    PendingErasure.objects.update_or_create(key=key, defaults={"staged_until": None})
    queue.send("memory.erase_pending")


def erase_pending() -> int:
    """Erase what is doomed or was staged too long, and return how much; the rest stays on record while the store is
    out of reach."""
    erased = 0
    while batch := list(due()[:BATCH]):
        for row in batch:
            if not _erase(row):
                return erased
            erased += 1
    if erased:
        store.leave_no_copies()
    return erased


def due() -> QuerySet[PendingErasure]:
    """Return what is to be erased now: doomed, or staged for too long."""
    return PendingErasure.objects.filter(Q(staged_until=None) | Q(staged_until__lt=database_now())).order_by("pk")


def _erase(row: PendingErasure) -> bool:
    # From here on nobody can adopt it; a row that was adopted since it was read is left alone.
    this = PendingErasure.objects.filter(pk=row.pk)
    if row.staged_until is not None and not run_statement(this.update, staged_until=None):
        return True
    try:
        store.erase(row.key)
    except store.MemoryUnavailable:
        logger.warning("erasures wait for the memory store")
        return False
    faults.point("memory.after_erase")
    run_statement(this.delete)
    return True


def erase_orphans() -> int:
    """Erase content that no profile points to and nobody is about to, and return how much: what a store brought back
    from an old copy of itself, say. Raises store.MemoryUnavailable."""
    erased = 0
    for keys in store.keys_with_content():
        # At once and without a row, which a key that is not of ours may be too long for. Nobody can adopt these.
        for key in orphans_among(keys):
            store.erase(key)
            erased += 1
    erase_pending()
    return erased


def orphans_among(keys: list[str]) -> list[str]:
    """Return which of these keys, which hold content, are neither pending nor pointed to.

    In this order: a key goes from pending to pointed to, and one asked about between is found in either case.
    """
    pending = set(PendingErasure.objects.filter(key__in=keys).values_list("key", flat=True))
    pointed = set(MemoryProfile.objects.filter(value_key__in=keys).values_list("value_key", flat=True))
    return [key for key in keys if key not in pending and key not in pointed]


def order_scan() -> int:
    """Have the store looked through for orphans once a day, by whichever process comes first; return how often."""
    if not cache.add(_SCANNED, 1, _SCAN_EVERY.total_seconds()):
        return 0
    queue.send("memory.scan_store")
    return 1


def scan() -> None:
    """Look the store through as ordered; one that is out of reach is looked through in a later round of the sweeper."""
    try:
        erase_orphans()
    except store.MemoryUnavailable:
        cache.delete(_SCANNED)
        logger.warning("the scan waits for the memory store")
