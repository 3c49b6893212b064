"""Talking as a customer does, and working as a worker does."""

from datetime import timedelta

import pytest

from agents.models import AgentRun
from conversations import promises, turns
from tests.factories import Shop
from zhifu import faults
from zhifu.jobs import JobStatus
from zhifu.transactions import database_now

CONVERSATIONS = "/openapi/v1/conversations"


def begin(shop: Shop) -> str:
    """Begin a conversation over HTTP and return its id."""
    response = shop.shopper.post(CONVERSATIONS, {})
    assert response.status_code == 201, response.content
    return response.json()["id"]


def say(shop: Shop, conversation: str, text: str, **body: object) -> dict:
    """Say something over HTTP and return what was accepted."""
    response = shop.shopper.post(f"{CONVERSATIONS}/{conversation}/messages", {"text": text} | body)
    assert response.status_code == 202, response.content
    return response.json()


def talk(shop: Shop, conversation: str) -> list[dict]:
    """Return the messages as the customer reads them."""
    response = shop.shopper.get(f"{CONVERSATIONS}/{conversation}/messages")
    assert response.status_code == 200, response.content
    return response.json()["results"]


def answers(shop: Shop, conversation: str) -> list[dict]:
    return [message["answer"] for message in talk(shop, conversation) if message["role"] == "assistant"]


def runs(conversation: str) -> list[AgentRun]:
    """Return the runs of a conversation, oldest first."""
    return list(AgentRun.objects.filter(conversation__public_id=conversation).order_by("pk"))


def work(conversation: str) -> list[AgentRun]:
    """Be the worker until nothing is queued, and return the runs."""
    for _ in range(50):
        queued = [run for run in runs(conversation) if run.status == JobStatus.QUEUED]
        if not queued:
            return runs(conversation)
        AgentRun.objects.filter(pk=queued[0].pk).update(run_after=database_now())
        turns.run_turn(queued[0].pk)
    raise AssertionError("the conversation never comes to rest")


def die_at(point: str, run: AgentRun) -> None:
    """Be a worker that is killed at a fault point."""
    with faults.at(point, faults.kill), pytest.raises(faults.Killed):
        turns.run_turn(run.pk)


def let_lease_expire(run: AgentRun) -> None:
    AgentRun.objects.filter(pk=run.pk).update(lease_until=database_now() - timedelta(seconds=1))


def assert_promises_kept() -> None:
    broken = [(check.promise, violation) for check in promises.CHECKS for violation in check.find()]
    assert not broken
