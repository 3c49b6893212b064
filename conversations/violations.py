"""What a check of the promises yields, and how checks go through long tables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

BATCH = 500


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


def batches(rows: QuerySet[Any, Any]) -> Iterator[list[Any]]:
    """Yield the rows in lists, each by a query of its own: no driver then holds a whole table, no reader a lock."""
    batch = list(rows.order_by("pk")[:BATCH])
    while batch:
        yield batch
        batch = list(rows.filter(pk__gt=batch[-1].pk).order_by("pk")[:BATCH])
