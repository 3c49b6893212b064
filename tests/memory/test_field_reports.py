"""What went wrong with the memory of other products, tried on this one."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.core.cache import caches

from memory import content, extracting
from memory.models import EventKind, FieldOrigin, JobOutcome, MemoryEvent, MemoryJob, PendingErasure
from tests.conversations import talking
from tests.conversations.talking import assert_promises_kept
from tests.factories import Shop, make_customer
from tests.knowledge.publishing import publish
from tests.memory import outages, remembering
from tests.memory.remembering import MEMORY
from tests.model_server import ModelServer
from tests.model_shapes import Body, calls, has_results, quote, refusal, search, wishes
from zhifu.jobs import JobStatus
from zhifu.models import Customer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model_server")]

WISH = "以后请用英文回复"
ENGLISH = wishes(language="en", language_evidence=WISH)


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop whose customer consents."""
    remembering.consent(shop)
    return shop


# --- junk ---
CHATTER = [
    "键盘怎么清洁？",
    "My name is John Doe, I am a Google engineer.",
    "我对花生过敏，住在杭州。",
    "我妈喜欢简短的回复",
    "这次请用英文回答",
    "可以用英文回复吗？",
    "客服说：“以后都会用英文回复您”",
    "我喜欢简洁的设计",
    "请把发票发到我邮箱 a@b.com",
    "你好",
]


def test_fifty_turns_without_a_wish_leave_nothing(shop: Shop, model_server: ModelServer) -> None:
    conversation = talking.begin(shop)
    for number in range(50):
        job = remembering.hear(shop, CHATTER[number % len(CHATTER)], conversation)
        assert remembering.work(job).outcome == JobOutcome.NOTHING
    assert MemoryJob.objects.filter(status=JobStatus.COMPLETED).count() == 50
    assert remembering.remembered(shop) == {}
    assert remembering.keys_with_content() == set()
    assert not FieldOrigin.objects.exists()
    assert [event["kind"] for event in remembering.history(shop)] == ["CONSENTED"]
    assert_promises_kept()


def test_a_model_that_invents_a_wish_for_every_message_is_believed_for_none(
    shop: Shop, model_server: ModelServer
) -> None:
    for text in CHATTER:
        model_server.wish(
            wishes(
                response_style="concise",
                response_style_evidence=text[:3],
                language="en",
                language_evidence="Google engineer",
                contact_channel="email",
                contact_channel_evidence="以后发邮件给我",
            )
        )
        assert remembering.learn(shop, text).outcome == JobOutcome.NOTHING, text
    assert remembering.keys_with_content() == set()
    assert_promises_kept()


def test_rules_documents_answers_and_what_is_remembered_are_never_read_for_wishes(
    shop: Shop, model_server: ModelServer
) -> None:
    document = "说明：以后请用日文回复我们的邮件。清洁键盘前先拔掉电源。"
    publish(shop, "键盘清洁", document)
    remembering.change(shop, response_style="detailed", contact_channel="wechat")

    def answer(request: Body) -> object:
        return quote(request) if has_results(request) else calls(search(request))

    model_server.say(*[answer] * 4)
    conversation = talking.begin(shop)
    remembering.hear(shop, "清洁键盘前先做什么？", conversation)
    job = remembering.hear(shop, "还有呢？", conversation)
    asked = len(model_server.requests)
    model_server.wish(wishes(language="ja", language_evidence="以后请用日文回复我们的邮件"))
    assert remembering.work(job).outcome == JobOutcome.NOTHING
    sent = json.dumps(model_server.requests[asked:], ensure_ascii=False)
    assert "还有呢？" in sent
    prompt = remembering.prompts_of(model_server.requests[:asked])[-1]
    assert "讲完整" in prompt
    assert "需要另行联系" in prompt
    for other in ("拔掉电源", "日文", "清洁键盘前先做什么", "讲完整", "需要另行联系", shop.store.name):
        assert other not in sent
    assert remembering.remembered(shop) == {"response_style": "detailed", "contact_channel": "wechat"}
    assert_promises_kept()


