"""A memory job's work: read one message, and bring what it lastingly wishes into force, if nothing has moved.

The model is asked and the store written with no transaction open; one short commit then decides.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings

from config import gateway
from config.model_reply import ModelReply
from config.models import UsagePurpose
from memory import content, evidence, jobs, queries, recalling, recording, store
from memory.communication import EXTRACTED_CONFIDENCE, Communication
from memory.evidence import Wish
from memory.models import EventKind, FieldOrigin, JobOutcome, MemoryJob, MemoryProfile, Source
from zhifu import credentials, errors, faults
from zhifu.jobs import JobStatus
from zhifu.transactions import commit, database_now

logger = logging.getLogger(__name__)

STORE_AWAY_SECONDS = 30


class GivenUp(errors.Failure):
    """The job has ended several workers, or they it."""

    code = "ATTEMPTS_EXHAUSTED"

    def __init__(self) -> None:
        super().__init__("多次尝试仍未能读取这条消息 / Several attempts could not read this message.")


class ScopeEnded(errors.Failure):
    """The customer, the store or the merchant is no longer served."""

    code = "SCOPE_ENDED"

    def __init__(self) -> None:
        super().__init__("客户、店铺或商家已停用 / Customer, store or merchant is no longer served.")


@dataclass(frozen=True)
class _Change:
    """The wishes of a message that no newer one has settled, and the content with them; None: it stays as it is."""

    wishes: tuple[Wish, ...]
    content: Communication | None


def run_extraction(job_id: int) -> None:
    """Work on a memory job until it is completed, failed, cancelled, waiting or put back."""
    job = jobs.claim(job_id)
    if job is None:
        return
    faults.point("memory.after_claim")
    try:
        _settle(job)
    except errors.LeaseLost:
        logger.info("memory job lost to another worker", extra={"job": job.pk})


def _settle(job: MemoryJob) -> None:
    if job.attempts > settings.MAX_ATTEMPTS:
        _fail(job, GivenUp())
        return
    try:
        _extract(job)
    except errors.Failure as failure:
        _settle_failure(job, failure)
    except errors.LeaseLost:
        raise
    except Exception:
        logger.exception("extraction broke", extra={"job": job.pk})
        _settle_failure(job, errors.Unavailable("提取时出错 / The extraction broke.", code="INTERNAL"))


def _settle_failure(job: MemoryJob, failure: errors.Failure) -> None:
    if isinstance(failure, jobs.Outdated):
        _cancel(job, failure)
    elif isinstance(failure, errors.Unauthenticated):
        _cancel(job, ScopeEnded())
    elif isinstance(failure, errors.Unavailable) and job.attempts < settings.MAX_ATTEMPTS:
        jobs.put_back(job, failure, job.pause(failure))
    else:
        _fail(job, failure)


def _fail(job: MemoryJob, failure: errors.Failure) -> None:
    logger.warning("extraction failed for good", extra={"job": job.pk, "code": failure.code})
    jobs.finish(job, JobStatus.FAILED, code=failure.code, message=failure.message)


def _cancel(job: MemoryJob, failure: errors.Failure) -> None:
    jobs.finish(job, JobStatus.CANCELLED, code=failure.code, message=failure.message)


def _extract(job: MemoryJob) -> None:
    _check(job)
    try:
        # What could not be kept is not asked for.
        store.ping()
    except store.MemoryUnavailable as failure:
        # It is away for every job, and none is to end because of it.
        jobs.put_back(job, failure, STORE_AWAY_SECONDS, attempts=job.attempts - 1)
        return
    wishes = _wishes(job)
    _check(job)
    profile = MemoryProfile.objects.get(customer_id=job.customer_id)
    change = _change(profile, job, wishes)
    key = "" if change.content is None else content.stage(profile, job.epoch, change.content)
    try:
        faults.point("memory.before_commit")
        commit(_commit, job, change, key)
    except (errors.Failure, errors.LeaseLost):
        if key:
            content.doom(key)
        raise
    faults.point("memory.after_commit")


def _wishes(job: MemoryJob) -> list[Wish]:
    """Return what the message lastingly wishes, by its own words."""
    # Imported when first needed: langmem takes a second, which the web process never needs.
    from memory import extraction

    text = job.message.text
    return evidence.accepted(text, extraction.stated_wishes(text, partial(_ask, job)))


def _ask(job: MemoryJob, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> ModelReply:
    _check(job)
    faults.point("memory.before_model")
    reply = gateway.complete(
        tenant_id=job.tenant_id,
        purpose=UsagePurpose.EXTRACTION,
        subject_id=job.pk,
        messages=messages,
        tools=tools,
        deadline=time.monotonic() + settings.CHAT_TIMEOUT_SECONDS,
    )
    faults.point("memory.after_model")
    return reply


def _check(job: MemoryJob) -> None:
    """Stop early what could not be committed: the conditions of the commit, read without locks."""
    job.renew()
    credentials.customer_scope_by_id(job.customer_id, job.message.conversation.store_id)
    if not is_as_claimed(MemoryProfile.objects.get(customer_id=job.customer_id), job):
        raise jobs.Outdated


def is_as_claimed(profile: MemoryProfile, job: MemoryJob) -> bool:
    """Say whether consent, epoch and revision are what they were when the job was claimed."""
    return jobs.is_of_this_epoch(profile, job) and profile.revision == job.revision


def _change(profile: MemoryProfile, job: MemoryJob, wishes: list[Wish]) -> _Change:
    """Return what the wishes change. An older message never changes what a newer one has set or withdrawn."""
    origins = queries.origins_of(profile)
    known = _known(profile, origins).stored()
    newest = tuple(
        wish
        for wish in wishes
        if not _is_older(job, origins.get(wish.field)) and _concerns(wish, known.get(wish.field))
    )
    if all(wish.value is None and wish.field not in known for wish in newest):
        return _Change(newest, None)
    values = known | {wish.field: wish.value for wish in newest}
    return _Change(newest, Communication.from_stored(values))


def _is_older(job: MemoryJob, origin: FieldOrigin | None) -> bool:
    """Say whether the job's message was said before what set a field, or withdrew it."""
    if origin is None or origin.message_id is None:
        return False
    # By their numbers: a clock may step back.
    return bool(job.message_id < origin.message_id)


