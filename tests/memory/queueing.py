"""Memory jobs as the workers that get their hints see them."""

from datetime import timedelta

from django.conf import settings as configured

from config.models import UsagePurpose, UsageRecord
from memory import jobs
from memory.models import MemoryJob
from zhifu.jobs import JobStatus
from zhifu.transactions import database_now


def now_due(job: MemoryJob) -> MemoryJob:
    """Let the time pass that a job waits before it is looked at again."""
    MemoryJob.objects.filter(pk=job.pk).update(run_after=database_now(), hinted_at=None)
    return fresh(job)


def fresh(job: MemoryJob) -> MemoryJob:
    return MemoryJob.objects.get(pk=job.pk)


def claimed(job: MemoryJob) -> MemoryJob:
    """Be the worker that gets the hint of a job which may start."""
    held = jobs.claim(now_due(job).pk)
    assert held is not None
    assert (held.status, held.waits_for) == (JobStatus.RUNNING, "")
    return held


def let_wait(job: MemoryJob, what: str) -> MemoryJob:
    """Be the worker that gets the hint of a job which has to wait."""
    assert jobs.claim(now_due(job).pk) is None
    waiting = fresh(job)
    assert (waiting.status, waiting.waits_for) == (JobStatus.QUEUED, what)
    assert waiting.attempts == job.attempts, "having to wait is no attempt"
    assert timedelta() < waiting.run_after - database_now() <= timedelta(seconds=configured.SWEEP_SECONDS)
    return waiting


def is_due(job: MemoryJob) -> bool:
    row = fresh(job)
    return row.status == JobStatus.QUEUED and row.run_after <= database_now()


def calls_for(job: MemoryJob) -> int:
    return UsageRecord.objects.filter(purpose=UsagePurpose.EXTRACTION, subject_id=job.pk).count()
