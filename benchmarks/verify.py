"""The database's part of a search in a table of millions of chunks: `make benchmarks-scale`.

Two schemas with the same kind of rows, one of 10,000 chunks and one of `--rows`, measured in turns: the verification of
a search's candidates, the count of what is live (does the index lack any of it?), and the keyword search without an
index. Exits 1 when the verification in a store of the same size grows by more than half with the table: its p95, or the
rows it reads, which no busy machine blurs.
`--explain` prints how the database goes about each query.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks import millions, setting
from knowledge import fallback, queries, verifying
from knowledge.filters import NO_FILTERS
from knowledge.models import Collection
from knowledge.ranking import Candidate
from zhifu.scope import Scope

FEW_ROWS = 10_000
MOST_RATIO = 1.5
# A case ends when one of the two is reached.
_CALLS = 300
_SECONDS = 20.0


@dataclass(frozen=True)
class Place:
    """A store in one of the schemas, with what an index could propose of it."""

    name: str
    schema: millions.Schema
    scope: Scope
    candidates: list[Candidate]


Ask = Callable[[Place, random.Random], object]


@dataclass(frozen=True)
class Case:
    """One query of a search; `must_scale`: it may not grow with the table."""

    name: str
    ask: Ask
    must_scale: bool = False


def verified(count: int) -> Ask:
    """Return a call that looks up `count` candidates."""

    def ask(place: Place, draw: random.Random) -> None:
        some = draw.sample(place.candidates, count)
        assert len(verifying.verify(place.scope, NO_FILTERS, some)) == count

    return ask


def counted(*collections: str) -> Ask:
    """Return a call that counts what is live in these collections."""

    def ask(place: Place, _draw: random.Random) -> None:
        assert queries.count_live_chunks(place.scope, collections, 8.0, NO_FILTERS, builds=())

    return ask


def by_keywords(place: Place, draw: random.Random) -> None:
    """Search without an index; the dictionary is read by the first call."""
    question = f"{draw.choice(setting.SUBJECTS)}怎么{draw.choice(setting.ACTIONS)}"
    fallback.search(place.scope, question, top_k=dict.fromkeys(Collection.values, 5), limit=5)


CASES = [
    Case("verify 64 candidates", verified(64), must_scale=True),
    Case("verify 240 candidates", verified(240), must_scale=True),
    Case("count a collection of few", counted(Collection.FAQ)),
    Case("count all collections", counted(*Collection.values)),
    Case("search by keywords", by_keywords),
]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--explain", action="store_true")
    chosen = options.parse_args()
    with setting.database():
        started = time.monotonic()
        few, many = millions.schemas(FEW_ROWS, chosen.rows)
        print(f"{FEW_ROWS:,} and {chosen.rows:,} chunk rows written in {time.monotonic() - started:.0f} s")
        places = [
            place("a small store", few, millions.SMALL_STORE),
            place("a small store", many, millions.SMALL_STORE),
            place("the middle store", many, millions.MIDDLE_STORE),
            place("the large store", many, millions.LARGE_STORE),
        ]
        worst = max(report(case, places, explains=chosen.explain) for case in CASES)
    print(f"verification, same store size: p95 and rows read at most {worst:.2f} times those in {FEW_ROWS:,} rows")
    return int(worst > MOST_RATIO)


def place(name: str, schema: millions.Schema, store: int) -> Place:
    """Return a store with all its live passages as candidates."""
    scope = millions.customer_at(store)
    with schema.in_use():
        passages = [queries.passage_of(row) for row in queries.live_chunks(scope).order_by("id")]
    keys = [(passage.document_id, passage.version, passage.build, passage.position) for passage in passages]
    return Place(f"{name}, {len(keys):,} live", schema, scope, [Candidate(key, 0.5, 0.5) for key in keys])


def report(case: Case, places: list[Place], *, explains: bool) -> float:
    """Print a case's percentiles at each place; return how many times it grew with the table, 0 where it may."""
    taken = measured(case, places)
    print(f"\n{case.name:<46} {'p50':>9} {'p95':>9} ms {'rows read':>10}")
    read = [rows_read(case, one) for one in places]
    for one, seconds, count in zip(places, taken, read, strict=True):
        p50, p95 = setting.percentiles(seconds)
        print(f"  {one.schema.rows:>9,} rows, {one.name:<29} {p50:>9.1f} {p95:>9.1f}    {count:>10,}")
    if explains:
        for one in places[1:]:
            print(f"  EXPLAIN, {one.schema.rows:,} rows, {one.name}: table, access, key, its bytes, rows, how")
            explain(case, one)
    few, many, *_others = (setting.percentiles(seconds)[1] for seconds in taken)
    return max(many / few, read[1] / read[0]) if case.must_scale else 0.0


def measured(case: Case, places: list[Place]) -> list[list[float]]:
    """Return the seconds of each call at each place, taken in turns; the first round only warms up."""
    draw = random.Random(7)
    taken: list[list[float]] = [[] for _ in places]
    until = time.monotonic() + _SECONDS
    for number in range(_CALLS + 1):
        for one, seconds in zip(places, taken, strict=True):
            with one.schema.in_use():
                started = time.perf_counter()
                case.ask(one, draw)
                seconds += [time.perf_counter() - started] if number else []
        if number >= 5 and time.monotonic() > until:
            break
    return taken


def rows_read(case: Case, one: Place) -> int:
    """Return how many rows and index entries the storage engine was asked for, by one call."""
    with one.schema.in_use():
        before = _handler_reads()
        case.ask(one, random.Random(7))
        return _handler_reads() - before


def _handler_reads() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(count) for _name, count in cursor.fetchall())


def explain(case: Case, one: Place) -> None:
    with one.schema.in_use(), CaptureQueriesContext(connection) as asked:
        case.ask(one, random.Random(7))
    with one.schema.in_use(), connection.cursor() as cursor:
        for query in asked:
            cursor.execute(f"EXPLAIN {query['sql']}")
            for _id, _kind, table, access, _possible, key, size, _ref, rows, how in cursor.fetchall():
                print(f"    {table} | {access} | {key} | {size} | {rows} | {how}")


if __name__ == "__main__":
    sys.exit(main())
