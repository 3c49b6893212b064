"""Customers who ask while the material changes, and many at once: with real workers, over HTTP."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from config.models import UsageRecord, UsageStatus
from tests.factories import Shop
from tests.model_server import ModelServer
from tests.model_shapes import calls, results_of, search
from tests.processes.story import CLEANING_CHANGED, Story, assert_promises_kept
from tests.processes.system import System, eventually

# Many processes and many turns: on a busy machine more than the usual limit.
pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def _look_up(request: dict) -> dict:
    return calls(search(request))


def _quote_cleaning(request: dict) -> str:
    """Quote how a keyboard is cleaned, whatever else was found, or say that there is nothing."""
    for found in results_of(request):
        if found["title"] == "键盘清洁":
            return f"{found['snippet'].split('。')[0]}。[{found['marker']}]"
    return "已发布的资料里没有相关内容。"


class Thinker:
    """A customer's question to a model that thinks until it is told what has happened meanwhile."""

    def __init__(self, story: Story, model: ModelServer) -> None:
        self.story, self.model = story, model

    def ask_while(self, change: Callable[[], object]) -> dict:
        """Ask; change something while the model holds the passages; return the one answer that is given."""
        self.model.reset()
        self.model.say(_look_up)
        thinking = self.model.gate(_quote_cleaning)
        self.model.say(_look_up, _quote_cleaning)
        talk = self.story.begin()
        stale = self.story.say(talk)["run"]["id"]
        assert thinking.reached.wait(20)
        change()
        thinking.release()
        (answer,) = self.story.answers(talk)
        self._assert_thrown_away(stale)
        assert self.model.violations == []
        return answer

    def _assert_thrown_away(self, run: str) -> None:
        seen = self.story.customer.get(f"/openapi/v1/runs/{run}")
        assert (seen["status"], seen["error_code"], seen["answer"]) == ("FAILED", "KNOWLEDGE_CHANGED", None)
        fresh = self.story.customer.get(f"/openapi/v1/runs/{seen['retried_by']}")
        assert fresh["status"] == "COMPLETED"


def test_what_changes_while_the_model_thinks_is_in_no_answer(
    system: System, merchant: Shop, model_server: ModelServer
) -> None:
    # The lease outlasts the thinking: what is shown here is the check, not a takeover.
    system.start_everything(
        ZHIFU_LEASE_SECONDS="30",
        ZHIFU_CHAT_MODEL="scripted",
        ZHIFU_CHAT_BASE_URL=model_server.url,
        ZHIFU_SECRET_CHAT="key of the test",
    )
    story = Story(system, merchant)
    customer = Thinker(story, model_server)
    document = story.write()
    story.publish(document)
    beside = story.write("清洁键盘的软刷可以在配件柜台领取，每人一把。", "键盘清洁工具")
    story.publish(beside)

    def publish_a_newer_one() -> None:
        story.rewrite(document, CLEANING_CHANGED, expected_version=1)
        story.publish(document, 2)

    second = customer.ask_while(publish_a_newer_one)
    assert [(source["source_id"], source["version"]) for source in second["source_refs"]] == [(document, 2)]

    # The one beside it was shown and is not what is cited.
    third = customer.ask_while(lambda: story.revoke(beside, 1))
    assert {source["source_id"] for source in third["source_refs"]} == {document}
    assert beside in str(model_server.requests[1]), "shown before"
    assert beside not in str(model_server.requests[-1]), "not shown again"

    fourth = customer.ask_while(lambda: story.revoke(document, 2))
    assert fourth["source_refs"] == []
    spent = UsageRecord.objects.values_list("status", "input_tokens")
    assert list(spent) == [(UsageStatus.SETTLED, 11)] * 12, "three times two calls thrown away, and two that count"
    assert_promises_kept()


@pytest.mark.faults
def test_sixteen_callers_are_each_answered_once_in_order_though_the_worker_is_killed(
    system: System, merchant: Shop
) -> None:
    system.start_everything()
    story = Story(system, merchant)
    story.publish(story.write())
    talk = story.begin()
    start = threading.Barrier(16)

    def post(number: int) -> None:
        caller = Story(system, merchant)
        start.wait(20)
        caller.say(talk, f"键盘怎么清洁？第 {number} 次问")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(post, range(16)))
    eventually(lambda: len(story.messages(talk)) > 17, "the first answers")
    system.kill("agents")
    system.start_worker("agents")
    eventually(lambda: len(story.messages(talk)) == 32, "sixteen answers")

    said = story.messages(talk)
    assert [message["sequence"] for message in said] == list(range(1, 33))
    questions = [message["id"] for message in said if message["role"] == "customer"]
    assert [message["in_reply_to"] for message in said if message["role"] == "assistant"] == questions
    assert_promises_kept()
