"""Fusion, as tables and properties."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge import ranking
from knowledge.ranking import Candidate, Fusion, Hit, Legs

RRF, CONVEX = Fusion("rrf", 0.75), Fusion("convex", 0.75)


def hit(document_id: int, score: float, cosine: float | None = None, position: int = 0) -> Hit:
    return Hit(document_id, 1, "1-a", position, score if cosine is None else cosine, score)


def fused(fusion: Fusion, dense: Sequence[Hit], keyword: Sequence[Hit]) -> list[Candidate]:
    return ranking.fuse([Legs("hashing", dense, keyword)], fusion)


def order(candidates: Sequence[Candidate]) -> list[int]:
    return [candidate.key[0] for candidate in candidates]


def test_rrf_prefers_what_both_legs_found_over_the_first_of_one() -> None:
    dense = [hit(1, 0.95), hit(2, 0.9)]
    keyword = [hit(3, 12.0, 0.5), hit(2, 11.0, 0.9)]
    assert order(fused(RRF, dense, keyword)) == [2, 1, 3]


def test_rrf_weighs_ranks_as_its_formula_says() -> None:
    (first,) = fused(RRF, [hit(1, 0.9)], [hit(1, 5.0, 0.9)])
    assert first.weight == pytest.approx(2 / 61)


def test_convex_adds_the_scaled_cosine_and_the_share_of_the_best_score() -> None:
    dense = [hit(1, 0.9), hit(2, 0.8), hit(3, 0.7)]
    candidates = fused(CONVEX, dense, [hit(3, 10.0, 0.7), hit(1, 5.0, 0.9)])
    assert {c.key[0]: c.weight for c in candidates} == pytest.approx({1: 0.875, 2: 0.375, 3: 0.25})


def test_convex_sees_how_far_ahead_the_first_is_where_rrf_counts_ranks_alone() -> None:
    dense = [hit(number, 0.80 - number / 1000, None) for number in range(2, 9)] + [hit(1, 0.95)]
    keyword = [hit(number, 9.0 - number / 100, 0.80 - number / 1000) for number in range(2, 9)]
    assert order(fused(CONVEX, dense, keyword))[0] == 1
    assert order(fused(RRF, dense, keyword))[0] == 2


def test_without_a_word_in_common_meaning_alone_orders() -> None:
    assert order(fused(CONVEX, [hit(1, 0.7), hit(2, 0.9)], [])) == [2, 1]
    assert order(fused(RRF, [hit(1, 0.7), hit(2, 0.9)], [])) == [2, 1]


@pytest.mark.parametrize("fusion", [RRF, CONVEX])
@given(
    dense=st.lists(st.tuples(st.integers(1, 9), st.floats(-1, 1)), unique_by=lambda pair: pair[0]),
    keyword=st.lists(st.tuples(st.integers(1, 9), st.floats(0, 50)), unique_by=lambda pair: pair[0]),
)
def test_fusion_names_each_chunk_once_whatever_the_order_of_its_input(fusion, dense, keyword) -> None:
    legs = [[hit(*pair) for pair in dense], [hit(*pair) for pair in keyword]]
    candidates = fused(fusion, *legs)
    assert sorted(order(candidates)) == sorted({pair[0] for pair in (*dense, *keyword)})
    assert all(math.isfinite(candidate.weight) for candidate in candidates)
    assert candidates == fused(fusion, *[list(reversed(leg)) for leg in legs])


def test_a_chunk_keeps_the_cosine_of_the_dense_leg() -> None:
    (candidate,) = fused(RRF, [hit(1, 0.9)], [hit(1, 30.0, 0.9001)])
    assert candidate.cosine == 0.9


# --- Several collections ---
def test_a_collection_that_has_nothing_on_the_matter_is_not_lifted_by_being_the_best_of_itself() -> None:
    matter = Legs("m", [hit(1, 0.9), hit(2, 0.88)], [hit(1, 12.0, 0.9), hit(2, 11.0, 0.88)])
    beside = Legs("m", [hit(3, 0.87), hit(4, 0.5)], [hit(3, 1.0, 0.87), hit(4, 0.5, 0.5)])
    assert order(ranking.fuse([beside, matter], CONVEX)) == [1, 2, 3, 4]


def test_with_rrf_each_collection_ranks_its_words_for_itself() -> None:
    large = Legs("m", [hit(1, 0.9)], [hit(1, 3.0, 0.9)])
    small = Legs("m", [hit(2, 0.8)], [hit(2, 30.0, 0.8)])
    assert [c.weight for c in ranking.fuse([large, small], RRF)] == pytest.approx([2 / 61, 1 / 62 + 1 / 61])


@pytest.mark.parametrize("fusion", [RRF, CONVEX])
def test_cosines_of_different_models_are_not_compared(fusion: Fusion) -> None:
    low = Legs("low", [hit(1, 0.3), hit(2, 0.1)], [])
    high = Legs("high", [hit(3, 0.95), hit(4, 0.93)], [])
    assert set(order(ranking.fuse([low, high], fusion))[:2]) == {1, 3}
