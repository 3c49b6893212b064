"""Rerank: a model that reads question and passage together has the last word on the order, where one is configured.

It must earn its place by measurement (`evaluate_retrieval --compare`), so none is by default. A reranker that cannot
be asked changes nothing: the fused order stands, and the result says so.
"""

import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol, TypeVar

from django.conf import settings
from prometheus_client import Counter

from knowledge import instances
from knowledge.chunking import embedded_text
from knowledge.results import ScoreKind
from knowledge.selection import Weighed
from zhifu.errors import Unavailable

logger = logging.getLogger(__name__)

# One that failed is left alone so long by this process: its timeout is not paid by each search.
_REST_SECONDS = 10.0
# How many calls may be on their way in one process.
_places = threading.BoundedSemaphore(4)

FAILED = Counter("zhifu_rerank_failed", "Searches whose reranker could not be asked.", ["reranker"])

Answer = TypeVar("Answer")


class Reranker(Protocol):
    """A model that judges pairs of texts. `threshold` is the least score of a passage worth showing. It is called from
    several threads."""

    threshold: float

    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        """Return how well each text answers the query, 0..1, in the order of `texts`. `deadline` is a moment of
        time.monotonic()."""


def rerank(
    name: str, query: str, weighed: Sequence[Weighed], *, threshold: float | None, deadline: float
) -> list[Weighed]:
    """Return the passages with the reranker's scores, which also order them; `threshold` None: the reranker's own.

    Raises Unavailable (RERANK_UNAVAILABLE) when it fails, is late, or does not give one number of 0..1 for each text.
    """
    key = (os.getpid(), name)
    # Who has no time left learns nothing about the reranker by asking it.
    if time.monotonic() < _rests_until.get(key, 0.0) or time.monotonic() >= deadline:
        raise _unavailable()
    texts = [embedded_text(item.passage.title, item.passage.text) for item in weighed]
    try:
        own_threshold, scores = _in_time(lambda: _ask(name, query, texts, deadline), deadline)
    except _Busy as busy:
        raise _unavailable() from busy
    except Exception as error:
        # Whatever a model raises: the search goes on without it.
        logger.warning("reranker failed", extra={"reranker": name, "cause": f"{type(error).__name__}: {error}"[:300]})
        FAILED.labels(name).inc()
        _rests_until[key] = time.monotonic() + _REST_SECONDS
        raise _unavailable() from error
    least = own_threshold if threshold is None else threshold
    return [_rescored(item, score, least) for item, score in zip(weighed, scores, strict=True)]


def get_reranker(name: str) -> Reranker:
    """Return this process's reranker of that name. Raises Broken when settings.RERANKERS does not know it."""
    reranker: Reranker = instances.named(name, settings.RERANKERS, "reranker")
    return reranker


_rests_until: dict[tuple[int, str], float] = {}


def _ask(name: str, query: str, texts: list[str], deadline: float) -> tuple[float, list[float]]:
    """Return the reranker's own threshold and its scores."""
    reranker = get_reranker(name)
    (threshold,) = _checked([reranker.threshold], 1)
    return threshold, _checked(reranker.scores(query, texts, deadline), len(texts))


def _in_time(ask: Callable[[], Answer], deadline: float) -> Answer:
    """Return what `ask` returns, or raise what it raises, by `deadline` (TimeoutError). It runs in a thread that may
    hang without keeping the process from ending; so many at once, then _Busy."""
    if not _places.acquire(blocking=False):
        raise _Busy
    answer: Future[Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001  # a model's SystemExit is its failure, not this process's end
            answer.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
        finally:
            _places.release()

    threading.Thread(target=run, name="rerank", daemon=True).start()
    return answer.result(timeout=max(0.0, deadline - time.monotonic()))


class _Busy(Exception):
    """All places are taken, by calls that may hang."""


def _checked(scores: Sequence[float], count: int) -> list[float]:
    # One more than wanted is enough to see that there are too many.
    found = [float(score) for score in itertools.islice(scores, count + 1)]
    if len(found) != count:
        raise ValueError(f"not one score for each of {count} texts")
    if not all(math.isfinite(score) and 0 <= score <= 1 for score in found):
        raise ValueError("a score is not a number of 0..1")
    return found


def _rescored(item: Weighed, score: float, least: float) -> Weighed:
    passage = replace(item.passage, score=score, score_kind=ScoreKind.RERANKER)
    return replace(item, passage=passage, weight=score, least=least)


def _unavailable() -> Unavailable:
    return Unavailable("重排模型暂不可用 / The reranker is not available.", code="RERANK_UNAVAILABLE")
