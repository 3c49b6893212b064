"""The rerank stage: the last word on the order when it can be asked, no word at all when it cannot."""

import time
from collections.abc import Iterator, Sequence

import pytest
from pytest_django.fixtures import Settings

from knowledge import reranking, retrieval
from knowledge.results import Rerank, ScoreKind, SearchResult
from tests.factories import Shop
from tests.knowledge.publishing import publish, revoke
from tests.knowledge.test_retrieval import QUESTION, TEXT, titles
from zhifu import faults
from zhifu.errors import Unauthenticated


class Scripted:
    """A reranker at the adapter: gives each text the number it ends with, as hundredths."""

    threshold = 0.3

    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        return [int(text.rsplit("。", 1)[1]) / 100 for text in texts]


class Fewer(Scripted):
    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        return list(super().scores(query, texts, deadline))[:-1]


class NotANumber(Scripted):
    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        return [float("nan")] * len(texts)


class Raw(Scripted):
    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        return [7.5] * len(texts)


class Broken(Scripted):
    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        raise RuntimeError("no GPU")


class Slow(Scripted):
    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        time.sleep(1)
        return super().scores(query, texts, deadline)


class Leaving(Scripted):
    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        raise SystemExit(3)


class Counting(Broken):
    asked = 0

    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        Counting.asked += 1
        return super().scores(query, texts, deadline)


class Longest(Scripted):
    """Says how many texts it was given at most."""

    given = 0

    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        Longest.given = max(Longest.given, len(texts))
        return [0.5] * len(texts)


@pytest.fixture(autouse=True)
def rested() -> Iterator[None]:
    """No reranker rests because of another test."""
    yield
    reranking._rests_until.clear()


@pytest.fixture
def rerankers(settings: Settings) -> Settings:
    names = ("Scripted", "Fewer", "NotANumber", "Raw", "Broken", "Slow", "Leaving", "Counting", "Longest")
    settings.RERANKERS = {name.lower(): f"{__name__}.{name}" for name in names}
    settings.RERANK_DEADLINE_SECONDS = 0.2
    return settings


def use(settings: Settings, name: str, **values: object) -> None:
    settings.KNOWLEDGE = {"rerank": name, "similarity_threshold": 0.0, **values}


def search(shop: Shop, **values: object) -> SearchResult:
    return retrieval.search(shop.customer_scope, QUESTION, **values)


def publish_scored(shop: Shop, *scores: int) -> None:
    for score in scores:
        publish(shop, f"文档 {score}", f"{TEXT}{score:02}", collection="product")


def test_without_one_configured_nothing_is_reranked(shop: Shop, rerankers: Settings) -> None:
    publish_scored(shop, 50)
    result = search(shop)
    assert result.rerank == Rerank.OFF
    assert result.passages[0].score_kind == ScoreKind.COSINE


def test_its_scores_order_and_are_what_the_threshold_judges(shop: Shop, rerankers: Settings) -> None:
    publish_scored(shop, 40, 90, 20, 65)
    use(rerankers, "scripted", similarity_threshold=1.0)
    result = search(shop)
    assert titles(result) == ["文档 90", "文档 65", "文档 40"]
    assert [(passage.score, passage.score_kind) for passage in result.passages] == [
        (0.9, ScoreKind.RERANKER),
        (0.65, ScoreKind.RERANKER),
        (0.4, ScoreKind.RERANKER),
    ]
    assert result.rerank == Rerank.APPLIED
    for threshold, expected in ((0.0, 4), (0.2, 4), (0.5, 2), (0.9, 1), (1.0, 0)):
        use(rerankers, "scripted", rerank_threshold=threshold)
        assert len(search(shop).passages) == expected


@pytest.mark.parametrize("name", ["fewer", "notanumber", "raw", "broken", "slow", "leaving", "unknown"])
def test_one_that_cannot_be_asked_leaves_the_fused_order_and_says_so(
    shop: Shop, rerankers: Settings, name: str
) -> None:
    publish_scored(shop, 40, 90, 20)
    use(rerankers, "")
    fused = search(shop)
    use(rerankers, name)
    started = time.monotonic()
    result = search(shop)
    assert result.rerank == Rerank.FAILED
    assert result.passages == fused.passages
    assert not result.degraded
    assert time.monotonic() - started < 5


def test_one_that_failed_is_left_alone_for_a_while(shop: Shop, rerankers: Settings) -> None:
    publish_scored(shop, 40)
    use(rerankers, "counting")
    before = Counting.asked
    assert [search(shop).rerank for _ in range(3)] == [Rerank.FAILED] * 3
    assert Counting.asked == before + 1


def test_it_reads_the_best_passages_once_for_a_search(shop: Shop, rerankers: Settings) -> None:
    for number in range(20):
        publish(shop, f"甲 {number}", f"{TEXT}第{number}种", collection="product")
        publish(shop, f"乙 {number}", f"{TEXT}第{number}类", collection="faq")
    use(rerankers, "longest")
    assert len(search(shop).passages) == 5
    assert Longest.given == 30


def test_hung_ones_take_their_places_and_no_more_and_harm_nobody(shop: Shop, rerankers: Settings) -> None:
    publish_scored(shop, 40)
    use(rerankers, "slow")
    for _ in range(6):
        reranking._rests_until.clear()
        assert search(shop).rerank == Rerank.FAILED
    # Those that hung have given their places back.
    time.sleep(1.2)
    use(rerankers, "scripted")
    assert search(shop).rerank == Rerank.APPLIED


def test_what_was_revoked_while_it_read_is_not_shown(shop: Shop, rerankers: Settings) -> None:
    publish_scored(shop, 40)
    document = publish(shop, "撤回", f"{TEXT}99", collection="product")
    use(rerankers, "scripted")
    with faults.at("search.after_rerank", lambda: revoke(shop, document)):
        assert titles(search(shop)) == ["文档 40"]


def test_who_lost_access_while_it_read_sees_nothing(shop: Shop, rerankers: Settings) -> None:
    publish_scored(shop, 40)
    use(rerankers, "scripted")

    def close() -> None:
        type(shop.store).objects.filter(pk=shop.store.pk).update(is_open=False)

    with faults.at("search.after_rerank", close), pytest.raises(Unauthenticated):
        search(shop)


def test_a_higher_limit_never_changes_the_head(shop: Shop, rerankers: Settings) -> None:
    publish_scored(shop, 40, 90, 55, 65, 75)
    use(rerankers, "scripted")
    whole = titles(search(shop, limit=20))
    assert [titles(search(shop, limit=limit)) for limit in range(1, 5)] == [whole[:limit] for limit in range(1, 5)]
