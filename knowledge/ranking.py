"""Fusion: from what the indexes propose, by meaning and by words, to one order. Pure functions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

_RRF_K = 60

Key = tuple[int, int, str, int]


@dataclass(frozen=True)
class Hit:
    """A chunk that an index proposes: which, its cosine with the query, and the leg's own score (higher is better)."""

    document_id: int
    version: int
    build: str
    position: int
    cosine: float
    score: float

    @property
    def key(self) -> Key:
        return self.document_id, self.version, self.build, self.position


@dataclass(frozen=True)
class Legs:
    """What one collection proposes by meaning and by words. Cosines compare within one `model` only."""

    model: str
    dense: Sequence[Hit]
    keyword: Sequence[Hit]


@dataclass(frozen=True)
class Candidate:
    """A chunk after fusion. `weight` orders the candidates, `cosine` judges each."""

    key: Key
    cosine: float
    weight: float


@dataclass(frozen=True)
class Fusion:
    """How the two legs become one order; `dense_weight`, 0 to 1, is for `convex` alone."""

    kind: str
    dense_weight: float


def fuse(legs: Sequence[Legs], fusion: Fusion) -> list[Candidate]:
    """Return the hits of all legs, each chunk once, best first; equal weights by key.

    `rrf`: the sum of 1 / (60 + rank) over both legs (Cormack, Clarke and Büttcher, SIGIR 2009); ranks by words within
    each collection. `convex`: the weighted sum of the cosine, scaled to 0..1 over all that was proposed, and the score
    by words, as a share of the best (Bruch, Gai and Ingber, arXiv 2210.11934). A leg that is weak for a question drags
    `rrf` down, because it counts ranks whatever is behind them; `convex` sees how much better the first is than the
    rest.
    """
    weights = _KINDS[fusion.kind](legs, fusion.dense_weight)
    cosines = {hit.key: hit.cosine for one in legs for hit in chain(one.keyword, one.dense)}
    candidates = [Candidate(key, cosine, weights[key]) for key, cosine in cosines.items()]
    return sorted(candidates, key=lambda candidate: (-candidate.weight, candidate.key))


def _rrf(legs: Sequence[Legs], _dense_weight: float) -> dict[Key, float]:
    weights: dict[Key, float] = {}
    dense = [_ranks([hit for one in same for hit in one.dense]) for same in _by_model(legs)]
    for ranks in chain(dense, (_ranks(one.keyword) for one in legs)):
        for key, rank in ranks.items():
            weights[key] = weights.get(key, 0.0) + 1 / (_RRF_K + rank)
    return weights


def _convex(legs: Sequence[Legs], dense_weight: float) -> dict[Key, float]:
    weights: dict[Key, float] = {}
    for same in _by_model(legs):
        # A chunk found by words alone has its cosine too.
        cosines = {hit.key: hit.cosine for one in same for hit in chain(one.keyword, one.dense)}
        low, high = min(cosines.values(), default=0.0), max(cosines.values(), default=0.0)
        for key, cosine in cosines.items():
            weights[key] = dense_weight * ((cosine - low) / (high - low) if high > low else 1.0)
    # Against the best of all collections: against its own best, a collection with nothing to say on the matter would
    # weigh as much as the one that has.
    best = max((hit.score for one in legs for hit in one.keyword), default=0.0)
    for hit in (hit for one in legs for hit in one.keyword):
        weights[hit.key] += (1 - dense_weight) * (hit.score / best if best > 0 else 0.0)
    return weights


_KINDS: dict[str, Callable[[Sequence[Legs], float], dict[Key, float]]] = {"rrf": _rrf, "convex": _convex}


def _by_model(legs: Sequence[Legs]) -> Iterable[list[Legs]]:
    ordered = sorted(legs, key=lambda one: one.model)
    return (list(same) for _model, same in groupby(ordered, key=lambda one: one.model))


def _ranks(hits: Sequence[Hit]) -> dict[Key, int]:
    ordered = sorted(hits, key=lambda hit: (-hit.score, hit.key))
    return {hit.key: rank for rank, hit in enumerate(ordered, 1)}
