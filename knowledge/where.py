"""What a search may see in Milvus, as its filter says it: made of integers and words of this code's own."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import TextChoices

from knowledge.filters import NO_FILTERS, Filters
from knowledge.models import Audience, SourceType

# How far a row's moment, the clock of the worker that wrote it, may lie from the moment its version went live, by the
# database's clock: an index job takes minutes at most; the rest is for clocks that differ.
_MOMENT_SLACK_SECONDS = 3600


@dataclass(frozen=True)
class Where:
    """What a search may see; the same for both legs.

    Never narrower than what `filters` ask for, and wider only by equal hashes and some slack in moments: verification
    compares strings and moments. The collection is chosen by the target.
    """

    tenant_id: int
    store_id: int
    customers_only: bool
    filters: Filters = NO_FILTERS

    @property
    def expression(self) -> str:
        """Only integers and words of this code's own: no text that anybody typed."""
        filters = self.filters
        may_see = [Audience.CUSTOMER] if self.customers_only else list(Audience)
        audiences = [audience for audience in may_see if not filters.audience or audience in filters.audience]
        terms = [f"tenant == {self.tenant_id:d}", f"store == {self.store_id:d}", f"audience in {_words(audiences)}"]
        if filters.source_type:
            terms.append(f"source_type in {_words([kind for kind in SourceType if kind in filters.source_type])}")
        if filters.entity_ref:
            terms.append(f"entity in {_hashes(filters.entity_ref)}")
        if filters.tags:
            terms.append(f"array_contains_any(tags, {_hashes(filters.tags)})")
        if filters.all_tags:
            terms.append(f"array_contains_all(tags, {_hashes(filters.all_tags)})")
        if filters.updated_after is not None:
            earliest = math.floor(filters.updated_after.timestamp()) - _MOMENT_SLACK_SECONDS
            terms.append(f"updated_at >= {earliest:d}")
        if filters.updated_before is not None:
            latest = math.ceil(filters.updated_before.timestamp()) + _MOMENT_SLACK_SECONDS
            terms.append(f"updated_at < {latest:d}")
        return " and ".join(terms)


def hashed(text: str) -> int:
    """Return the signed 64-bit number that stands for a tag or entity in Milvus; verification compares the strings."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True) if text else 0


def _words(words: Sequence[TextChoices]) -> str:
    return "[" + ", ".join(f'"{word.value}"' for word in words) + "]"


def _hashes(values: Sequence[str]) -> str:
    return "[" + ", ".join(f"{hashed(value):d}" for value in values) + "]"
