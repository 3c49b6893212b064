"""The search endpoint over HTTP against its bare parts in the same run, and where its time goes: `make benchmarks`.

The bare parts are what any product on this stack has to do for one question: embed it, ask Milvus twice per
collection with a filter, in parallel, and read the passages from MySQL in one query. ZHIFU_ENCODER says with which
encoder: `hashing_in_model_time` takes for a question what the embedded model takes, `hashing` next to nothing, so that
the model's time does not hide the rest.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection

from benchmarks import filling, parts, setting
from knowledge import targets, vectors
from knowledge.encoders import Kind, get_encoder
from knowledge.models import Collection, IndexTarget, KnowledgeChunk
from knowledge.where import Where
from tests.factories import Shop
from tests.processes.system import System
from zhifu import customer_tokens

DEPTH = 30
RESULTS = 5
PER_ROUND = 32


class BareParts:
    """The same work without the product around it."""

    def __init__(self, shop: Shop) -> None:
        self._targets = targets.active_targets(Collection.values)
        self._where = Where(tenant_id=shop.tenant.pk, store_id=shop.store.pk, customers_only=True)
        self._encoder = get_encoder(self._targets[0].model)
        self._pool = ThreadPoolExecutor(64)

    def __call__(self, question: str) -> int:
        vector = self._encoder.encode([question], Kind.QUERY)[0]
        asked = [self._pool.submit(self._dense, target, vector) for target in self._targets]
        asked += [self._pool.submit(self._keyword, target, question, vector) for target in self._targets]
        hits = [hit for future in asked for hit in future.result()]
        rows = KnowledgeChunk.objects.filter(
            document_version__document__in={hit.document_id for hit in hits},
            position__in={hit.position for hit in hits},
        ).values_list("document_version__document", "position", "document_version__title", "text")
        return len(list(rows[: DEPTH * 2]))

    def _dense(self, target: IndexTarget, vector: vectors.Vector) -> list[vectors.Hit]:
        return vectors.dense_search(target, vector, self._where, limit=DEPTH, timeout=10)

    def _keyword(self, target: IndexTarget, question: str, vector: vectors.Vector) -> list[vectors.Hit]:
        return vectors.keyword_search(target, question, self._where, limit=DEPTH, timeout=10).hits(vector)


class Endpoint:
    """The endpoint as a customer asks it, by a client that takes next to no time itself."""

    def __init__(self, url: str, shop: Shop) -> None:
        self._server = urlsplit(url).netloc
        self._path = f"{shop.knowledge_url}/search"
        token = customer_tokens.mint(shop.customer.public_id, shop.store.public_id)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._mine = threading.local()

    def __call__(self, question: str) -> str:
        """Ask, see that it was an answer, and return its Server-Timing header."""
        if not hasattr(self._mine, "connection"):
            self._mine.connection = HTTPConnection(self._server, timeout=30)
        connection = self._mine.connection
        connection.request("POST", self._path, json.dumps({"query": question, "limit": RESULTS}), self._headers)
        response = connection.getresponse()
        body = json.loads(response.read())
        assert response.status == 200, body
        assert not body["degraded"], f"{body['degradation_reason']}: is the machine too busy for a benchmark?"
        assert body["results"], question
        return response.headers.get("Server-Timing", "")


@dataclass
class Taken:
    """The seconds of each call, and of the rounds they were made in."""

    calls: list[float] = field(default_factory=list)
    rounds: float = 0.0

    @property
    def per_second(self) -> float:
        return len(self.calls) / self.rounds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--chunks", type=int, default=910)
    options.add_argument("--rounds", type=int, default=8)
    chosen = options.parse_args()
    with setting.database():
        started = time.monotonic()
        shop = filling.shop_with_chunks(chosen.chunks)
        held = KnowledgeChunk.objects.count()
        print(f"{held} chunks written in {time.monotonic() - started:.0f} s, {connection.vendor}, {settings.ENCODER}")
        with served("zhifu.wsgi") as url:
            compare(chosen.rounds, BareParts(shop), Endpoint(url, shop))
        with served("benchmarks.parts") as url:
            print("\nwhere the time of one request goes, 1 caller")
            parts.report(clocked(Endpoint(url, shop), chosen.rounds * PER_ROUND))


@contextmanager
def served(application: str) -> Iterator[str]:
    """Serve a web application as an operator does; yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        system = System(Path(folder))
        try:
            system.start_broker()
            # As patient as the bare parts: milvus-lite answers one search at a time, and 16 callers make a queue.
            system.start_web(application, ZHIFU_KNOWLEDGE='{"milvus_timeout_seconds": 8.0}')
            yield system.url
        finally:
            system.stop()


def compare(rounds: int, bare: Callable[[str], object], endpoint: Callable[[str], object]) -> None:
    """Print both sides' percentiles, taken in turns, so that what else the machine does falls on both."""
    print(f"{'':>7}  {'bare parts':^26}  {'endpoint over HTTP':^26}  {'endpoint / bare':^15}")
    side = f"{'p50':>8} {'p95':>8} {'per s':>8}"
    print(f"{'callers':>7}  {side}  {side}  {'p50':>7} {'per s':>7}   ms")
    for callers in (1, 16):
        fresh = iter(setting.questions(2 * (rounds + 1) * PER_ROUND, seed=callers))
        taken = {"bare": Taken(), "endpoint": Taken()}
        for number in range(rounds + 1):
            for name, call in (("bare", bare), ("endpoint", endpoint)):
                started = time.perf_counter()
                seconds = setting.timed(call, list(islice(fresh, PER_ROUND)), callers)
                # The first round only warms up.
                if number:
                    taken[name].calls += seconds
                    taken[name].rounds += time.perf_counter() - started
        report(callers, **taken)


def report(callers: int, bare: Taken, endpoint: Taken) -> None:
    cells, p50s = [], []
    for side in (bare, endpoint):
        p50, p95 = setting.percentiles(side.calls)
        p50s.append(p50)
        cells.append(f"{p50:>8.1f} {p95:>8.1f} {side.per_second:>8.1f}")
    ratios = f"{p50s[1] / p50s[0]:>7.2f} {endpoint.per_second / bare.per_second:>7.2f}"
    print(f"{callers:>7}  {'  '.join(cells)}  {ratios}")


def clocked(endpoint: Endpoint, count: int) -> list[tuple[float, str]]:
    """Return the seconds each of `count` calls took, and what its answer said of its parts."""
    answers = []
    for number, question in enumerate(setting.questions(count + PER_ROUND, seed=3)):
        started = time.perf_counter()
        timing = endpoint(question)
        if number >= PER_ROUND:
            answers.append((time.perf_counter() - started, timing))
    return answers


if __name__ == "__main__":
    main()
