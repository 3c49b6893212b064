"""A Milvus that can be taken away, callers that never stop asking, and what they were told meanwhile."""

import itertools
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import requests
from pymilvus import MilvusClient

from knowledge import indexing, services
from knowledge.models import KnowledgeDocument
from tests import servers
from tests.factories import Shop
from zhifu import customer_tokens

_COLLECTIONS = ("faq", "product", "policy", "general")


class Milvus:
    """A milvus-lite server of its own, on one port whatever becomes of it."""

    def __init__(self, folder: Path) -> None:
        self.port = servers.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._stack = ExitStack()
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        program = servers.find("milvus-lite", str(Path(servers.sys.executable).parent))
        arguments = [program, "server", "--data-dir", str(self._folder / "milvus"), "--host", "127.0.0.1"]
        arguments += ["--port", str(self.port), "--max-workers", "40"]
        self._process = servers.start(arguments, self.port, self._folder, self._stack)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def hang(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def come_back_empty(self) -> None:
        self.kill()
        shutil.rmtree(self._folder / "milvus")
        self.start()

    def release_all(self) -> None:
        """Unload every collection, as a restart or an operator does."""
        client = MilvusClient(uri=self.url, timeout=10)
        for name in client.list_collections(timeout=10):
            client.release_collection(name, timeout=10)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.go_on()
        self._stack.close()


@dataclass(frozen=True)
class Told:
    """What one request got; moments are of time.monotonic()."""

    started: float
    ended: float
    status: int
    degraded: bool
    reason: str
    is_right: bool


@dataclass(frozen=True)
class Phase:
    """What all that ended between two moments were told; `settled`: when what was done to Milvus had been done."""

    name: str
    began: float
    settled: float
    ended: float
    told: Sequence[Told]

    @property
    def errors(self) -> int:
        """Anything but an answer, 5xx among them."""
        return sum(one.status != 200 for one in self.told)

    @property
    def degraded(self) -> list[Told]:
        return [one for one in self.told if one.status == 200 and one.degraded]

    @property
    def normal(self) -> list[Told]:
        return [one for one in self.told if one.status == 200 and not one.degraded]

    @property
    def unmarked_wrong(self) -> int:
        return sum(not one.is_right for one in self.normal)

    @property
    def reasons(self) -> set[str]:
        return {one.reason for one in self.degraded}

    @property
    def first_degraded(self) -> float | None:
        """Seconds from the deed to the first marked answer."""
        return min((one.ended for one in self.degraded), default=self.began) - self.began if self.degraded else None

    @property
    def first_normal(self) -> float | None:
        """Seconds from the moment Milvus was well again to the first normal answer."""
        return max(0.0, min(one.ended for one in self.normal) - self.settled) if self.normal else None

    @property
    def all_normal(self) -> float:
        """Seconds from the moment Milvus was well again to the last marked answer."""
        return max([0.0, *(one.ended - self.settled for one in self.degraded)])

    def milliseconds(self, percent: int) -> float:
        return _percentile([one.ended - one.started for one in self.told], percent)

    def milliseconds_once_open(self, percent: int) -> float:
        """Of those that began after somebody had been told that Milvus is away."""
        opened = min((one.ended for one in self.degraded), default=self.ended)
        return _percentile([one.ended - one.started for one in self.told if one.started > opened], percent)


class Crowd:
    """Callers over HTTP, each asking its next question `pause` seconds after the last was answered."""

    def __init__(self, url: str, shop: Shop, callers: int, documents: int, *, pause: float = 0.0) -> None:
        token = customer_tokens.mint(shop.customer.public_id, shop.store.public_id)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._address = f"{url}{shop.knowledge_url}/search"
        self._documents = documents
        self._pause = pause
        self._numbers = itertools.count(1)
        self._told: list[Told] = []
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._ask_for_ever, daemon=True) for _ in range(callers)]

    def __enter__(self) -> "Crowd":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(30)

    def phase(self, name: str, deed: Callable[[], object], seconds: float) -> Phase:
        """Do something to Milvus, let the callers ask for `seconds` more, and return what they were told."""
        began, before = time.monotonic(), len(self._told)
        deed()
        settled = time.monotonic()
        time.sleep(seconds)
        return Phase(name, began, settled, time.monotonic(), self._told[before:])

    def recovery(self, name: str, deed: Callable[[], object], seconds: float, *, within: float) -> Phase:
        """As `phase`, but until only normal answers came for `seconds`, or until `within` was over for as long."""
        began, before = time.monotonic(), len(self._told)
        deed()
        settled = time.monotonic()
        while True:
            time.sleep(0.1)
            now, told = time.monotonic(), self._told[before:]
            last = max([settled, *(one.ended for one in told if one.degraded)])
            is_normal = now - last > seconds and any(one.started > last and not one.degraded for one in told)
            if is_normal or now - settled > within + seconds:
                return Phase(name, began, settled, now, told)

    def _ask_for_ever(self) -> None:
        session = requests.Session()
        session.headers.update(self._headers)
        while not self._ending.wait(self._pause):
            self._told.append(self._ask(session, next(self._numbers)))

    def _ask(self, session: requests.Session, number: int) -> Told:
        code = code_of(number % self._documents)
        body = {"query": f"{code} 第{number}次怎么清洁？", "limit": 5}
        started = time.monotonic()
        try:
            response = session.post(self._address, json=body, timeout=30)
        except requests.RequestException:
            return Told(started, time.monotonic(), 0, degraded=False, reason="", is_right=False)
        ended = time.monotonic()
        answer = response.json() if response.status_code == 200 else {}
        found = any(code in result["title"] for result in answer.get("results", []))
        reason = answer.get("degradation_reason") or ""
        return Told(started, ended, response.status_code, answer.get("degraded", False), reason, is_right=found)


def code_of(number: int) -> str:
    return f"ZF{number:03d}-K"


def publish_documents(shop: Shop, count: int) -> None:
    for number in range(count):
        code = code_of(number)
        content = services.Content(
            title=f"{code} 清洁说明",
            source_text=f"{code} 清洁前请先拔下电源，再用软布擦拭表面。{number} 号说明到此为止。",
            collection=_COLLECTIONS[number % len(_COLLECTIONS)],
        )
        version = services.create_document(scope=shop.staff_scope, store=shop.store, content=content)
        _publish(shop, version.document)


def publish_again(shop: Shop) -> None:
    """What brings back a Milvus that lost everything: a newer version of each document, published."""
    for document in KnowledgeDocument.objects.filter(store=shop.store).order_by("pk"):
        live = document.versions.get(version=document.live_version)
        content = services.Content(title=live.title, source_text=live.source_text, collection=live.collection)
        services.revise_document(
            scope=shop.staff_scope,
            document_id=document.public_id,
            content=content,
            expected_version=document.version,
        )
        _publish(shop, document)


def _publish(shop: Shop, document: KnowledgeDocument) -> None:
    document.refresh_from_db()
    job = services.publish_document(
        scope=shop.staff_scope, document_id=document.public_id, expected_version=document.version
    )
    indexing.run_index_job(job.pk)
    job.refresh_from_db()
    assert job.status == "COMPLETED", job.error_message


def _percentile(seconds: Sequence[float], percent: int) -> float:
    if len(seconds) < 2:
        return 1000 * max(seconds, default=0.0)
    return statistics.quantiles(seconds, n=100)[percent - 1] * 1000
