"""Memory over HTTP with every server and worker a process of its own, one of them killed with kill -9."""

from typing import Any

import pytest
import requests

from memory.models import EventKind, JobOutcome, MemoryEvent, MemoryJob, PendingErasure
from tests.factories import Shop
from tests.memory import remembering
from tests.memory.remembering import MEMORY
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from tests.processes.story import Story, assert_promises_kept
from tests.processes.system import System, eventually
from zhifu.jobs import JobStatus

pytestmark = pytest.mark.processes

WISH = "以后请用简洁的方式回复"
CONCISE = wishes(response_style="concise", response_style_evidence=WISH)


def decide(story: Story, path: str, method: str, **body: Any) -> dict[str, Any]:
    """Decide about one's memory at its present revision, and return what is remembered then."""
    body["expected_revision"] = story.customer.get(MEMORY)["revision"]
    answer = story.customer.session.request(method, story.customer.url + MEMORY + path, json=body, timeout=30)
    assert answer.ok, answer.text
    remembered: dict[str, Any] = answer.json()
    return remembered


def remembered(story: Story) -> dict[str, Any]:
    known: dict[str, Any] = story.customer.get(MEMORY)["communication"]
    return known


def sentences(answer: dict[str, Any]) -> int:
    """Return how many sentences an answer quotes."""
    return int(answer["text"].count("[1]"))


def settled(job: MemoryJob) -> MemoryJob:
    def ended() -> bool:
        job.refresh_from_db()
        return not job.is_open

    eventually(ended, "the job ends")
    return job


def test_a_wish_is_remembered_followed_in_another_conversation_and_forgotten(system: System, merchant: Shop) -> None:
    system.start_everything()
    assert requests.get(f"{system.url}/readyz", timeout=30).json() == {"status": "ok", "degraded": []}
    story = Story(system, merchant)
    story.publish(story.write())
    assert sentences(story.ask()) == 2
    decide(story, "/consent", "PUT", enabled=True)
    story.ask(WISH)
    job = settled(MemoryJob.objects.get())
    assert (job.status, job.outcome) == (JobStatus.COMPLETED, JobOutcome.STORED)
    assert remembered(story) == remembering.NOTHING | {"response_style": "concise"}
    assert sentences(story.ask()) == 1

    assert len(remembering.keys_of(merchant)) == 1
    assert decide(story, "/clear", "POST")["communication"] == remembering.NOTHING
    assert sentences(story.ask()) == 2
    eventually(lambda: not PendingErasure.objects.exists(), "what was remembered is erased")
    assert remembering.keys_of(merchant) == set()
    kinds = [event["kind"] for event in story.customer.get(f"{MEMORY}/history")["results"]]
    assert kinds == ["CLEARED", "EXTRACTED", "CONSENTED"]
    eventually(lambda: not MemoryJob.objects.filter(finished_at=None).exists(), "every message is read")
    assert remembered(story) == remembering.NOTHING
    assert_promises_kept()


@pytest.mark.faults
def test_a_memory_worker_killed_after_writing_is_followed_by_another_and_leaves_no_orphan(
    system: System, merchant: Shop, model_server: ModelServer
) -> None:
    model = {
        "ZHIFU_CHAT_MODEL": "scripted",
        "ZHIFU_CHAT_BASE_URL": model_server.url,
        "ZHIFU_SECRET_CHAT": "key of the test",
    }
    system.start_broker()
    system.start_web(**model)
    system.start_worker("agents", **model)
    system.start_worker("memory", ZHIFU_FAULTS="memory.after_write=kill", **model)
    story = Story(system, merchant)
    decide(story, "/consent", "PUT", enabled=True)
    model_server.wish(CONCISE, CONCISE)
    story.ask(WISH)
    system.wait_for_death("memory")
    (orphan,) = remembering.keys_of(merchant)
    assert remembered(story) == remembering.NOTHING
    assert MemoryJob.objects.get().status == JobStatus.RUNNING

    for queue in ("memory", "maintenance"):
        system.start_worker(queue, **model)
    system.start_beat()
    job = settled(MemoryJob.objects.get())
    assert (job.status, job.outcome, job.attempts) == (JobStatus.COMPLETED, JobOutcome.STORED, 2)
    assert remembered(story) == remembering.NOTHING | {"response_style": "concise"}
    eventually(lambda: not PendingErasure.objects.exists(), "what the dead worker wrote is erased")
    assert remembering.keys_of(merchant) == {remembering.profile_of(merchant).value_key}
    assert orphan not in remembering.keys_of(merchant)
    assert MemoryEvent.objects.filter(kind=EventKind.EXTRACTED).count() == 1
    assert_promises_kept()
