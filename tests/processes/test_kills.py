"""Workers killed for good, with kill -9, and what the next one makes of it."""

import pytest

from agents.models import AgentRun
from config.models import UsageRecord
from knowledge import vectors
from knowledge.models import DeadBuild, IndexTarget, KnowledgeDocument
from tests.factories import Shop
from tests.processes.story import CLEANING_CHANGED, Story, assert_promises_kept
from tests.processes.system import System, eventually
from zhifu.jobs import JobStatus

pytestmark = [pytest.mark.processes, pytest.mark.faults]


def test_an_index_worker_killed_after_writing_is_followed_by_another(system: System, merchant: Shop) -> None:
    system.start_broker()
    system.start_web()
    story = Story(system, merchant)
    system.start_worker("index", ZHIFU_FAULTS="index.before_flip=kill")
    job = story.ask_to_publish(story.write())
    system.wait_for_death("index")
    assert story.job(job)["status"] == "RUNNING"

    for queue in ("index", "agents", "maintenance"):
        system.start_worker(queue)
    system.start_beat()
    eventually(lambda: story.job(job)["status"] == "COMPLETED", "the next worker finishes the job")
    assert "软毛刷" in story.ask()["text"]
    eventually(lambda: not DeadBuild.objects.exists(), "what the dead worker wrote is removed")
    document = KnowledgeDocument.objects.get()
    target = IndexTarget.objects.get(collection="product", active="product")
    held = vectors.count_build(target, tenant_id=document.tenant_id, document_id=document.pk, build=document.live_build)
    assert held == 1
    assert_promises_kept()


def test_an_agents_worker_killed_before_commit_is_followed_by_another(system: System, merchant: Shop) -> None:
    system.start_broker()
    system.start_web()
    system.start_worker("index")
    story = Story(system, merchant)
    story.publish(story.write())
    system.start_worker("agents", ZHIFU_FAULTS="agents.before_commit=kill")
    talk = story.begin()
    story.say(talk)
    system.wait_for_death("agents")

    system.start_worker("agents")
    system.start_worker("maintenance")
    system.start_beat()
    assert "软毛刷" in story.answers(talk)[0]["text"]
    run = AgentRun.objects.get()
    assert (run.status, run.attempts) == (JobStatus.COMPLETED, 2)
    assert UsageRecord.objects.filter(subject_id=run.pk).count() >= 2, "the killed worker's calls stay recorded"
    assert_promises_kept()


def test_a_maintenance_worker_killed_while_removing_a_build_is_followed_by_another(
    system: System, merchant: Shop
) -> None:
    system.start_broker()
    system.start_web()
    system.start_worker("index")
    story = Story(system, merchant)
    document = story.write()
    story.publish(document)
    system.start_worker("maintenance", ZHIFU_FAULTS="index.after_removal=kill")
    story.rewrite(document, CLEANING_CHANGED, expected_version=1)
    story.publish(document, 2)
    system.wait_for_death("maintenance")
    assert DeadBuild.objects.exists(), "what was removed is still on the list"

    system.start_worker("maintenance")
    system.start_beat()
    eventually(lambda: not DeadBuild.objects.exists(), "the next worker finishes the removal")
    assert_promises_kept()
