"""How well rankings find what was judged, and whether one is better than another.

Numpy and the standard library only: what compares the product with others reads the same code without Django.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
_SEED = 20_261
_CUT = 10
# How many resamples are drawn at once: 250 of 3,000 queries take 6 MB.
_DRAWN_AT_ONCE = 250


@dataclass(frozen=True)
class Outcome:
    """What a ranking made of a query: the rank of the first relevant document, from 1 on (None: not proposed), and
    nDCG@10."""

    rank: int | None
    ndcg: float


def judge(ranking: Iterable[str], grades: Mapping[str, int]) -> Outcome:
    """Return the outcome of a ranking of distinct documents; `grades`: document -> how relevant, 0 being not at all.

    nDCG@10 = DCG of the ranking / DCG of the best possible one, DCG = sum over the first 10 of grade / log2(1 + rank)
    (Järvelin and Kekäläinen, ACM TOIS 2002; the gain is the grade, as trec_eval has it).
    Raises ValueError when no document is relevant.
    """
    documents = list(ranking)
    best = _dcg(sorted(grades.values(), reverse=True))
    if not best:
        raise ValueError("no document is relevant to this query")
    rank = next((place for place, document in enumerate(documents, 1) if grades.get(document, 0) > 0), None)
    return Outcome(rank, _dcg(grades.get(document, 0) for document in documents[:_CUT]) / best)


def _dcg(grades: Iterable[int]) -> float:
    gains = np.asarray([grade for grade, _place in zip(grades, range(_CUT), strict=False)], dtype=np.float64)
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())


def _hit(cut: int) -> Callable[[Outcome], float]:
    return lambda outcome: float(outcome.rank is not None and outcome.rank <= cut)


def _reciprocal(outcome: Outcome) -> float:
    return 1 / outcome.rank if outcome.rank is not None and outcome.rank <= _CUT else 0.0


# Each a value per query; what is told is its mean. hit@k: a relevant document is among the first k. MRR@10: 1 / rank
# of the first relevant one, 0 beyond 10 (Voorhees, TREC-8 1999).
METRICS: dict[str, Callable[[Outcome], float]] = {
    "hit@1": _hit(1),
    "hit@5": _hit(5),
    "hit@10": _hit(10),
    "MRR@10": _reciprocal,
    "nDCG@10": lambda outcome: outcome.ndcg,
}
# What settles whether a ranking is better than another.
COMPARED = ("hit@1", "hit@5", "MRR@10")


def values(metric: str, outcomes: Sequence[Outcome]) -> NDArray[np.float64]:
    """Return a metric's value for each query."""
    return np.asarray([METRICS[metric](outcome) for outcome in outcomes], dtype=np.float64)


def means(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return metric -> mean over the queries."""
    return {metric: float(values(metric, outcomes).mean()) for metric in METRICS}


@dataclass(frozen=True)
class Difference:
    """By how much a ranking is better in a metric than the one named `against`, with its 95 % interval."""

    metric: str
    against: str
    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> Literal["worse", "tie", "better"]:
        if self.high < 0:
            return "worse"
        return "better" if self.low > 0 else "tie"


def differences(
    ours: Sequence[Outcome], others: Mapping[str, Sequence[Outcome]], metrics: Sequence[str] = COMPARED
) -> list[Difference]:
    """Compare with the best of `others`, name -> outcomes of the same queries, in each metric."""
    found = []
    for metric in metrics:
        theirs = {name: values(metric, outcomes) for name, outcomes in others.items()}
        best = max(theirs, key=lambda name, theirs=theirs: float(theirs[name].mean()))  # type: ignore[misc]
        found.append(Difference(metric, best, *paired_bootstrap(values(metric, ours) - theirs[best])))
    return found


def paired_bootstrap(each: NDArray[np.float64], *, resamples: int = RESAMPLES) -> tuple[float, float, float]:
    """Return the mean of paired differences, one a query, and its 95 % percentile interval; the same at each call.

    Queries are drawn with replacement (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13;
    for retrieval: Sakai, SIGIR 2006).
    """
    draw = np.random.default_rng(_SEED)
    drawn = [
        each[draw.integers(len(each), size=(min(_DRAWN_AT_ONCE, resamples - start), len(each)))].mean(axis=1)
        for start in range(0, resamples, _DRAWN_AT_ONCE)
    ]
    low, high = np.quantile(np.concatenate(drawn), [0.025, 0.975])
    return float(each.mean()), float(low), float(high)


def latency(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50 and p95 in milliseconds."""
    p50, p95 = np.quantile(np.asarray(seconds) * 1000, [0.5, 0.95])
    return {"p50": round(float(p50), 2), "p95": round(float(p95), 2)}
