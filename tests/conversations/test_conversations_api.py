"""Conversations, messages and runs as a customer's client sees them."""

import json
from uuid import uuid4

import pytest
from rest_framework.test import APIClient

from agents.models import AgentRun
from conversations.models import Conversation, ConversationEvent, Message
from tests.conversations.talking import CONVERSATIONS, begin, runs, say, talk
from tests.factories import Shop, customer_client, make_customer, make_store

UNKNOWN = "00000000-0000-4000-8000-000000000000"


def _addresses(conversation: str, run: str) -> list[tuple[str, str, dict]]:
    return [
        ("get", f"{CONVERSATIONS}/{conversation}", {}),
        ("get", f"{CONVERSATIONS}/{conversation}/messages", {}),
        ("post", f"{CONVERSATIONS}/{conversation}/messages", {"text": "你好"}),
        ("get", f"/openapi/v1/runs/{run}", {}),
        ("post", f"/openapi/v1/runs/{run}/cancel", {}),
    ]


def test_a_message_is_accepted_with_its_run(shop: Shop) -> None:
    conversation = begin(shop)
    accepted = say(shop, conversation, "  键盘怎么清洁？\n", client_message_id="a-1")
    message = accepted["message"]
    assert (message["sequence"], message["role"], message["text"]) == (1, "customer", "  键盘怎么清洁？\n")
    assert message["client_message_id"] == "a-1"
    assert message["run"] == accepted["run"]
    assert accepted["run"]["status"] == "QUEUED"
    run = shop.shopper.get(f"/openapi/v1/runs/{accepted['run']['id']}").json()
    assert (run["conversation_id"], run["message_id"]) == (conversation, message["id"])
    assert (run["answer"], run["retried_by"], run["finished_at"]) == (None, None, None)
    assert talk(shop, conversation) == [message]


def test_a_message_sent_while_a_run_is_active_waits_without_a_run_of_its_own(shop: Shop) -> None:
    conversation = begin(shop)
    say(shop, conversation, "第一")
    accepted = say(shop, conversation, "第二")
    assert accepted["run"] is None
    assert [message["run"] and message["run"]["status"] for message in talk(shop, conversation)] == ["QUEUED", None]
    assert len(runs(conversation)) == 1


def test_the_same_client_message_id_is_the_same_message(shop: Shop) -> None:
    conversation = begin(shop)
    first = say(shop, conversation, "你好", client_message_id="a")
    assert say(shop, conversation, "你好", client_message_id="a") == first
    assert Message.objects.count() == len(runs(conversation)) == 1
    other_text = shop.shopper.post(
        f"{CONVERSATIONS}/{conversation}/messages", {"text": "再见", "client_message_id": "a"}
    )
    assert other_text.status_code == 409
    assert other_text.json()["code"] == "CONFLICT"
    assert other_text.json()["message_id"] == first["message"]["id"]
    assert say(shop, begin(shop), "再见", client_message_id="a")["message"]["sequence"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": ""},
        {"text": " \n　"},
        {"text": "字" * 2001},
        {"text": "a\x00b"},
        {"text": "\ud800"},
        {"text": None},
        {"text": ["你好"]},
        {"text": "你好", "client_message_id": ""},
        {"text": "你好", "client_message_id": " a"},
        {"text": "你好", "client_message_id": "x" * 65},
        {"text": "你好", "tenant": 1},
        {"text": "你好", "role": "assistant"},
        ["你好"],
        "你好",
    ],
)
def test_a_bad_message_is_refused_and_nothing_is_written(shop: Shop, body: object) -> None:
    conversation = begin(shop)
    response = shop.shopper.post(
        f"{CONVERSATIONS}/{conversation}/messages", json.dumps(body), content_type="application/json"
    )
    assert response.status_code == 400, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "INVALID"
    assert not Message.objects.exists()
    assert not AgentRun.objects.exists()
    assert not ConversationEvent.objects.exists()


def test_the_longest_message_is_accepted(shop: Shop) -> None:
    text = "😀" * 2000
    assert say(shop, begin(shop), text)["message"]["text"] == text


def test_a_conversation_takes_nothing_from_the_body(shop: Shop, other_shop: Shop) -> None:
    for body in ({"store": str(other_shop.store.public_id)}, {"tenant": 1}, {"customer": 1}):
        assert shop.shopper.post(CONVERSATIONS, body).status_code == 400
    assert not Conversation.objects.exists()


