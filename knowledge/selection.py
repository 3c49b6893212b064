"""Selection: from verified passages to those worth showing. Pure functions.

What comes first never depends on how many are asked for: passages arrive in stages, each is put in order by itself,
and what a later stage brings stands behind what an earlier one brought.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from config import wording
from knowledge import words
from knowledge.results import Passage

# Scores that differ by no more say the same of two passages.
_CLOSE = 0.02
# Of the words of the shorter one: what two editions of one text share at least.
_SHARED = 0.4


@dataclass(frozen=True)
class Weighed:
    """A verified passage with its score, the weight that orders it, and the least score that makes it worth showing.
    `codes`: which code-like words of the query it literally holds."""

    passage: Passage
    weight: float
    least: float
    codes: frozenset[str] = frozenset()

    @property
    def score(self) -> float:
        return self.passage.score or 0.0

    @property
    def is_worth_showing(self) -> bool:
        """A passage that holds an order or article number of the query is never cut by its score."""
        return self.score >= self.least or bool(self.codes)

    @cached_property
    def essence(self) -> str:
        """What it says: passages of equal essence are repeats."""
        return words.essence(self.passage.text)


@dataclass(frozen=True)
class Selection:
    """`passages`, best first. `is_full`: no other could be shown, the limit or each collection's top_k is reached;
    `left_out`: more would have qualified."""

    passages: tuple[Passage, ...]
    is_full: bool
    left_out: bool


@dataclass
class Shortlist:
    """Gathers what may be shown: at most `top_k` passages of each collection, and at most `limit` in all."""

    top_k: Mapping[str, int]
    limit: int
    _ordered: list[Weighed] = field(default_factory=list)
    _said: set[str] = field(default_factory=set)

    def add(self, stage: Sequence[Weighed]) -> None:
        """Put a stage in order, behind what is there, without what says only what is there already."""
        repeats: dict[str, list[Weighed]] = {}
        for item in _newest_first(_best_first(stage)):
            if item.essence not in self._said:
                repeats.setdefault(item.essence, []).append(item)
        self._said |= repeats.keys()
        self._ordered += map(_most_telling, repeats.values())

    def selection(self) -> Selection:
        """Return the best passages that qualify so far."""
        taken: Counter[str] = Counter()
        passages: list[Passage] = []
        qualified = [item.passage for item in self._ordered if item.is_worth_showing]
        for passage in qualified:
            if taken[passage.collection] < self.top_k[passage.collection] and len(passages) < self.limit:
                taken[passage.collection] += 1
                passages.append(passage)
        return Selection(
            tuple(passages),
            is_full=len(passages) >= min(self.limit, sum(self.top_k.values())),
            left_out=len(qualified) > len(passages),
        )


# --- Order ---
def _best_first(stage: Sequence[Weighed]) -> list[Weighed]:
    """Order by how many telling codes each holds, then by weight. Equal ones are ordered by the text's hash, then by
    id, so that the same question always gets the same order. A code that most passages hold tells nothing."""
    held = Counter(code for item in stage for code in item.codes)
    telling = {code for code, count in held.items() if 2 * count <= len(stage)}
    return sorted(
        stage,
        key=lambda item: (-len(item.codes & telling), -item.weight, _text_hash(item.passage), _id(item.passage)),
    )


def _newest_first(ordered: list[Weighed]) -> list[Weighed]:
    """Where the best passages of documents of one title have close scores and are editions of one text, put the newer
    before the older. Under a title like FAQ close scores alone say nothing: the other question may be newer."""
    best: dict[str, dict[int, Weighed]] = defaultdict(dict)
    for item in ordered:
        best[words.folded(item.passage.title)].setdefault(item.passage.document_id, item)
    for of_title in best.values():
        first, *others = of_title.values()
        editions = [item for item in others if _are_editions(item, first)]
        if not editions:
            continue
        newest = sorted([first, *editions], key=lambda item: item.passage.updated_at, reverse=True)
        moved = {id(item) for item in newest}
        place = next(place for place, item in enumerate(ordered) if item is first)
        rest = [item for item in ordered if id(item) not in moved]
        ordered = [*rest[:place], *newest, *rest[place:]]
    return ordered


def _are_editions(one: Weighed, other: Weighed) -> bool:
    if abs(one.score - other.score) > _CLOSE or one.codes != other.codes:
        return False
    ours, theirs = wording.features(one.passage.text), wording.features(other.passage.text)
    return len(ours & theirs) >= _SHARED * min(len(ours), len(theirs))


def _text_hash(passage: Passage) -> str:
    return hashlib.sha256(passage.text.encode()).hexdigest()


def _id(passage: Passage) -> tuple[int, int]:
    return passage.document_id, passage.position


def _most_telling(repeats: Sequence[Weighed]) -> Weighed:
    """Return the one that is shown for all: of those that hold as much of the question's numbers as the first, the
    best; or a newer one of its collection that scores about as well and qualifies if it does."""
    alike = [item for item in repeats if item.codes == repeats[0].codes]
    best = max(alike, key=lambda item: item.score)
    instead = [
        item
        for item in alike
        if item.passage.collection == best.passage.collection
        and best.score - item.score <= _CLOSE
        and item.is_worth_showing == best.is_worth_showing
    ]
    return max(instead, key=lambda item: item.passage.updated_at)
