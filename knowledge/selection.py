"""Selection: from verified passages to those worth showing. Pure functions.

What comes first never depends on how many are asked for: passages arrive in stages, each is put in order by itself,
and what a later stage brings stands behind what an earlier one brought.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from knowledge import words
from knowledge.results import Passage

# Scores that differ by no more say the same of two passages.
_CLOSE = 0.02
# Whatever stands behind the same counts of these may say the same; the costly comparison is for those alone.
_TELLING = "不一是有在用后可e0"


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


@dataclass(frozen=True)
class Selection:
    """`passages`, best first; `left_out` says that more would have qualified."""

    passages: tuple[Passage, ...]
    left_out: bool


@dataclass
class Shortlist:
    """Gathers what may be shown: at most `top_k` passages of each collection, and at most `limit` in all."""

    top_k: Mapping[str, int]
    limit: int
    _ordered: list[Weighed] = field(default_factory=list)
    # Passages that say the same, in groups, under what is cheap to compare.
    _alike: defaultdict[tuple[int, ...], list[list[Weighed]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, stage: Sequence[Weighed]) -> None:
        """Put a stage in order, behind what is there, without what says only what is there already."""
        groups: list[list[Weighed]] = []
        for item in _newest_first(_best_first(stage)):
            alike = self._alike[_likeness(item)]
            group = next((group for group in alike if _says_the_same(item, group[0])), None)
            if group is None:
                groups.append([item])
                alike.append(groups[-1])
            elif any(group is of_this_stage for of_this_stage in groups):
                group.append(item)
        self._ordered += [_most_telling(group) for group in groups]

    def selection(self) -> Selection:
        """Return the best passages that qualify so far."""
        taken: Counter[str] = Counter()
        passages: list[Passage] = []
        qualified = [item.passage for item in self._ordered if item.is_worth_showing]
        for passage in qualified:
            if taken[passage.collection] < self.top_k[passage.collection] and len(passages) < self.limit:
                taken[passage.collection] += 1
                passages.append(passage)
        return Selection(tuple(passages), left_out=len(qualified) > len(passages))


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
    """Where documents of the same title have close scores, put the newer one's best passage before the older one's."""
    best: dict[str, dict[int, Weighed]] = defaultdict(dict)
    for item in ordered:
        best[words.folded(item.passage.title)].setdefault(item.passage.document_id, item)
    for of_title in best.values():
        first, *others = of_title.values()
        close = [item for item in others if abs(item.score - first.score) <= _CLOSE and item.codes == first.codes]
        if not close:
            continue
        newest = sorted([first, *close], key=lambda item: item.passage.updated_at, reverse=True)
        moved = {id(item) for item in newest}
        place = next(place for place, item in enumerate(ordered) if item is first)
        rest = [item for item in ordered if id(item) not in moved]
        ordered = [*rest[:place], *newest, *rest[place:]]
    return ordered


def _text_hash(passage: Passage) -> str:
    return hashlib.sha256(passage.text.encode()).hexdigest()


def _id(passage: Passage) -> tuple[int, int]:
    return passage.document_id, passage.position


# --- What says the same ---
def _most_telling(group: Sequence[Weighed]) -> Weighed:
    """Return the newest of those with about the best score."""
    best = max(item.score for item in group)
    return max((item for item in group if best - item.score <= _CLOSE), key=lambda item: item.passage.updated_at)


def _likeness(item: Weighed) -> tuple[int, ...]:
    text = item.passage.text.casefold()
    return tuple(text.count(sign) for sign in _TELLING)


def _says_the_same(one: Weighed, other: Weighed) -> bool:
    return words.essence(one.passage.text) == words.essence(other.passage.text)
