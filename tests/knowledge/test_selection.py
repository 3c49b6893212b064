"""Selection, as tables and properties."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.results import Passage
from knowledge.selection import Selection, Shortlist, Weighed

TOP_K = {"faq": 3, "policy": 5}
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def weighed(document_id: int, weight: float, *, score: float = 0.9, text: str = "", **values: Any) -> Weighed:
    passage = Passage(
        document_id=document_id,
        source_id=uuid4(),
        version=1,
        build="1-a",
        position=values.get("position", 0),
        title=values.get("title", f"title {document_id}"),
        text=text or f"text {document_id}",
        collection=values.get("collection", "faq"),
        tags=(),
        updated_at=MOMENT + timedelta(days=values.get("day", 0)),
        score=score,
    )
    return Weighed(passage, weight, values.get("least", 0.6), frozenset(values.get("codes", ())))


def select(*stages: list[Weighed], limit: int = 5, top_k: dict[str, int] = TOP_K) -> Selection:
    shortlist = Shortlist(top_k, limit)
    for stage in stages:
        shortlist.add(stage)
    return shortlist.selection()


def ids(selection: Selection) -> list[int]:
    return [passage.document_id for passage in selection.passages]


def test_equal_weights_come_in_the_order_of_their_texts_hash_every_time() -> None:
    items = [weighed(number, 0.5) for number in (1, 2, 3)]
    assert ids(select(items)) == ids(select(items[::-1]))
    twins = [weighed(2, 0.5, text="same"), weighed(1, 0.5, text="same")]
    assert ids(select(twins)) == [1]


def test_each_collection_gives_at_most_its_top_k_and_all_at_most_the_limit() -> None:
    items = [weighed(number, 1 - number / 100) for number in range(1, 5)]
    items += [weighed(number, 1 - number / 100, collection="policy") for number in range(5, 9)]
    selection = select(items)
    assert ids(selection) == [1, 2, 3, 5, 6]
    assert selection.left_out


# --- What says the same ---
def test_repeated_text_is_shown_once_and_does_not_use_up_the_limit() -> None:
    items = [weighed(1, 0.9, text="甲"), weighed(2, 0.8, text="甲。"), weighed(3, 0.7, text="乙")]
    selection = select(items, limit=2)
    assert ids(selection) == [1, 3]
    assert not selection.left_out


def test_of_what_says_the_same_the_newest_with_about_the_best_score_stands_for_all() -> None:
    items = [
        weighed(1, 0.9, score=0.88, text="七天内可退。", day=1),
        weighed(2, 0.8, score=0.865, text="七天内可退 ！", day=9),
        weighed(3, 0.7, score=0.70, text="七天内可退！", day=99),
    ]
    assert ids(select(items)) == [2]


def test_a_repeat_under_the_number_asked_for_is_the_one_that_is_shown() -> None:
    items = [
        weighed(1, 0.5, score=0.3, text="保修一年", title="TH01 保修", day=1, codes=["th01"]),
        weighed(2, 0.9, score=0.3, text="保修一年", title="TH02 保修", day=9),
    ]
    assert ids(select(items)) == [1]


def test_a_newer_repeat_that_scores_too_little_or_has_no_room_hides_nothing() -> None:
    items = [weighed(1, 0.9, score=0.605, text="甲", day=1), weighed(2, 0.8, score=0.595, text="甲。", day=2)]
    assert ids(select(items)) == [1]
    full = [weighed(number, 0.99, text=f"乙{number}") for number in range(3, 6)]
    elsewhere = [
        weighed(1, 0.5, score=0.9, text="甲", collection="policy", day=1),
        weighed(2, 0.4, score=0.895, text="甲。", day=2),
    ]
    assert 1 in ids(select([*full, *elsewhere]))


def test_what_an_earlier_stage_said_is_not_said_again() -> None:
    first, second = weighed(1, 0.5, text="七天内可退。"), weighed(2, 0.9, text="七天内可退", day=9)
    assert ids(select([first], [second])) == [1]


def test_an_answer_is_full_at_the_limit_or_when_every_collection_gave_its_most() -> None:
    faq = [weighed(number, 0.9) for number in range(3)]
    assert select(faq, limit=3).is_full
    assert select(faq, limit=9, top_k={"faq": 3}).is_full
    assert not select(faq, limit=9).is_full


def test_a_repeat_that_scores_too_little_does_not_hide_the_text_that_scores_enough() -> None:
    items = [weighed(1, 0.9, score=0.5, text="甲"), weighed(2, 0.8, score=0.9, text="甲")]
    assert ids(select(items)) == [2]


def test_numbers_and_negations_are_never_taken_for_the_same() -> None:
    texts = ["七天内可以退货", "七天内不可以退货", "价格 1.5 元", "价格 15 元"]
    items = [weighed(number, 1 - number / 10, text=text) for number, text in enumerate(texts)]
    assert ids(select(items, top_k={"faq": 9})) == [0, 1, 2, 3]


# --- Newer first ---
def test_of_two_documents_of_one_title_with_close_scores_the_newer_comes_first() -> None:
    old = weighed(1, 0.9, score=0.90, title="退货政策", text="七天内退货", day=1)
    new = weighed(2, 0.8, score=0.885, title="退货政策", text="十五天内退货", day=2)
    other = weighed(3, 0.85, score=0.89, title="发票", day=3)
    assert ids(select([old, other, new])) == [2, 1, 3]
    assert ids(select([new, old, other])) == [2, 1, 3]


def test_scores_that_are_not_close_and_other_titles_keep_their_order() -> None:
    old = weighed(1, 0.9, score=0.90, title="退货政策", day=1)
    assert ids(select([old, weighed(2, 0.8, score=0.80, title="退货政策", day=2)])) == [1, 2]
    assert ids(select([old, weighed(2, 0.8, score=0.90, title="退货", day=2)])) == [1, 2]
    coded = weighed(2, 0.95, score=0.90, title="退货政策", day=0, codes=["th01"])
    assert ids(select([old, coded, weighed(3, 0.1), weighed(4, 0.1)])) == [2, 1, 3]


def test_another_question_under_the_same_title_is_no_newer_edition() -> None:
    old = weighed(1, 0.9, score=0.90, title="常见问题", text="耳机如何配对：长按电源键三秒。", day=1)
    new = weighed(2, 0.8, score=0.89, title="常见问题", text="如何开发票：在订单页申请。", day=2)
    assert ids(select([old, new])) == [1, 2]


def test_a_newer_document_does_not_bring_its_other_passages_forward() -> None:
    old = [weighed(1, 0.9, score=0.90, title="手册", position=4, text="清洁要点如下", day=1)]
    new = [
        weighed(2, 0.85, score=0.89, title="手册", position=4, text="新的清洁要点如下", day=2),
        weighed(2, 0.2, score=0.88, title="手册", position=0, text="清洁前言如下", day=2),
    ]
    between = weighed(3, 0.5, score=0.89)
    shown = select([*old, *new, between], top_k={"faq": 9}).passages
    assert [(passage.document_id, passage.position) for passage in shown] == [(2, 4), (1, 4), (3, 0), (2, 0)]


# --- Codes ---
def test_a_passage_that_holds_the_number_asked_for_is_not_cut_and_comes_first() -> None:
    items = [weighed(number, 0.9 - number / 100, text=f"说明 {number}") for number in range(4)]
    items.append(weighed(9, 0.1, score=0.1, text="TH01 的说明", codes=["th01"]))
    assert ids(select(items)) == [9, 0, 1]


def test_a_number_that_most_passages_hold_orders_nothing() -> None:
    items = [weighed(number, 0.9 - number / 100, text=f"iOS17 {number}", codes=["ios17"]) for number in range(3)]
    items.append(weighed(9, 0.95, text="别的"))
    assert ids(select(items)) == [9, 0, 1]


# --- Stages, limits, thresholds ---
SIGNS = st.sampled_from(["七天退货", "七天退货。", "不可退货", "开发票", "TH01", "保修一年"])
ITEMS = st.lists(
    st.builds(
        weighed,
        st.integers(1, 6),
        st.floats(0, 1),
        score=st.floats(0, 1),
        text=SIGNS,
        title=st.sampled_from(["退货", "保修"]),
        collection=st.sampled_from(["faq", "policy"]),
        day=st.integers(0, 3),
        position=st.integers(0, 3),
    ),
    max_size=8,
    unique_by=lambda item: (item.passage.document_id, item.passage.position),
)


@given(ITEMS, ITEMS, st.integers(1, 8), st.integers(1, 8))
def test_a_higher_limit_never_changes_the_head(first, second, limit, more) -> None:
    few, many = select(first, second, limit=limit), select(first, second, limit=limit + more)
    assert many.passages[: len(few.passages)] == few.passages


@given(ITEMS, ITEMS)
def test_a_later_stage_never_changes_what_an_earlier_one_brought(first, second) -> None:
    alone, both = select(first, limit=20), select(first, second, limit=20)
    assert both.passages[: len(alone.passages)] == alone.passages


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6, 1.0])
@given(items=ITEMS, step=st.floats(0, 0.5))
def test_a_higher_threshold_never_gives_more(threshold: float, items: list[Weighed], step: float) -> None:
    def shown(least: float) -> list[Passage]:
        return list(select([Weighed(one.passage, one.weight, least) for one in items]).passages)

    low, high = shown(threshold), shown(threshold + step)
    assert len(high) <= len(low)
    assert all((passage.score or 0) >= threshold + step for passage in high)


def test_a_threshold_of_zero_is_a_threshold_and_lets_everything_by() -> None:
    items = [weighed(1, 0.9, score=0.0, least=0.0), weighed(2, 0.8, score=0.0, least=0.01)]
    assert ids(select(items)) == [1]
