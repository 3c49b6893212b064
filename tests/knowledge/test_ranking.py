"""Fusion and selection, as tables and properties."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge import ranking
from knowledge.ranking import Hit, Rules, Weighed
from knowledge.results import Passage

RULES = Rules(top_k={"faq": 3, "policy": 5}, limit=5, codes=frozenset())


def hit(document_id: int, score: float, cosine: float | None = None, position: int = 0) -> Hit:
    return Hit(document_id, 1, "1-a", position, score if cosine is None else cosine, score)


def weighed(document_id: int, weight: float, *, score: float = 0.9, text: str = "", **values: Any) -> Weighed:
    passage = Passage(
        document_id=document_id,
        source_id=uuid4(),
        version=1,
        build="1-a",
        position=0,
        title=f"title {document_id}",
        text=text or f"text {document_id}",
        collection=values.get("collection", "faq"),
        tags=(),
        updated_at=datetime(2026, 1, 1, tzinfo=UTC),
        score=score,
    )
    return Weighed(passage, weight, values.get("least", 0.6))


def ids(selection: ranking.Selection) -> list[int]:
    return [passage.document_id for passage in selection.passages]


def test_rrf_prefers_what_both_legs_found_over_the_first_of_one() -> None:
    dense = [hit(1, 0.95), hit(2, 0.9)]
    keyword = [hit(3, 12.0, 0.5), hit(2, 11.0, 0.9)]
    assert [candidate.key[0] for candidate in ranking.rrf(dense, keyword)] == [2, 1, 3]


def test_rrf_weighs_ranks_as_its_formula_says() -> None:
    (first,) = ranking.rrf([hit(1, 0.9)], [hit(1, 5.0, 0.9)])
    assert first.weight == pytest.approx(2 / 61)


def test_convex_weighs_scores_scaled_within_each_leg() -> None:
    candidates = ranking.convex([hit(1, 0.9), hit(2, 0.8), hit(3, 0.7)], [hit(3, 10.0, 0.7), hit(1, 5.0, 0.9)])
    assert {candidate.key[0]: candidate.weight for candidate in candidates} == pytest.approx({1: 0.5, 2: 0.25, 3: 0.5})


@pytest.mark.parametrize("fuse", [ranking.rrf, ranking.convex])
@given(
    dense=st.lists(st.tuples(st.integers(1, 9), st.floats(-1, 1)), unique_by=lambda pair: pair[0]),
    keyword=st.lists(st.tuples(st.integers(1, 9), st.floats(0, 50)), unique_by=lambda pair: pair[0]),
)
def test_fusion_names_each_chunk_once_whatever_the_order_of_its_input(fuse, dense, keyword) -> None:
    legs = [[hit(*pair) for pair in dense], [hit(*pair) for pair in keyword]]
    candidates = fuse(*legs)
    assert sorted(candidate.key[0] for candidate in candidates) == sorted({pair[0] for pair in (*dense, *keyword)})
    assert candidates == fuse(*[list(reversed(leg)) for leg in legs])


def test_a_chunk_keeps_the_cosine_of_the_dense_leg() -> None:
    (candidate,) = ranking.rrf([hit(1, 0.9)], [hit(1, 30.0, 0.9001)])
    assert candidate.cosine == 0.9


def test_equal_weights_come_in_the_order_of_their_texts_hash_every_time() -> None:
    items = [weighed(number, 0.5) for number in (1, 2, 3)]
    assert ids(ranking.select(items, RULES)) == ids(ranking.select(items[::-1], RULES))
    twins = [weighed(2, 0.5, text="same"), weighed(1, 0.5, text="same")]
    assert ids(ranking.select(twins, RULES)) == [1]


def test_repeated_text_is_shown_once_and_does_not_use_up_the_limit() -> None:
    items = [weighed(1, 0.9, text="a"), weighed(2, 0.8, text="a"), weighed(3, 0.7, text="b")]
    selection = ranking.select(items, replace(RULES, limit=2))
    assert ids(selection) == [1, 3]
    assert not selection.left_out


def test_each_collection_gives_at_most_its_top_k_and_all_at_most_the_limit() -> None:
    items = [weighed(number, 1 - number / 100) for number in range(1, 5)]
    items += [weighed(number, 1 - number / 100, collection="policy") for number in range(5, 9)]
    selection = ranking.select(items, RULES)
    assert ids(selection) == [1, 2, 3, 5, 6]
    assert selection.left_out


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6, 1.0])
@given(scores=st.lists(st.floats(0, 1), max_size=5), step=st.floats(0, 0.5))
def test_a_higher_threshold_never_shows_more(threshold: float, scores: list[float], step: float) -> None:
    def shown(least: float) -> set[int]:
        items = [weighed(number, 0.5, score=score, least=least) for number, score in enumerate(scores, 1)]
        return set(ids(ranking.select(items, replace(RULES, top_k={"faq": 9}, limit=9))))

    assert shown(threshold + step) <= shown(threshold)


def test_a_chunk_that_holds_the_codes_of_the_query_is_not_cut() -> None:
    items = [weighed(1, 0.9, score=0.1, text="传感器 TH01 的说明"), weighed(2, 0.8, score=0.1, text="TH011 的说明")]
    assert ids(ranking.select(items, replace(RULES, codes=ranking.codes("ｔｈ０１ 怎么用")))) == [1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("TH01 怎么用", {"th01"}),
        ("传感器-温度-TH01", {"th01"}),
        ("ｔｈ０１", {"th01"}),
        ("A-100/B 有货吗", {"a-100/b"}),
        ("订单 #8821 到哪了", {"#8821"}),
        ("电话 13800001111", {"13800001111"}),
        ("order 2024110500017", {"2024110500017"}),
        ("7天无理由", set()),
        ("2024年的活动", set()),
        ("keyboard", set()),
        ("-" * 33, set()),
        ("第15条 3.5寸", set()),
    ],
)
def test_codes_are_told_from_words_and_plain_numbers(query: str, expected: set[str]) -> None:
    assert ranking.codes(query) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("键盘怎么清洁？", True),
        ("Transformer中多头注意力机制", True),
        ("How do I clean the keyboard?", False),
        ("How do I clean 键盘?", False),
        ("退", True),
        ("8821", False),
        ("", False),
    ],
)
def test_a_text_is_chinese_when_a_third_of_its_letters_are(text: str, expected: bool) -> None:
    assert ranking.is_chinese(text) is expected


@given(st.text())
def test_any_text_may_be_a_query_for_codes(query: str) -> None:
    ranking.holds_code(query, ranking.codes(query))
