"""LeasedJob: the row that is the truth about a piece of background work, and the sweeper behind it.

A worker claims a row by one conditional UPDATE and holds a lease; it renews between steps, and every later
write names the lease in its WHERE. A worker that dies is followed by another once the lease has run out.
"""

import logging
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self
from uuid import UUID, uuid4

from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.expressions import CombinedExpression

from zhifu import queue
from zhifu.errors import LeaseLost, Unavailable
from zhifu.transactions import DatabaseNow, database_now, run_statement

logger = logging.getLogger(__name__)


class JobStatus(models.TextChoices):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


# Rows of one kind that a round looks at.
_SWEPT_AT_ONCE = 5000
# In rounds. With the round that then sends, well inside the grace after which check_promises calls a job forgotten.
_LONGEST_PAUSE = 3

_FIRST_PAUSE_SECONDS = 5

OPEN_STATUSES = (JobStatus.QUEUED, JobStatus.RUNNING)


class LeasedJob(models.Model):
    """Base of every job row."""

    task_name: ClassVar[str]

    status = models.CharField(max_length=16, choices=JobStatus.choices, default=JobStatus.QUEUED)
    lease_token = models.UUIDField(null=True, editable=False)
    lease_until = models.DateTimeField(null=True, editable=False)
    attempts = models.PositiveIntegerField(default=0)
    run_after = models.DateTimeField(default=database_now)
    hinted_at = models.DateTimeField(null=True, editable=False)
    error_code = models.CharField(max_length=64, blank=True)
    error_message = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(default=database_now, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    finished_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        abstract = True

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_STATUSES

    def hint(self) -> None:
        """Tell the queue, once committed, that this row is ready."""
        queue.send(self.task_name, self.pk)

    @classmethod
    def claim(cls, pk: int) -> Self | None:
        """Take the job and return it with a fresh lease; None when it is not due, done or held by another.

        `attempts` counts this claim. The caller ends a job whose attempts exceed settings.MAX_ATTEMPTS.
        """
        now = DatabaseNow()
        due = Q(status=JobStatus.QUEUED, run_after__lte=now) | Q(status=JobStatus.RUNNING, lease_until__lt=now)
        changed = run_statement(
            cls._base_manager.filter(due, pk=pk).update,
            status=JobStatus.RUNNING,
            lease_token=uuid4(),
            lease_until=_lease_end(),
            attempts=F("attempts") + 1,
            started_at=now,
        )
        return cls._base_manager.get(pk=pk) if changed else None

    def renew(self) -> None:
        """Lengthen the lease. Raises LeaseLost when the job is no longer this worker's."""
        self._update_held(lease_until=_lease_end())

    def write_held(self, **values: Any) -> None:
        """UPDATE columns while the lease is held. Raises LeaseLost when the job is no longer this worker's."""
        self._update_held(**values)
        for name, value in values.items():
            setattr(self, name, value)

    def retry_later(self, *, code: str, message: str, seconds: float) -> None:
        """Give the job back to the queue, to be tried again after `seconds`, with the reason of this failure.

        Raises LeaseLost when the job is no longer this worker's.
        """
        self.write_held(
            status=JobStatus.QUEUED,
            run_after=database_now() + timedelta(seconds=seconds),
            lease_until=None,
            error_code=code,
            error_message=message[:500],
        )

    def pause(self, failure: Unavailable) -> float:
        """Return the seconds until the next attempt after `failure`: doubled each time, or longer if it asks for it."""
        return float(max(_FIRST_PAUSE_SECONDS * 2 ** (self.attempts - 1), failure.retry_after or 0))

    def _update_held(self, **values: Any) -> None:
        held = type(self)._base_manager.filter(pk=self.pk, status=JobStatus.RUNNING, lease_token=self.lease_token)
        if run_statement(held.update, **values) != 1:
            raise LeaseLost(f"{self._meta.label} {self.pk}")


def _lease_end() -> CombinedExpression:
    return DatabaseNow() + timedelta(seconds=settings.LEASE_SECONDS)


def holds(job: LeasedJob, lease_token: UUID | None) -> bool:
    """Say whether a freshly locked `job` row is still RUNNING under `lease_token`."""
    return job.status == JobStatus.RUNNING and job.lease_token == lease_token


def grace() -> timedelta:
    """How long something may be under way before it counts as lost: the sweeper gives up a model call after two
    leases, and a few rounds of it may be late."""
    return timedelta(seconds=2 * settings.LEASE_SECONDS + 4 * settings.SWEEP_SECONDS)


def job_models() -> list[type[LeasedJob]]:
    """Return every concrete kind of job."""
    return [model for model in apps.get_models() if issubclass(model, LeasedJob)]


def sweep() -> int:
    """Send again what is due and was not taken: lost messages, retries whose time has come, dead workers' jobs.

    Returns how many hints were sent. Safe to run at any time, also twice at once: hints are only hints.
    """
    return sum(_sweep_model(model) for model in job_models())


def _sweep_model(model: type[LeasedJob]) -> int:
    now = database_now()
    waiting = Q(status=JobStatus.QUEUED, run_after__lte=now)
    dead = Q(status=JobStatus.RUNNING, lease_until__lt=now)
    stale = Q(hinted_at=None) | Q(hinted_at__lt=now - timedelta(seconds=settings.SWEEP_SECONDS))
    rows = (
        model._base_manager.filter(waiting | dead, stale)
        .order_by("pk")
        .values_list("pk", "status", "run_after", "hinted_at")
    )
    due = [
        pk
        for pk, status, run_after, hinted_at in rows[:_SWEPT_AT_ONCE]
        if status == JobStatus.RUNNING or _is_quiet(now, run_after, hinted_at)
    ]
    run_statement(model._base_manager.filter(pk__in=due).update, hinted_at=now)
    for pk in due:
        queue.send(model.task_name, pk)
    return len(due)


def _is_quiet(now: datetime, run_after: datetime, hinted_at: datetime | None) -> bool:
    """Say whether a queued job has waited since its last hint as long as it had before it: behind a long queue its
    hints grow rarer instead of piling up, down to one in _LONGEST_PAUSE rounds."""
    if hinted_at is None:
        return True
    longest = timedelta(seconds=settings.SWEEP_SECONDS * _LONGEST_PAUSE)
    return now - hinted_at >= min(hinted_at - run_after, longest)