# --- templates ---
TEMPLATES: dict[str, dict[str, Any]] = {
    "empty": {},
    "nulls": {"language": None, "language_evidence": None, "response_style": None},
    "the names of fields": {"language": "language", "language_evidence": "language_evidence"},
    "the description": {"response_style": "concise（简短）or detailed（详细）", "response_style_evidence": "简短"},
    "an example": {"language": "en", "language_evidence": "the customer's words, character for character"},
    "a value without evidence": {"language": "en"},
    "evidence without a value": {"language_evidence": WISH},
    "evidence of nothing": {"language": "en", "language_evidence": ""},
    "extra keys": {"name": "John Doe", "job": "engineer", "memory": "用英文"},
}


@pytest.mark.parametrize("stated", TEMPLATES.values(), ids=TEMPLATES)
def test_template_text_examples_and_extra_keys_are_never_remembered(
    shop: Shop, model_server: ModelServer, stated: dict[str, Any]
) -> None:
    model_server.wish(wishes(**stated), wishes(**stated), wishes(**stated))
    job = remembering.learn(shop, f"{WISH}。键盘怎么清洁？")
    assert job.outcome != JobOutcome.STORED
    assert remembering.remembered(shop) == {}
    assert remembering.keys_with_content() == set()
    assert_promises_kept()


# --- languages ---
SAID = [
    ("以后请用简体中文回复", "zh-Hans", "以后请用简体中文回复"),
    ("以後請用繁體中文回覆", "zh-Hant", "以後請用繁體中文回覆"),
    ("以後用廣東話覆我啦", "yue", "用廣東話覆我"),
    ("From now on please reply in English.", "en-US", "reply in English"),
    ("以后 reply 用 English 就好", "en", "以后 reply 用 English"),
    ("今後は日本語で返事してください，以后用日文", "ja-JP", "以后用日文"),
]


@pytest.mark.parametrize(("text", "tag", "evidence"), SAID)
def test_a_wish_in_any_language_is_kept_as_a_code_and_no_word_of_it(
    shop: Shop, model_server: ModelServer, text: str, tag: str, evidence: str
) -> None:
    model_server.wish(wishes(language=tag, language_evidence=evidence))
    assert remembering.learn(shop, text).outcome == JobOutcome.STORED
    code = {"en-US": "en", "ja-JP": "ja"}.get(tag, tag)
    assert remembering.remembered(shop) == {"language": code}
    stored = outages.bytes_at(remembering.profile_of(shop).value_key)
    assert json.loads(json.loads(stored or b"")) == {"language": code}
    assert evidence not in str(list(FieldOrigin.objects.values())) + str(list(MemoryEvent.objects.values()))
    assert_promises_kept()


# --- contradictions ---
def test_of_two_wishes_that_contradict_each_other_the_last_one_said_is_kept_and_it_alone(
    shop: Shop, model_server: ModelServer
) -> None:
    conversation = talking.begin(shop)
    for text, language in (("以后用英文", "en"), ("还是用中文吧", "zh")):
        model_server.wish(wishes(language=language, language_evidence=text))
        job = remembering.work(remembering.hear(shop, text, conversation))
        assert job.outcome == JobOutcome.STORED
    assert remembering.remembered(shop) == {"language": "zh"}
    (origin,) = FieldOrigin.objects.all()
    assert origin.message.text == "还是用中文吧"
    remembering.sweep()
    assert len(remembering.keys_of(shop)) == 1
    assert_promises_kept()


# --- deleted, and still found ---
def test_what_is_deleted_is_found_by_no_way_and_not_after_a_restart(shop: Shop, model_server: ModelServer) -> None:
    model_server.wish(ENGLISH)
    conversation = talking.begin(shop)
    remembering.work(remembering.hear(shop, WISH, conversation))
    key = remembering.profile_of(shop).value_key
    assert remembering.remembered(shop) == {"language": "en"}
    assert remembering.clear(shop)["communication"] == remembering.NOTHING

    def found_by_no_way() -> None:
        assert remembering.remembered(shop) == {}
        assert remembering.read(shop)["origins"] == []
        assert '"en"' not in json.dumps(remembering.history(shop))
        for place in (conversation, talking.begin(shop)):
            remembering.hear(shop, "现在呢？", place)
            assert "language:" not in remembering.prompts_of(model_server.requests)[-1]
        assert key not in remembering.keys_with_content()

    remembering.sweep()
    found_by_no_way()
    caches.close_all()
    found_by_no_way()
    content.erase_orphans()
    found_by_no_way()
    assert_promises_kept()


