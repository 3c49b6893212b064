"""The search endpoint over HTTP against its bare parts in the same run: `make benchmarks`.

The bare parts are what any product on this stack has to do for one question: embed it, ask Milvus twice per
collection with a filter, in parallel, and read the passages from MySQL in one query. The encoder is the tests'
hashing one, so that the model's time, equal on both sides, does not hide the rest.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from django.db import connection

from benchmarks import setting
from knowledge import targets, vectors
from knowledge.encoders import Kind, get_encoder
from knowledge.models import Collection, KnowledgeChunk
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
        self._where = vectors.Where(tenant_id=shop.tenant.pk, store_id=shop.store.pk, customers_only=True)
        self._encoder = get_encoder(self._targets[0].model)
        self._pool = ThreadPoolExecutor(64)

    def __call__(self, question: str) -> int:
        vector = self._encoder.encode([question], Kind.QUERY)[0]
        asked = [self._pool.submit(self._dense, target, vector) for target in self._targets]
        asked += [self._pool.submit(self._keyword, target, question, vector) for target in self._targets]
        hits = [hit for future in asked for hit in future.result()]
        documents = {hit.document_id for hit in hits}
        rows = KnowledgeChunk.objects.filter(
            document_version__document_id__in=documents, position__in={hit.position for hit in hits}
        ).select_related("document_version")
        return len(list(rows[: DEPTH * 2]))

    def _dense(self, target: object, vector: object) -> list[vectors.Hit]:
        return vectors.dense_search(target, vector, self._where, limit=DEPTH, timeout=10)

    def _keyword(self, target: object, question: str, vector: object) -> list[vectors.Hit]:
        return vectors.keyword_search(target, question, vector, self._where, limit=DEPTH, timeout=10)


def over_http(system: System, shop: Shop) -> Callable[[str], object]:
    """Return a call that asks the endpoint as a customer does."""
    import requests

    token = customer_tokens.mint(shop.customer.public_id, shop.store.public_id)
    address = f"{system.url}{shop.knowledge_url}/search"
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {token}"
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=32))

    def ask(question: str) -> None:
        response = session.post(address, json={"query": question, "limit": RESULTS}, timeout=30)
        body = response.json()
        assert response.status_code == 200, body
        assert not body["degraded"], body
        assert body["results"], question

    return ask


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--chunks", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=8)
    chosen = options.parse_args()
    with setting.database(), tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        shop = setting.shop_with_chunks(chosen.chunks)
        held = KnowledgeChunk.objects.count()
        print(f"{held} chunks published in {time.monotonic() - started:.0f} s, database {connection.vendor}")
        system = System(Path(folder))
        try:
            system.start_broker()
            system.start_web()
            compare(chosen.rounds, BareParts(shop), over_http(system, shop))
        finally:
            system.stop()


def compare(rounds: int, bare: Callable[[str], object], endpoint: Callable[[str], object]) -> None:
    """Print both sides' percentiles, taken in turns, so that what else the machine does falls on both."""
    print(f"{'callers':>7}  {'bare p50':>9} {'p95':>7}  {'endpoint p50':>12} {'p95':>7}  {'ratio p50':>9}   ms")
    for callers in (1, 16):
        fresh = iter(setting.questions(2 * (rounds + 1) * PER_ROUND, seed=callers))
        taken: dict[str, list[float]] = {"bare": [], "endpoint": []}
        for number in range(rounds + 1):
            for side, call in (("bare", bare), ("endpoint", endpoint)):
                seconds = setting.timed(call, list(islice(fresh, PER_ROUND)), callers)
                # The first round only warms up.
                taken[side] += seconds if number else []
        bare_p50, bare_p95 = setting.percentiles(taken["bare"])
        whole_p50, whole_p95 = setting.percentiles(taken["endpoint"])
        print(
            f"{callers:>7}  {bare_p50:>9.1f} {bare_p95:>7.1f}  {whole_p50:>12.1f} {whole_p95:>7.1f}"
            f"  {whole_p50 / bare_p50:>9.2f}"
        )


if __name__ == "__main__":
    main()
