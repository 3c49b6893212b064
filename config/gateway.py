"""The way to every chat model: what a call costs is on record before it is made."""

import logging
from datetime import timedelta
from typing import Any

from django.conf import settings

from config import offline
from config.model_reply import ModelReply, estimate_request
from config.models import UsageRecord, UsageStatus
from zhifu import errors, faults
from zhifu.transactions import DatabaseNow, database_now, run_statement

logger = logging.getLogger(__name__)

OFFLINE = "offline"
# A call that has not been settled for this many leases is of a worker that died.
_STALE_LEASES = 2
# The one who made the call knows more than the sweeper: a late settlement replaces the estimate.
_UNSETTLED = (UsageStatus.OPEN, UsageStatus.ESTIMATED)


def complete(
    *,
    tenant_id: int,
    purpose: str,
    subject_id: int,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    deadline: float,
) -> ModelReply:
    """Return the model's reply to `messages` (OpenAI chat-completion dicts), one request, no retries.

    `deadline` is a moment of time.monotonic(). Raises errors.Unavailable, or errors.Broken when trying again
    cannot help, both with the code MODEL_UNAVAILABLE.
    """
    # The estimate stands when this process dies during the call.
    expected = estimate_request(messages, tools)
    usage = UsageRecord.objects.create(
        tenant_id=tenant_id,
        purpose=purpose,
        subject_id=subject_id,
        endpoint="" if settings.CHAT_MODEL == OFFLINE else settings.CHAT_BASE_URL,
        model=settings.CHAT_MODEL,
        input_tokens=expected,
    )
    try:
        reply = _ask(messages, tools, deadline)
    except errors.Failure as failure:
        _settle_failed(usage, failure)
        raise
    _settle(
        usage,
        status=UsageStatus.ESTIMATED if reply.is_estimated else UsageStatus.SETTLED,
        input_tokens=expected if reply.is_estimated else reply.input_tokens,
        output_tokens=reply.output_tokens,
    )
    return reply


def settle_stale() -> int:
    """Close the records of calls whose worker died, with the estimate of their input; return how many."""
    now = database_now()
    stale = timedelta(seconds=settings.LEASE_SECONDS * _STALE_LEASES)
    lost = UsageRecord.objects.filter(status=UsageStatus.OPEN, created_at__lt=now - stale)
    return run_statement(lost.update, status=UsageStatus.ESTIMATED, settled_at=now, error_code="WORKER_LOST")


def _ask(messages: list[dict[str, Any]], tools: list[dict[str, Any]], deadline: float) -> ModelReply:
    faults.point("gateway.before_call")
    if settings.CHAT_MODEL == OFFLINE:
        return offline.complete(messages, tools)
    # Imported when first needed: its libraries take two seconds, which the offline model need not wait for.
    from config import providers

    return providers.complete(messages, tools, deadline)


def _settle_failed(usage: UsageRecord, failure: errors.Failure) -> None:
    # The customer is told that the model is away; why is for the log. The cause's text could hold what was sent.
    why = {"reason": failure.message, "cause": type(failure.__cause__).__name__, **failure.details}
    logger.warning("model call failed", extra={"model": usage.model, "endpoint": usage.endpoint, **why})
    if getattr(failure, "maybe_spent", False):
        _settle(usage, status=UsageStatus.ESTIMATED, error_code=failure.code)
    else:
        _settle(usage, status=UsageStatus.SETTLED, input_tokens=0, error_code=failure.code)


def _settle(usage: UsageRecord, **values: Any) -> None:
    settled = {"settled_at": DatabaseNow(), "error_code": ""} | values
    run_statement(UsageRecord.objects.filter(pk=usage.pk, status__in=_UNSETTLED).update, **settled)