# --- mass deletion ---
def test_all_of_two_hundred_and_fifty_values_of_one_customer_go_at_once_and_nobody_elses(
    shop: Shop, other_shop: Shop, model_server: ModelServer
) -> None:
    neighbour = replace(shop, customer=make_customer(shop.tenant))
    for other in (neighbour, other_shop):
        remembering.consent(other)
        remembering.change(other, language="ja")
    kept = {remembering.profile_of(other).value_key for other in (neighbour, other_shop)}
    conversation = talking.begin(shop)
    for number in range(250):
        if number % 10:
            remembering.change(shop, response_style=("concise", "detailed")[number % 2])
        else:
            model_server.wish(ENGLISH)
            assert remembering.work(remembering.hear(shop, WISH, conversation)).outcome == JobOutcome.STORED
    assert len(remembering.keys_of(shop)) == 250
    assert MemoryEvent.objects.filter(kind__in=[EventKind.CHANGED, EventKind.EXTRACTED]).count() == 252

    remembering.clear(shop)
    assert PendingErasure.objects.count() == 250
    assert content.erase_pending() == 250
    assert remembering.keys_of(shop) == set()
    assert remembering.keys_with_content() == kept
    for other in (neighbour, other_shop):
        assert remembering.remembered(other) == {"language": "ja"}
    assert_promises_kept()


# --- written after deletion ---
def withdraw(shop: Shop) -> None:
    remembering.consent(shop, enabled=False)


def consent_again(shop: Shop) -> None:
    withdraw(shop)
    remembering.consent(shop)


@pytest.mark.parametrize("decide", [withdraw, consent_again, remembering.clear])
def test_a_message_queued_before_consent_was_withdrawn_is_never_read_afterwards_not_even_with_new_consent(
    shop: Shop, model_server: ModelServer, decide: Callable[[Shop], object]
) -> None:
    job = remembering.hear(shop, WISH)
    decide(shop)
    asked = len(model_server.requests)
    job = remembering.work(job)
    assert (job.status, job.error_code, job.attempts) == (JobStatus.CANCELLED, "EPOCH_ENDED", 0)
    assert len(model_server.requests) == asked, "the message is not even sent to the model"
    assert remembering.remembered(shop) == {}
    assert remembering.keys_with_content() == set()
    assert_promises_kept()


def test_a_message_said_after_new_consent_is_read(shop: Shop, model_server: ModelServer) -> None:
    consent_again(shop)
    model_server.wish(ENGLISH)
    assert remembering.learn(shop, WISH).outcome == JobOutcome.STORED
    assert remembering.remembered(shop) == {"language": "en"}
    assert_promises_kept()


# --- somebody else's memory ---
def test_customers_of_two_tenants_with_the_same_reference_never_meet(
    shop: Shop, other_shop: Shop, model_server: ModelServer
) -> None:
    mine = replace(shop, customer=make_customer(shop.tenant, "vip-1"))
    theirs = replace(other_shop, customer=make_customer(other_shop.tenant, "vip-1"))
    for each in (mine, theirs):
        remembering.consent(each)
    model_server.wish(ENGLISH)
    my_job = remembering.learn(mine, WISH)
    their_job = remembering.hear(theirs, WISH)
    assert "language:" not in remembering.prompts_of(model_server.requests)[-1]

    assert remembering.remembered(mine) == {"language": "en"}
    assert remembering.remembered(theirs) == {}
    assert [event["kind"] for event in remembering.history(theirs)] == ["CONSENTED"]
    assert (my_job.tenant_id, their_job.tenant_id) == (shop.tenant.pk, other_shop.tenant.pk)
    assert remembering.keys_of(theirs) == set()
    assert len(remembering.keys_of(mine)) == 1

    remembering.clear(theirs)
    remembering.sweep()
    assert remembering.remembered(mine) == {"language": "en"}
    assert remembering.work(their_job).status == JobStatus.CANCELLED
    assert_promises_kept()