def _concerns(wish: Wish, known: str | None) -> bool:
    """Say whether a wish is about what is known: one that takes another value back ("no Cantonese any more") is not."""
    return wish.value is not None or known is None or not wish.of or known in wish.of


def _known(profile: MemoryProfile, origins: dict[str, FieldOrigin]) -> Communication:
    """Return the content so far, as far as it still counts; a lost or expired one is none."""
    now = database_now()
    if not recalling.is_readable(profile, now):
        return Communication()
    try:
        return recalling.read_content(profile).only(queries.fields_in_use(origins, now))
    except store.MemoryLost:
        return Communication()


def _commit(job: MemoryJob, change: _Change, key: str) -> None:
    """End the job with what it found in force. Raises jobs.Outdated when something has moved since the claim."""
    profile = jobs.lock_held(job)
    if not is_as_claimed(profile, job):
        raise jobs.Outdated
    now = database_now()
    _set_origins(profile, job, change.wishes, now)
    if key:
        content.adopt(profile, key, now)
        profile.revision += 1
        profile.save()
        fields = [wish.field for wish in change.wishes]
        recording.record(profile, EventKind.EXTRACTED, fields=fields, job=job)
    faults.point("memory.in_commit")
    jobs.end_held(job, JobStatus.COMPLETED, now, outcome=JobOutcome.STORED if key else JobOutcome.NOTHING)


def _set_origins(profile: MemoryProfile, job: MemoryJob, wishes: Iterable[Wish], now: datetime) -> None:
    for wish in wishes:
        FieldOrigin.objects.update_or_create(
            profile=profile,
            field=wish.field,
            defaults={
                "source": Source.EXTRACTION,
                "message_id": job.message_id,
                "job": job,
                "confidence": EXTRACTED_CONFIDENCE,
                "stated_at": job.message.committed_at,
                "withdrawn_at": now if wish.value is None else None,
            },
        )
