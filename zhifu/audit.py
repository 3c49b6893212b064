"""Writing the audit trail."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from zhifu.errors import Failure
from zhifu.models import AuditEvent, AuditOutcome
from zhifu.scope import Scope
from zhifu.transactions import DatabaseNow


@dataclass
class Entry:
    """What a block wants the trail to say about it."""

    object_id: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@contextmanager
def recorded(scope: Scope, action: str, object_kind: str = "", object_id: str = "") -> Iterator[Entry]:
    """Record how the block ended and how long it took; expected failures count as REFUSED.

    Use it around the transaction, not inside: a refusal rolls back what is inside.
    """
    entry = Entry(object_id=object_id)
    started = time.monotonic()
    outcome, code = AuditOutcome.FAILED, ""
    try:
        yield entry
        outcome = AuditOutcome.OK
    except Failure as failure:
        outcome, code = AuditOutcome.REFUSED, failure.code
        raise
    finally:
        AuditEvent.objects.create(
            tenant_id=scope.tenant_id,
            actor_kind=scope.actor_kind,
            actor_id=scope.actor_id,
            action=action,
            object_kind=object_kind,
            object_id=entry.object_id,
            outcome=outcome,
            code=code,
            data=entry.data,
            duration_ms=round((time.monotonic() - started) * 1000),
            # The default would ask the database for its clock first.
            created_at=DatabaseNow(),
        )


def text_hash(text: str) -> str:
    """Return the form in which a customer's text may appear in the trail."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
