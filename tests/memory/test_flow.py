"""What a customer can do, from consent to clear, as they see it."""

from memory.models import JobOutcome
from tests.conversations import talking
from tests.factories import Shop
from tests.memory import remembering
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from zhifu.jobs import JobStatus

WISH = "以后请用简洁的方式回复"
CONCISE = wishes(response_style="concise", response_style_evidence="请用简洁的方式回复")


def test_a_wish_is_remembered_followed_and_forgotten(shop: Shop, model_server: ModelServer) -> None:
    remembering.consent(shop)
    model_server.wish(CONCISE)
    job = remembering.learn(shop, WISH)
    assert (job.status, job.outcome) == (JobStatus.COMPLETED, JobOutcome.STORED)
    assert remembering.remembered(shop) == {"response_style": "concise"}

    conversation = talking.begin(shop)
    talking.say(shop, conversation, "键盘怎么清洁？")
    talking.work(conversation)
    assert "- response_style: concise" in remembering.prompts_of(model_server.requests)[-1]

    remembering.clear(shop)
    assert remembering.remembered(shop) == {}
    talking.say(shop, conversation, "鼠标呢？")
    talking.work(conversation)
    assert "concise" not in remembering.prompts_of(model_server.requests)[-1]
    remembering.sweep()
    assert remembering.keys_of(shop) == set()
