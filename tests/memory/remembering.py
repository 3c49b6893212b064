"""Deciding as a customer does what is remembered, and working as the memory worker does."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from agents.models import AgentRun
from conversations.models import Message
from memory import content, extracting, store
from memory.models import MemoryJob, MemoryProfile, PendingErasure
from tests.conversations import talking
from tests.factories import Shop
from zhifu import faults
from zhifu.jobs import JobStatus
from zhifu.transactions import database_now

MEMORY = "/openapi/v1/memory"
NOTHING = {"response_style": None, "language": None, "contact_channel": None}


def profile_of(shop: Shop) -> MemoryProfile:
    return MemoryProfile.objects.get(customer=shop.customer)


def consent(shop: Shop, enabled: bool = True) -> dict[str, Any]:
    """Allow or forbid remembering, over HTTP, at the present revision."""
    return _accepted(shop.shopper.put(f"{MEMORY}/consent", {"enabled": enabled} | _revision(shop)))


def change(shop: Shop, **fields: str | None) -> dict[str, Any]:
    return _accepted(shop.shopper.patch(MEMORY, fields | _revision(shop)))


def clear(shop: Shop) -> dict[str, Any]:
    return _accepted(shop.shopper.post(f"{MEMORY}/clear", _revision(shop)))


def read(shop: Shop) -> dict[str, Any]:
    return _accepted(shop.shopper.get(MEMORY))


def remembered(shop: Shop) -> dict[str, str]:
    """Return what is remembered, over HTTP, without what is not."""
    return {field: value for field, value in read(shop)["communication"].items() if value is not None}


def history(shop: Shop) -> list[dict[str, Any]]:
    return _accepted(shop.shopper.get(f"{MEMORY}/history"))["results"]


def hear(shop: Shop, text: str, conversation: str = "") -> MemoryJob:
    """Say something and have it answered; return the job that is to read it."""
    conversation = conversation or talking.begin(shop)
    accepted = talking.say(shop, conversation, text)
    talking.work(conversation)
    return job_of(accepted["message"]["id"])


def job_of(message_id: str) -> MemoryJob:
    return MemoryJob.objects.get(message=Message.objects.get(public_id=message_id))


def work(job: MemoryJob) -> MemoryJob:
    """Be the memory worker that gets this job's hint, and return the job as it then is."""
    MemoryJob.objects.filter(pk=job.pk, status=JobStatus.QUEUED).update(run_after=database_now())
    extracting.run_extraction(job.pk)
    job.refresh_from_db()
    return job


def learn(shop: Shop, text: str) -> MemoryJob:
    """Say something, have it answered and read, and return the settled job."""
    return work(hear(shop, text))


def die_at(point: str, job: MemoryJob) -> None:
    """Be a memory worker that is killed at a fault point."""
    with faults.at(point, faults.kill), pytest.raises(faults.Killed):
        work(job)


def let_lease_expire(job: MemoryJob) -> None:
    MemoryJob.objects.filter(pk=job.pk).update(lease_until=database_now() - timedelta(seconds=1))


def let_staging_expire() -> None:
    """Let the time pass in which staged content may still come into force."""
    PendingErasure.objects.filter(staged_until__isnull=False).update(staged_until=database_now() - timedelta(seconds=1))


def keys_with_content() -> set[str]:
    """Return every key of the store that holds content."""
    return {key for keys in store.keys_with_content() for key in keys}


def keys_of(shop: Shop) -> set[str]:
    return {key for key in keys_with_content() if key.startswith(f"{shop.tenant.pk}:{shop.customer.pk}:")}


def sweep() -> None:
    """Be the sweeper, as far as keys go."""
    content.erase_pending()


def prompts_of(requests: list[dict[str, Any]]) -> list[str]:
    """Return the system prompts of requests to the model."""
    return [
        message["content"] for request in requests for message in request["messages"] if message["role"] == "system"
    ]


@contextmanager
def active_run(shop: Shop) -> Iterator[AgentRun]:
    """Keep a run of another conversation of the customer open while the block runs."""
    conversation = talking.begin(shop)
    talking.say(shop, conversation, "还在问")
    yield talking.runs(conversation)[0]
    talking.work(conversation)


def _revision(shop: Shop) -> dict[str, int]:
    return {"expected_revision": profile_of(shop).revision}


def _accepted(response: Any) -> dict[str, Any]:
    assert response.status_code == 200, response.content
    return response.json()
