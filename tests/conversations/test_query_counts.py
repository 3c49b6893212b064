"""How many queries a turn costs, however long the talk is."""

from collections.abc import Callable

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from conversations import history, turns
from knowledge.models import KnowledgeDocument
from tests.conversations.talking import begin, runs, say, work
from tests.factories import Shop
from tests.knowledge.publishing import publish, revoke
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


def test_history_whose_material_is_gone_costs_no_more_however_long_it_is(
    shop: Shop, answered: Callable[[int], str], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    talks = [answered(1), answered(4)]
    for document in KnowledgeDocument.objects.in_scope(shop.staff_scope):
        revoke(shop, document)
    for conversation in talks:
        say(shop, conversation, "键盘怎么清洁？")
        run = runs(conversation)[-1]
        # The question, earlier ones, their runs, what of it is live.
        with django_assert_num_queries(4):
            opening = history.opening_messages(run)
        assert "略去" in opening[1]["content"]
