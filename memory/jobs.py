"""Memory jobs from message to end: when one may start, what it waits for, and who starts it then.

Locks are taken in this order: TenantQuota, MemoryProfile, MemoryJob; whoever ends a run holds its conversation and
run before. A job that must wait says for what, and is looked at again after a sweep at the latest.
"""

import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, F, Q, Value, When

from config.models import TenantQuota
from memory import queries
from memory.models import MemoryJob, MemoryProfile, WaitsFor
from zhifu import errors, faults
from zhifu.jobs import JobStatus, holds
from zhifu.transactions import commit, database_now

logger = logging.getLogger(__name__)

_NO_CONSENT = "客户在此之后撤回、清空或修改了记忆 / The customer has withdrawn, cleared or changed their memory since."


class Outdated(errors.Failure):
    """The customer has decided something since: what was said before may not be written any more."""

    code = "EPOCH_ENDED"

    def __init__(self) -> None:
        super().__init__(_NO_CONSENT)


def enqueue(*, tenant_id: int, customer_id: int, message_id: int, now: datetime) -> None:
    """Insert the job that reads a message, if the customer consents; in the transaction that stores the message.

    It waits for the run that answers the message, which starts in the same transaction.
    """
    consented = MemoryProfile.objects.filter(customer_id=customer_id, consent=True)
    epoch = consented.values_list("epoch", flat=True).first()
    if epoch is None:
        return
    MemoryJob.objects.create(
        tenant_id=tenant_id,
        customer_id=customer_id,
        message_id=message_id,
        epoch=epoch,
        waits_for=WaitsFor.RUN,
        run_after=now + _look_again(),
        created_at=now,
    )


def claim(job_id: int) -> MemoryJob | None:
    """Take a job that is due and return it under a fresh lease; None when it is not due, has to wait, or was
    cancelled here because the customer has decided otherwise since."""
    found = MemoryJob.objects.filter(pk=job_id).only("tenant_id", "customer_id").first()
    if found is None:
        return None
    TenantQuota.objects.get_or_create(tenant_id=found.tenant_id)
    claimed = commit(_claim, found)
    if claimed is None:
        # Not while its row is locked: whoever ends a run takes such rows in another order.
        commit(_pass_on, job_id)
    return claimed


def is_of_this_epoch(profile: MemoryProfile, job: MemoryJob) -> bool:
    """Say whether the customer consents, and has decided nothing since the message was said."""
    return profile.consent and profile.epoch == job.epoch


def finish(job: MemoryJob, status: JobStatus, *, code: str = "", message: str = "", outcome: str = "") -> None:
    """End a job and start what waited for it. Raises errors.LeaseLost when it is no longer this worker's."""
    commit(_finish, job, status=status, error_code=code, error_message=message[:500], outcome=outcome)


def put_back(job: MemoryJob, failure: errors.Failure, seconds: float, *, attempts: int | None = None) -> None:
    """Have a job tried again after `seconds`; others may go first. `attempts`: how many are to count, when not all.

    Raises errors.LeaseLost as finish does.
    """
    commit(_put_back, job, failure, seconds, job.attempts if attempts is None else attempts)


def lock_held(job: MemoryJob) -> MemoryProfile:
    """Lock quota, profile and job, and return the profile. Raises errors.LeaseLost as finish does."""
    TenantQuota.objects.select_for_update().get(tenant_id=job.tenant_id)
    profile: MemoryProfile = MemoryProfile.objects.select_for_update().get(customer_id=job.customer_id)
    held = MemoryJob.objects.select_for_update().only("status", "lease_token").filter(pk=job.pk).first()
    if held is None or not holds(held, job.lease_token):
        raise errors.LeaseLost(f"memory job {job.pk}")
    return profile


def end_held(job: MemoryJob, status: JobStatus, now: datetime, **values: Any) -> None:
    """End the locked `job` and start what waited for it; part of the transaction that locked it."""
    job.write_held(status=status, running_customer=None, lease_until=None, finished_at=now, **values)
    _start_next(job, now)


def start_waiting(customer_id: int, now: datetime) -> None:
    """Have the jobs of a customer looked at whose run has just ended; part of the transaction that ends it."""
    # Every queued one is named, so that this waits for a claim that is just about to let one wait, and finds it.
    queued = MemoryJob.objects.filter(customer_id=customer_id, status=JobStatus.QUEUED)
    _wake(list(queued.order_by("pk").values_list("pk", flat=True)), now)