def test_whatever_is_not_the_callers_answers_like_an_unknown_id(shop: Shop, other_shop: Shop) -> None:
    conversation = begin(shop)
    run = say(shop, conversation, "我的秘密")["run"]["id"]
    same_customer_elsewhere = customer_client(shop.customer, make_store(shop.tenant))
    neighbour = customer_client(make_customer(shop.tenant), shop.store)
    for client in (other_shop.shopper, same_customer_elsewhere, neighbour):
        for (method, address, body), (_, unknown, _) in zip(
            _addresses(conversation, run), _addresses(UNKNOWN, UNKNOWN), strict=True
        ):
            foreign_answer = getattr(client, method)(address, body)
            unknown_answer = getattr(client, method)(unknown, body)
            assert foreign_answer.status_code == unknown_answer.status_code == 404
            assert foreign_answer.content == unknown_answer.content
        assert client.get(CONVERSATIONS).json()["results"] == []
    assert Message.objects.count() == 1
    assert runs(conversation)[0].status == "QUEUED"


def test_staff_and_strangers_have_no_place_here(shop: Shop) -> None:
    conversation = begin(shop)
    for client in (shop.staff, APIClient()):
        for method, address, body in [*_addresses(conversation, str(uuid4())), ("get", CONVERSATIONS, {})]:
            assert getattr(client, method)(address, body).status_code == 401


def test_conversations_come_in_pages_newest_first(shop: Shop) -> None:
    made = [begin(shop) for _ in range(5)]
    seen: list[str] = []
    address: str | None = f"{CONVERSATIONS}?page_size=2"
    while address:
        page = shop.shopper.get(address).json()
        seen += [conversation["id"] for conversation in page["results"]]
        address = page["next"]
    assert seen == made[::-1]
    for bad in ("page_size=0", "page_size=201", "page_size=x", "cursor=%00", "tenant=1"):
        assert shop.shopper.get(f"{CONVERSATIONS}?{bad}").status_code == 400, bad


def test_messages_come_in_pages_after_a_sequence(shop: Shop) -> None:
    conversation = begin(shop)
    for number in range(5):
        say(shop, conversation, f"第{number}")
    address = f"{CONVERSATIONS}/{conversation}/messages"
    seen: list[int] = []
    after = 0
    while after is not None:
        page = shop.shopper.get(f"{address}?after={after}&page_size=2").json()
        seen += [message["sequence"] for message in page["results"]]
        after = page["next_after"]
    assert seen == [1, 2, 3, 4, 5]
    for bad in ("after=-1", "after=x", "page_size=0", "page_size=201", "before=3"):
        assert shop.shopper.get(f"{address}?{bad}").status_code == 400


def test_a_closed_conversation_takes_no_more_messages(shop: Shop) -> None:
    conversation = begin(shop)
    Conversation.objects.filter(public_id=conversation).update(status="CLOSED")
    response = shop.shopper.post(f"{CONVERSATIONS}/{conversation}/messages", {"text": "你好"})
    assert response.status_code == 409
    assert not Message.objects.exists()


def test_a_cancelled_run_gives_way_to_the_next_message(shop: Shop) -> None:
    conversation = begin(shop)
    run = say(shop, conversation, "第一")["run"]["id"]
    say(shop, conversation, "第二")
    cancelled = shop.shopper.post(f"/openapi/v1/runs/{run}/cancel")
    assert cancelled.status_code == 200
    assert (cancelled.json()["status"], cancelled.json()["error_code"]) == ("CANCELLED", "CANCELLED")
    again = shop.shopper.post(f"/openapi/v1/runs/{run}/cancel")
    assert again.json() == cancelled.json()
    assert [message["run"]["status"] for message in talk(shop, conversation)] == ["CANCELLED", "QUEUED"]
    assert [event.kind for event in ConversationEvent.objects.order_by("sequence")] == [
        "message",
        "run.started",
        "message",
        "run.cancelled",
        "run.started",
    ]


def test_events_are_numbered_without_gaps_and_hold_no_text(shop: Shop) -> None:
    conversation = begin(shop)
    say(shop, conversation, "不要外传的话")
    say(shop, conversation, "另一句")
    events = list(ConversationEvent.objects.order_by("sequence"))
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert "外传" not in json.dumps([event.data for event in events], ensure_ascii=False)
