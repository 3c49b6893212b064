"""Ranking: pure functions from what the indexes propose to what is worth showing."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.results import Passage

_RRF_K = 60
_DENSE_WEIGHT = 0.5

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
class Candidate:
    """A chunk after fusion. `weight` orders the candidates, `cosine` judges each."""

    key: Key
    cosine: float
    weight: float


def rrf(dense: Sequence[Hit], keyword: Sequence[Hit]) -> list[Candidate]:
    """Return the hits of both legs, each once, by reciprocal rank fusion: the sum of 1 / (60 + rank).

    Source of the formula: Cormack, Clarke and Büttcher, SIGIR 2009.
    """
    return _fused(dense, keyword, [_by_rank(dense), _by_rank(keyword)])


def convex(dense: Sequence[Hit], keyword: Sequence[Hit]) -> list[Candidate]:
    """Return the hits of both legs, each once, by the weighted sum of their scores, each leg's scaled to 0..1."""
    return _fused(dense, keyword, [_by_score(dense, _DENSE_WEIGHT), _by_score(keyword, 1 - _DENSE_WEIGHT)])


def _by_rank(leg: Sequence[Hit]) -> dict[Key, float]:
    ordered = sorted(leg, key=lambda hit: (-hit.score, hit.key))
    return {hit.key: 1 / (_RRF_K + rank) for rank, hit in enumerate(ordered, 1)}


def _by_score(leg: Sequence[Hit], weight: float) -> dict[Key, float]:
    if not leg:
        return {}
    low, high = min(hit.score for hit in leg), max(hit.score for hit in leg)
    return {hit.key: weight * ((hit.score - low) / (high - low) if high > low else 1.0) for hit in leg}


def _fused(dense: Sequence[Hit], keyword: Sequence[Hit], legs: Sequence[Mapping[Key, float]]) -> list[Candidate]:
    cosines = {hit.key: hit.cosine for hit in (*keyword, *dense)}
    weights: Counter[Key] = Counter()
    for leg in legs:
        weights.update(leg)
    candidates = [Candidate(key, cosine, weights[key]) for key, cosine in cosines.items()]
    return sorted(candidates, key=lambda candidate: (-candidate.weight, candidate.key))


FUSIONS = {"rrf": rrf, "convex": convex}


@dataclass(frozen=True)
class Weighed:
    """A verified passage, the weight of its candidate, and the least score that makes it worth showing."""

    passage: Passage
    weight: float
    least: float


@dataclass(frozen=True)
class Selection:
    """`passages`, best first; `left_out` says that more would have qualified."""

    passages: tuple[Passage, ...]
    left_out: bool


@dataclass(frozen=True)
class Rules:
    """How many may come back, per collection and in all; and the `codes` of the query."""

    top_k: Mapping[str, int]
    limit: int
    codes: frozenset[str]


def select(weighed: Sequence[Weighed], rules: Rules) -> Selection:
    """Return the best passages that qualify, repeated text once. Equal weights are ordered by the text's hash, then
    by id, so that the same question always gets the same order."""
    ordered = sorted(weighed, key=lambda item: (-item.weight, _text_hash(item.passage), _id(item.passage)))
    seen: set[str] = set()
    taken: Counter[str] = Counter()
    passages: list[Passage] = []
    qualified = 0
    for item in ordered:
        passage = item.passage
        if passage.text in seen or not _qualifies(item, rules):
            continue
        seen.add(passage.text)
        qualified += 1
        if taken[passage.collection] < rules.top_k[passage.collection] and len(passages) < rules.limit:
            taken[passage.collection] += 1
            passages.append(passage)
    return Selection(tuple(passages), left_out=qualified > len(passages))


def _qualifies(item: Weighed, rules: Rules) -> bool:
    passage = item.passage
    return (passage.score or 0.0) >= item.least or holds_code(f"{passage.title}\n{passage.text}", rules.codes)


def _text_hash(passage: Passage) -> str:
    return hashlib.sha256(passage.text.encode()).hexdigest()


def _id(passage: Passage) -> tuple[int, int]:
    return passage.document_id, passage.position


_HAN = re.compile(r"[\u3400-\u9fff\U00020000-\U0003ffff]")
_LETTER = re.compile(r"[^\W\d_]")


def is_chinese(text: str) -> bool:
    """Say whether at least a third of the letters are Chinese characters: a Chinese sentence may hold foreign names."""
    return 3 * len(_HAN.findall(text)) >= max(1, len(_LETTER.findall(text)))


# Letters and digits, joined by what order and article numbers are joined with.
_CODE = re.compile(r"#?[0-9a-z]+(?:[-_./][0-9a-z]+)*")
_LEAST_DIGITS = 5


def codes(query: str) -> frozenset[str]:
    """Return the code-like words of a query (order, article, phone numbers), width and case ignored.

    At least three letters and digits of both kinds, or a number of five digits or more; fewer with a leading #.
    """
    return frozenset(word for word in _CODE.findall(_normal(query)) if _is_code(word))


def holds_code(text: str, wanted: frozenset[str]) -> bool:
    """Say whether `text` literally contains one of the codes, not as part of a longer one."""
    if not wanted:
        return False
    normal = _normal(text)
    return any(re.search(rf"(?<![0-9a-z]){re.escape(code)}(?![0-9a-z])", normal) for code in wanted)


def _is_code(word: str) -> bool:
    signs = [sign for sign in word if sign.isalnum()]
    digits = sum(sign.isdigit() for sign in signs)
    if not digits:
        return False
    if word.startswith("#"):
        return len(signs) >= 2
    return digits >= _LEAST_DIGITS if digits == len(signs) else len(signs) >= 3


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