def _claim(found: MemoryJob) -> MemoryJob | None:
    quota = TenantQuota.objects.select_for_update().get(tenant_id=found.tenant_id)
    profile = MemoryProfile.objects.select_for_update().get(customer_id=found.customer_id)
    job: MemoryJob = MemoryJob.objects.select_for_update().get(pk=found.pk)
    now = database_now()
    if not _is_due(job, now):
        return None
    if not is_of_this_epoch(profile, job):
        _cancel(job, now)
        return None
    obstacle = _obstacle(job, quota)
    faults.point("memory.in_claim")
    if obstacle:
        _let_wait(job, obstacle, now)
        return None
    claimed = MemoryJob.claim(job.pk)
    if claimed is not None:
        claimed.write_held(running_customer_id=job.customer_id, revision=profile.revision, waits_for="")
    return claimed


def _is_due(job: MemoryJob, now: datetime) -> bool:
    if job.status == JobStatus.RUNNING:
        return job.lease_until is not None and job.lease_until < now
    return bool(job.status == JobStatus.QUEUED and job.run_after <= now)


def _cancel(job: MemoryJob, now: datetime) -> None:
    outdated = Outdated()
    job.status = JobStatus.CANCELLED
    job.error_code = outdated.code
    job.error_message = outdated.message
    job.running_customer = None
    job.lease_until = None
    job.waits_for = ""
    job.finished_at = now
    job.save()


def _obstacle(job: MemoryJob, quota: TenantQuota) -> str:
    """Return what `job` has to wait for, or nothing."""
    if not queries.is_idle(job.customer_id):
        return WaitsFor.RUN
    running = MemoryJob.objects.filter(tenant_id=job.tenant_id, status=JobStatus.RUNNING).exclude(pk=job.pk)
    if running.filter(customer_id=job.customer_id).exists():
        return WaitsFor.JOB
    if running.count() >= quota.background_jobs:
        return WaitsFor.ALLOWANCE
    return ""


def _let_wait(job: MemoryJob, obstacle: str, now: datetime) -> None:
    job.status = JobStatus.QUEUED
    job.running_customer = None
    job.lease_until = None
    job.waits_for = obstacle
    job.run_after = now + _look_again()
    job.save()


def _pass_on(job_id: int) -> None:
    """Have others looked at after a job that was not taken: what its end was waited for, or the allowance that it may
    have been woken for and cannot use."""
    job = MemoryJob.objects.filter(pk=job_id).first()
    if job is None:
        return
    if job.status == JobStatus.CANCELLED:
        _start_next(job, database_now())
    elif job.waits_for in (WaitsFor.RUN, WaitsFor.JOB):
        _wake(_waiting_for_allowance(job.tenant_id), database_now())


def _finish(job: MemoryJob, status: JobStatus, **values: Any) -> None:
    lock_held(job)
    end_held(job, status, database_now(), **values)


def _put_back(job: MemoryJob, failure: errors.Failure, seconds: float, attempts: int) -> None:
    lock_held(job)
    now = database_now()
    job.write_held(running_customer=None, attempts=attempts)
    job.retry_later(code=failure.code, message=failure.message, seconds=seconds)
    _start_next(job, now)


def _start_next(ended: MemoryJob, now: datetime) -> None:
    """Wake what waited for this customer's running job, and one that waited for its tenant's allowance."""
    of_customer = MemoryJob.objects.filter(
        customer_id=ended.customer_id, status=JobStatus.QUEUED, waits_for=WaitsFor.JOB
    )
    oldest = of_customer.order_by("pk").values_list("pk", flat=True)[:1]
    _wake([*oldest, *_waiting_for_allowance(ended.tenant_id)], now)


def _waiting_for_allowance(tenant_id: int) -> list[int]:
    """Return the oldest job of a tenant that waits for its allowance, if there is one."""
    waiting = MemoryJob.objects.filter(tenant_id=tenant_id, status=JobStatus.QUEUED, waits_for=WaitsFor.ALLOWANCE)
    return list(waiting.order_by("pk").values_list("pk", flat=True)[:1])


def _wake(job_ids: list[int], now: datetime) -> None:
    """Make waiting jobs due, and hint them; one that was put back for a while keeps its time."""
    if not job_ids:
        return
    # By key alone, and no other column: a claim that holds such a row must not be met over an index, which deadlocks.
    # One that is not queued waits for nothing and stays as it is.
    rows = MemoryJob.objects.filter(pk__in=job_ids)
    waits = ~Q(waits_for="")
    # In this order: MySQL assigns from left to right.
    rows.update(run_after=Case(When(waits, then=Value(now)), default=F("run_after")), waits_for="")
    for job in MemoryJob.objects.filter(pk__in=job_ids, status=JobStatus.QUEUED, run_after__lte=now):
        job.hint()


def _look_again() -> timedelta:
    return timedelta(seconds=settings.SWEEP_SECONDS)
