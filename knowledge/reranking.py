"""Rerank: a model that reads question and passage together has the last word on the order, where one is configured.

It must earn its place by measurement (`evaluate_retrieval --compare`), so none is by default. A reranker that cannot
be asked changes nothing: the fused order stands, and the result says so.
"""

import logging
import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string
from prometheus_client import Counter

from knowledge.results import ScoreKind
from knowledge.selection import Weighed
from zhifu.errors import Unavailable

logger = logging.getLogger(__name__)

# One that failed is left alone so long by this process: its timeout is not paid by each search.
_REST_SECONDS = 10.0
_THREADS = 4

FAILED = Counter("zhifu_rerank_failed", "Searches whose reranker could not be asked.", ["reranker"])


class Reranker(Protocol):
    """A model that judges pairs of texts. `threshold` is the least score of a passage worth showing. Its methods may
    be called from several threads."""

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
    if time.monotonic() < _rests_until.get((os.getpid(), name), 0.0):
        raise _unavailable()
    try:
        reranker = get_reranker(name)
        texts = [f"{item.passage.title}\n{item.passage.text}" for item in weighed]
        asked = _pool(os.getpid()).submit(reranker.scores, query, texts, deadline)
        found = _checked(asked.result(timeout=max(0.0, deadline - time.monotonic())), len(texts))
    except Exception as error:
        # Whatever a model raises: the search goes on without it.
        logger.warning("reranker failed", extra={"reranker": name, "cause": f"{type(error).__name__}: {error}"[:300]})
        FAILED.labels(name).inc()
        _rests_until[os.getpid(), name] = time.monotonic() + _REST_SECONDS
        raise _unavailable() from error
    least = reranker.threshold if threshold is None else threshold
    return [_rescored(item, score, least) for item, score in zip(weighed, found, strict=True)]


def get_reranker(name: str) -> Reranker:
    """Return this process's reranker of that name. Raises LookupError when settings.RERANKERS does not know it."""
    return _made(os.getpid(), settings.RERANKERS[name])


@cache
def _made(_process: int, path: str) -> Reranker:
    made: Reranker = import_string(path)()
    return made


_rests_until: dict[tuple[int, str], float] = {}


def _checked(scores: Sequence[float], count: int) -> list[float]:
    found = [float(score) for score in scores]
    if len(found) != count:
        raise ValueError(f"{len(found)} scores for {count} texts")
    if not all(math.isfinite(score) and 0 <= score <= 1 for score in found):
        raise ValueError("a score is not a number of 0..1")
    return found


def _rescored(item: Weighed, score: float, least: float) -> Weighed:
    passage = replace(item.passage, score=score, score_kind=ScoreKind.RERANKER)
    return replace(item, passage=passage, weight=score, least=least)


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix=f"rerank-{process}")


def _unavailable() -> Unavailable:
    return Unavailable("重排模型暂不可用 / The reranker is not available.", code="RERANK_UNAVAILABLE")
