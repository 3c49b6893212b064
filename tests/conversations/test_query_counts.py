"""How many queries reading and answering cost, however long the talk is."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from conversations import turns
from tests.conversations.talking import CONVERSATIONS, begin, runs, say, work
from tests.factories import Shop
from tests.knowledge.publishing import publish


def _count(act: Callable[[], object]) -> int:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        act()
    return len(queries)


@pytest.fixture
def answered(shop: Shop) -> Callable[[int], str]:
    """Return a function that makes a conversation with so many answered questions."""
    publish(shop, "键盘怎么清洁", "清洁键盘前请先拔掉电源。用软毛刷清洁键盘缝隙。")
    publish(shop, "鼠标怎么清洁", "清洁鼠标时用干布擦拭底部的光学窗口。")

    def talk_about(questions: int) -> str:
        conversation = begin(shop)
        for number in range(questions):
            say(shop, conversation, "键盘怎么清洁？" if number % 2 else "鼠标怎么清洁？")
        work(conversation)
        return conversation

    return talk_about


def test_reading_messages_costs_the_same_however_many_there_are(shop: Shop, answered: Callable[[int], str]) -> None:
    short, long = answered(1), answered(6)
    client = shop.shopper

    def read(conversation: str) -> int:
        return _count(lambda: client.get(f"{CONVERSATIONS}/{conversation}/messages"))

    # Store with tenant, customer; conversation; messages, their runs, sources, versions.
    assert read(short) == read(long) == 7


def test_the_other_addresses_cost_a_handful(shop: Shop, answered: Callable[[int], str]) -> None:
    conversation = answered(2)
    run = runs(conversation)[0].public_id
    client = shop.shopper
    assert _count(lambda: client.get(CONVERSATIONS)) == 3
    assert _count(lambda: client.get(f"{CONVERSATIONS}/{conversation}")) == 3
    assert _count(lambda: client.get(f"/openapi/v1/runs/{run}")) == 5
    assert _count(lambda: client.post(f"{CONVERSATIONS}/{conversation}/messages", {"text": "你好"})) == 15


def test_a_turn_costs_what_it_cost_yesterday(shop: Shop, answered: Callable[[int], str]) -> None:
    conversation = answered(1)
    say(shop, conversation, "键盘怎么清洁？")
    run = runs(conversation)[-1]
    assert _count(lambda: turns.run_turn(run.pk)) == 94
