"""Going through long tables: each batch is a query of its own; no driver holds a whole table, no reader a lock."""

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

BATCH = 500


def batches(rows: QuerySet[Any, Any]) -> Iterator[list[Any]]:
    """Yield the rows by their ids in lists of at most BATCH; a row is looked for when its batch is."""
    last = 0
    while batch := list(rows.filter(pk__gt=last).order_by("pk")[:BATCH]):
        yield batch
        last = batch[-1].pk
