"""What any chat model has to get right, whichever it is: four stories, played against the endpoint in the settings.

The moments that matter are fault points, so that no story depends on how fast a model thinks.
"""

from collections.abc import Callable

from agents.models import AgentRun
from config.models import UsagePurpose, UsageRecord, UsageStatus
from tests.conversations import talking
from tests.factories import Shop
from tests.knowledge import publishing
from tests.memory import remembering
from zhifu import faults
from zhifu.jobs import JobStatus

TITLE = "键盘清洁说明"
TEXT = (
    "清洁键盘前，请先拔下数据线或关闭电源。用软毛刷清除键帽之间的灰尘，再用拧干的微湿软布擦拭表面。"
    "不要使用酒精以外的溶剂，也不要把水直接倒在键盘上。"
)
QUESTION = "键盘怎么清洁？"
# Nothing published says so, and the answer is the model's own sentence.
UNANSWERABLE = "你们公司的年会在哪个城市办？"
WISH = "以后请都用英文回复我。"


def a_published_document_is_found_and_cited(shop: Shop) -> None:
    document = publishing.publish(shop, TITLE, TEXT)
    answer = ask(shop, QUESTION)
    assert [source["source_id"] for source in answer["source_refs"]] == [str(document.public_id)], answer
    assert answer["source_refs"][0]["quote"] in TEXT
    assert "[1]" in answer["text"]


def a_wish_is_remembered_and_followed_in_another_conversation(shop: Shop) -> None:
    before = ask(shop, UNANSWERABLE)
    assert latin_share(before["text"]) < 0.5, "asked in Chinese, it answers in Chinese"
    remembering.consent(shop)
    job = remembering.learn(shop, WISH)
    assert (job.status, job.outcome) == (JobStatus.COMPLETED, "STORED"), job.error_message
    assert remembering.remembered(shop) == {"language": "en"}
    after = ask(shop, UNANSWERABLE)
    assert latin_share(after["text"]) > 0.9, after["text"]


def a_memory_cleared_while_the_model_reads_stays_empty(shop: Shop) -> None:
    remembering.consent(shop)
    remembering.change(shop, contact_channel="email")
    job = remembering.hear(shop, WISH)
    with faults.at("memory.after_model", once(lambda: remembering.clear(shop))):
        job = remembering.work(job)
    assert (job.status, job.error_code) == (JobStatus.CANCELLED, "EPOCH_ENDED")
    assert remembering.remembered(shop) == {}
    spent = UsageRecord.objects.filter(purpose=UsagePurpose.EXTRACTION, subject_id=job.pk)
    assert [record.status != UsageStatus.OPEN and record.input_tokens > 0 for record in spent] == [True]
    remembering.sweep()
    assert remembering.keys_of(shop) == set()


def a_document_revoked_while_the_model_answers_is_not_cited(shop: Shop) -> None:
    document = publishing.publish(shop, TITLE, TEXT)
    conversation = talking.begin(shop)
    talking.say(shop, conversation, QUESTION)

    def revoke_once_shown() -> None:
        [run] = talking.runs(conversation)[-1:]
        document.refresh_from_db()
        if document.live_version is not None and has_been_shown(run):
            publishing.revoke(shop, document)

    with faults.at("agents.after_model", revoke_once_shown):
        talking.work(conversation)
    first, fresh = talking.runs(conversation)
    assert (first.status, first.error_code) == (JobStatus.FAILED, "KNOWLEDGE_CHANGED")
    assert (fresh.status, fresh.retry_of_id) == (JobStatus.COMPLETED, first.pk)
    [answer] = talking.answers(shop, conversation)
    assert answer["source_refs"] == []
    assert "软毛刷" not in answer["text"]


def ask(shop: Shop, question: str) -> dict:
    """Ask in a conversation of its own, and return the committed answer."""
    conversation = talking.begin(shop)
    talking.say(shop, conversation, question)
    [run] = talking.work(conversation)
    assert run.status == JobStatus.COMPLETED, f"{run.error_code}: {run.error_message}"
    return talking.answers(shop, conversation)[0]


def has_been_shown(run: AgentRun) -> bool:
    return any(message["role"] == "tool" and "软毛刷" in message["content"] for message in run.messages)


def latin_share(text: str) -> float:
    """Return how many of the letters of `text`, in 0..1, are Latin ones."""
    letters = [character for character in text if character.isalpha()]
    return sum(letter.isascii() for letter in letters) / max(1, len(letters))


def once(action: Callable[[], object]) -> Callable[[], None]:
    left = [action]

    def act() -> None:
        if left:
            left.pop()()

    return act
