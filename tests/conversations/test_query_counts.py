"""How many queries a turn costs, however long the talk is."""

from collections.abc import Callable

import pytest

from conversations import turns
from tests.conversations.talking import begin, runs, say, work
from tests.factories import Shop
from tests.knowledge.publishing import publish
from tests.query_counts import pinned


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


def test_a_turn_costs_what_it_cost_yesterday(shop: Shop, answered: Callable[[int], str]) -> None:
    for questions in (1, 4):
        conversation = answered(questions)
        say(shop, conversation, "键盘怎么清洁？")
        run = runs(conversation)[-1]
        with pinned("a turn that searches once"):
            turns.run_turn(run.pk)
