"""What a check of the promises is, and what it yields."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from zhifu.batches import BATCH


@dataclass(frozen=True)
class Violation:
    what: str
    row: str


@dataclass(frozen=True)
class Check:
    promise: str
    question: str
    find: Callable[[], Iterator[Violation]]


def rows_that(what: str, rows: QuerySet[Any, Any]) -> Iterator[Violation]:
    """Yield a violation for each row, all of which contradict a promise in the same way."""
    for pk in rows.order_by("pk").values_list("pk", flat=True).iterator(chunk_size=BATCH):
        yield Violation(what, f"{rows.model._meta.label} {pk}")