@pytest.mark.parametrize("named", ["customer_id", "customer", "external_ref", "tenant_id", "user_id"])
def test_whose_memory_it_is_comes_from_the_token_and_nothing_else(shop: Shop, other_shop: Shop, named: str) -> None:
    remembering.consent(other_shop)
    remembering.change(other_shop, language="ja")
    victim: Customer = other_shop.customer
    for value in (victim.pk, str(victim.public_id), victim.external_ref):
        body = {"language": "en", "expected_revision": 1, named: value}
        assert shop.shopper.patch(MEMORY, body).status_code == 400
        assert shop.shopper.post(f"{MEMORY}/clear", {"expected_revision": 1, named: value}).status_code == 400
        seen = shop.shopper.get(MEMORY, {named: value})
        assert (seen.status_code, seen.json()["communication"]) == (200, remembering.NOTHING)
    assert remembering.remembered(other_shop) == {"language": "ja"}
    assert_promises_kept()


# --- an older schema ---
OLDER: dict[str, dict[str, Any]] = {
    "a field that is gone": {"tone": "friendly", "language": "en"},
    "a value that is gone": {"response_style": "chatty", "language": "en"},
    "another kind of value": {"response_style": {"style": "concise"}, "contact_channel": 7, "language": "en"},
    "nothing that is known": {"preferences": ["short"], "name": "John Doe"},
}


@pytest.mark.parametrize("kept", OLDER.values(), ids=OLDER)
def test_content_of_an_older_schema_is_skipped_and_logged_and_chat_goes_on(
    shop: Shop, model_server: ModelServer, caplog: pytest.LogCaptureFixture, kept: dict[str, Any]
) -> None:
    remembering.change(shop, language="en", response_style="concise", contact_channel="email")
    outages.put(remembering.profile_of(shop).value_key, json.dumps(json.dumps(kept)).encode())
    known = {"language": "en"} if "language" in kept else {}
    with caplog.at_level(logging.DEBUG):
        assert remembering.remembered(shop) == known
        remembering.hear(shop, "键盘怎么清洁？")
    assert "another schema" in caplog.text
    assert "John Doe" not in caplog.text
    prompt = remembering.prompts_of(model_server.requests)[-1]
    assert ("language: en" in prompt) == bool(known)
    for word in ("friendly", "chatty", "John Doe", "concise"):
        assert word not in prompt

    model_server.wish(wishes(contact_channel="wechat", contact_channel_evidence="以后微信联系我"))
    assert remembering.learn(shop, "以后微信联系我").outcome == JobOutcome.STORED
    stored = outages.bytes_at(remembering.profile_of(shop).value_key)
    assert json.loads(json.loads(stored or b"")) == known | {"contact_channel": "wechat"}
    assert_promises_kept()


# --- stored, nothing, failed ---
def test_stored_nothing_and_failed_are_three_states_that_never_look_alike(
    shop: Shop, model_server: ModelServer
) -> None:
    def be_down(_request: Body) -> None:
        raise refusal(503, "down")

    def in_words(_request: Body) -> str:
        return "好的，已经记住了！"

    model_server.wish(ENGLISH)
    stored = remembering.learn(shop, WISH)
    model_server.wish(wishes())
    nothing = remembering.learn(shop, "你好")
    failed = []
    for step, asked in ((be_down, 1), (in_words, 3)):
        job = remembering.hear(shop, WISH)
        while job.status == JobStatus.QUEUED:
            model_server.wish(*[step] * asked)
            job = remembering.work(job)
        failed.append((job.status, job.outcome, job.error_code))
    assert (stored.status, stored.outcome, stored.error_code) == (JobStatus.COMPLETED, JobOutcome.STORED, "")
    assert (nothing.status, nothing.outcome, nothing.error_code) == (JobStatus.COMPLETED, JobOutcome.NOTHING, "")
    assert failed == [
        (JobStatus.FAILED, "", "MODEL_UNAVAILABLE"),
        (JobStatus.FAILED, "", "EXTRACTION_UNREADABLE"),
    ]
    events = MemoryEvent.objects.filter(kind=EventKind.EXTRACTED).values_list("job", flat=True)
    assert list(events) == [stored.pk]
    assert_promises_kept()


def test_a_job_that_is_delivered_after_it_failed_stays_failed(shop: Shop, model_server: ModelServer) -> None:
    model_server.wish(ENGLISH)
    job = remembering.hear(shop, WISH)
    MemoryJob.objects.filter(pk=job.pk).update(status=JobStatus.FAILED, error_code="MODEL_UNAVAILABLE")
    extracting.run_extraction(job.pk)
    job.refresh_from_db()
    assert (job.status, job.outcome) == (JobStatus.FAILED, "")
    assert remembering.remembered(shop) == {}
