"""Who works, where they can be stopped, and what is written down about their work."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings

from tests.memory.reference import Said
from zhifu.jobs import LeasedJob

CHANGE_POINTS = ("memory.before_write", "memory.after_write")
JOB_POINTS = (
    "memory.after_claim",
    "memory.before_model",
    "memory.after_model",
    *CHANGE_POINTS,
    "memory.before_commit",
    "memory.after_commit",
)
READ_POINTS = ("memory.after_profile", "memory.after_content")
RUN_POINTS = (
    "agents.after_claim",
    "agents.after_recall",
    "agents.before_model",
    "agents.after_model",
    "agents.before_commit",
    "agents.after_commit",
)
# While a transaction is open nobody else can act on this connection, but its worker can die.
INSIDE_POINTS = ("memory.in_commit", "agents.in_commit", "memory.after_erase")
LEASE = timedelta(seconds=settings.LEASE_SECONDS + 5)

# A fault point, and what happens while a worker stands there.
Plan = tuple[str, tuple[str, ...]]
Row = tuple[Any, ...]


@dataclass
class Worker:
    """Somebody at work on a job, a run, a change or the erasures, for a customer."""

    customer: int
    pk: int = 0
    plan: Plan | None = None
    # Whether the model understands the message, when this is a memory worker.
    understands: bool = True
    attempt: int = 0
    # What a run may be told, and the memory it then rests on.
    readable: dict[str, str] = field(default_factory=dict)
    snapshot: int | None = None


@dataclass
class JobBook:
    """A memory job: its message, what the model said at each attempt, and the row as it ended."""

    said: Said
    stated: dict[int, dict[str, str | None]] = field(default_factory=dict)
    settled: Row | None = None


@dataclass
class RunBook:
    """A run: the memory under which each reply was given, and the one in force at its commit."""

    customer: int
    replies: dict[str, int | None] = field(default_factory=dict)
    committed_under: int | None = None
    settled: Row | None = None


def row_of(row: LeasedJob) -> Row:
    """Return what never changes once a row has ended."""
    return (row.status, row.error_code, row.attempts, row.finished_at, row.lease_token, getattr(row, "outcome", ""))
