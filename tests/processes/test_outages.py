"""What the product does while something it stands on is away."""

import pytest
import requests

from tests.factories import Shop
from tests.processes.story import Story, assert_promises_kept
from tests.processes.system import System, eventually
from tests.servers import free_port

pytestmark = [pytest.mark.processes, pytest.mark.faults]


def test_a_question_asked_while_the_broker_is_down_is_answered_when_it_is_back(system: System, merchant: Shop) -> None:
    system.start_everything()
    story = Story(system, merchant)
    story.publish(story.write())
    system.stop_broker()
    talk = story.begin()
    story.say(talk)
    assert story.messages(talk)[0]["run"]["status"] == "QUEUED"
    system.start_broker()
    assert "软毛刷" in story.answers(talk)[0]["text"]
    assert_promises_kept()


def test_everything_starts_with_milvus_redis_and_the_model_down(system: System, merchant: Shop) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    down = {
        "ZHIFU_TEST_MILVUS_URL": f"http://{nowhere}",
        "ZHIFU_TEST_REDIS_URL": f"redis://{nowhere}",
        "ZHIFU_CHAT_MODEL": "some-model",
        "ZHIFU_CHAT_BASE_URL": f"http://{nowhere}/v1",
        "ZHIFU_SECRET_CHAT": "x",
    }
    system.manage("migrate", "--noinput", **down)
    system.start_web(**down)
    for queue in ("index", "agents", "maintenance"):
        system.start_worker(queue, **down)
    assert requests.get(f"{system.url}/healthz", timeout=30).status_code == 200
    ready = requests.get(f"{system.url}/readyz", timeout=30)
    assert ready.status_code == 200
    assert ready.json() == {"status": "ok", "degraded": ["broker", "cache", "memory", "milvus"]}
    story = Story(system, merchant)
    document = story.write()
    story.ask_to_publish(document)
    talk = story.begin()
    story.say(talk)

    # The broker comes back alone: both jobs are taken up, fail for now, and say why.
    system.start_broker()
    for queue in ("index", "agents", "maintenance"):
        assert system.is_running(queue), system.log(queue).read_text()[-2000:]
    system.start_beat()
    eventually(lambda: story.messages(talk)[0]["run"]["error_code"] == "MODEL_UNAVAILABLE", "the run says why it waits")
