"""What customers decide about their own memory: consent, change, clear. Each ends what was said before it: epoch and
revision grow, the old content is out of reach at once, and jobs of older messages can write no more. Each returns what
is then known, without asking the store again.
"""

from collections.abc import Mapping
from datetime import datetime

from memory import content, profiles, queries, recalling, recording, store
from memory.communication import USER_CONFIDENCE, Communication
from memory.models import EventKind, FieldOrigin, MemoryProfile, Source
from memory.recalling import Recollection
from zhifu import audit, errors
from zhifu.scope import Scope
from zhifu.transactions import commit, database_now

_OWN = "memory:own"


def set_consent(*, scope: Scope, enabled: bool, expected_revision: int) -> Recollection:
    """Allow or forbid remembering. What was remembered goes in either case, also when nothing else changes.

    Raises NotFound for anybody but a customer, Conflict (REVISION_CONFLICT) when the memory has moved on.
    """
    with audit.recorded(scope, "memory.set_consent", "memory") as entry:
        scope.require(_OWN)
        entry.data = {"enabled": enabled}
        profile = commit(_set_consent, scope, enabled, expected_revision)
        entry.object_id = str(profile.pk)
    return recalling.known(profile, Communication())


def clear_memory(*, scope: Scope, expected_revision: int) -> Recollection:
    """Forget everything, and keep the choice whether to remember. Raises as set_consent does."""
    with audit.recorded(scope, "memory.clear", "memory") as entry:
        scope.require(_OWN)
        profile = commit(_clear, scope, expected_revision)
        entry.object_id = str(profile.pk)
    return recalling.known(profile, Communication())


def change_memory(*, scope: Scope, changes: Mapping[str, str | None], expected_revision: int) -> Recollection:
    """Set or remove fields by the customer's own hand; the others stay. `changes` holds canonical values.

    Raises as set_consent does, Conflict (CONSENT_REQUIRED) without consent, and store.MemoryUnavailable when the
    store does not answer: then nothing has changed.
    """
    with audit.recorded(scope, "memory.change", "memory") as entry:
        scope.require(_OWN)
        entry.data = {"fields": sorted(changes)}
        profile = queries.get_profile(scope)
        entry.object_id = str(profile.pk)
        _check_revision(profile, expected_revision)
        _check_consent(profile)
        values = _known(profile).stored() | dict(changes)
        wanted = Communication.from_stored(values)
        key = content.stage(profile, profile.epoch + 1, wanted)
        try:
            changed = commit(_change, scope, changes, key, expected_revision)
        except errors.Failure:
            content.doom(key)
            raise
    return recalling.known(changed, wanted)


def _known(profile: MemoryProfile) -> Communication:
    """Return what still counts of the content; what was lost cannot be kept."""
    known: Recollection = recalling.recall(profile.customer_id)
    if known.failure is not None and not isinstance(known.failure, store.MemoryLost):
        raise known.failure
    return known.communication


def _set_consent(scope: Scope, enabled: bool, expected_revision: int) -> MemoryProfile:
    profile = _lock(scope, expected_revision)
    profile.consent = enabled
    _forget(profile)
    recording.record(profile, EventKind.CONSENTED if enabled else EventKind.WITHDRAWN, scope=scope)
    return profile


def _clear(scope: Scope, expected_revision: int) -> MemoryProfile:
    profile = _lock(scope, expected_revision)
    _forget(profile)
    recording.record(profile, EventKind.CLEARED, scope=scope)
    return profile


def _forget(profile: MemoryProfile) -> None:
    content.let_go(profile)
    FieldOrigin.objects.filter(profile=profile).delete()
    profiles.begin_epoch(profile)


def _change(scope: Scope, changes: Mapping[str, str | None], key: str, expected_revision: int) -> MemoryProfile:
    profile = _lock(scope, expected_revision)
    _check_consent(profile)
    now = database_now()
    content.adopt(profile, key, now)
    profiles.begin_epoch(profile)
    _set_origins(profile, changes, now)
    recording.record(profile, EventKind.CHANGED, fields=changes, scope=scope)
    return profile


def _set_origins(profile: MemoryProfile, changes: Mapping[str, str | None], now: datetime) -> None:
    FieldOrigin.objects.filter(profile=profile, field__in=changes).delete()
    FieldOrigin.objects.bulk_create(
        FieldOrigin(profile=profile, field=field, source=Source.USER, confidence=USER_CONFIDENCE, stated_at=now)
        for field, value in changes.items()
        if value is not None
    )


def _lock(scope: Scope, expected_revision: int) -> MemoryProfile:
    found = queries.get_profile(scope)
    profile: MemoryProfile = MemoryProfile.objects.select_for_update().get(pk=found.pk)
    _check_revision(profile, expected_revision)
    return profile


def _check_revision(profile: MemoryProfile, expected: int) -> None:
    if profile.revision != expected:
        raise errors.Conflict(
            "记忆刚刚变过，请重新读取后再试 / The memory has changed since you read it; read it again, then repeat.",
            code="REVISION_CONFLICT",
            revision=profile.revision,
        )


def _check_consent(profile: MemoryProfile) -> None:
    if not profile.consent:
        raise errors.Conflict(
            "请先用 PUT /openapi/v1/memory/consent 开启记忆，再设置 / Memory is switched off: allow it first by PUT "
            "/openapi/v1/memory/consent, then set it at the revision that is answered.",
            code="CONSENT_REQUIRED",
        )
