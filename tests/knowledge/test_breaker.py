"""The shared breaker: nobody's request is the trial, and one thread of all processes finds out when it is over."""

import socket
import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.core.cache import cache
from django.core.cache.backends.locmem import LocMemCache
from prometheus_client import REGISTRY
from pytest_django.fixtures import Settings

from knowledge import breaker, calls
from knowledge.breaker import Overloaded, Suspected
from tests import servers
from zhifu.errors import DimensionMismatch, Failure, Unavailable


class Milvus:
    """Counts who asks it; answers, or raises what it was told to."""

    def __init__(self) -> None:
        self.address = f"http://somebody:secret@milvus-{uuid4()}:19530"
        self.requests = 0
        self.probes = 0
        self.failure: Failure | None = None
        self.gate = threading.Event()
        self.gate.set()

    def ask(self) -> str:
        return breaker.guarded(self.address, self._requested, probe=self._probed)

    def is_suspected(self) -> bool:
        return breaker.is_suspected(self.address)

    def fail(self) -> None:
        self.failure = Unavailable("down")
        with pytest.raises(Unavailable, match="down"):
            self.ask()

    def metric(self, name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(name, {"address": breaker.label(self.address), **labels}) or 0.0

    def _requested(self) -> str:
        self.requests += 1
        return self._answer()

    def _probed(self) -> str:
        self.probes += 1
        self.gate.wait(10)
        return self._answer()

    def _answer(self) -> str:
        if self.failure is not None:
            raise self.failure
        return "answer"


@pytest.fixture
def milvus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Milvus]:
    monkeypatch.setattr(breaker, "_PAUSES", (0.05, 0.1))
    # What a test before found out about its cache says nothing here.
    monkeypatch.setattr(breaker, "_shared", breaker._Shared())
    milvus = Milvus()
    yield milvus
    milvus.gate.set()
    breaker.stop()


@pytest.fixture
def unreachable_cache(settings: Settings) -> None:
    broken = {**settings.CACHES["default"], "LOCATION": f"redis://127.0.0.1:{servers.free_port()}"}
    settings.CACHES = {**settings.CACHES, "default": broken}


@pytest.fixture
def silent_cache(settings: Settings) -> Iterator[None]:
    """A Redis that accepts every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        location = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        settings.CACHES = {**settings.CACHES, "default": {**settings.CACHES["default"], "LOCATION": location}}
        yield


class CountingCache(LocMemCache):
    """Counts how often it is looked into."""

    looks = 0

    def get_many(self, keys: list[str], version: int | None = None) -> dict[str, object]:
        CountingCache.looks += 1
        return super().get_many(keys, version)


def wait_until(condition, seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def watching(milvus: Milvus) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"probe-{breaker.label(milvus.address)}"]


def test_while_it_is_down_no_request_asks_however_long_that_lasts(milvus: Milvus) -> None:
    milvus.fail()
    wait_until(lambda: milvus.probes >= 4)
    for _ in range(20):
        with pytest.raises(Suspected) as refused:
            milvus.ask()
    assert refused.value.code == "MILVUS_UNAVAILABLE"
    assert milvus.requests == 1


def test_the_first_probe_that_is_answered_ends_it(milvus: Milvus) -> None:
    milvus.fail()
    wait_until(lambda: milvus.probes >= 2)
    milvus.failure = None
    wait_until(lambda: not milvus.is_suspected())
    assert milvus.ask() == "answer"
    wait_until(lambda: not watching(milvus))
    probes = milvus.probes
    time.sleep(0.3)
    assert milvus.probes == probes


@pytest.mark.parametrize("has_cache", [True, False])
def test_many_failures_at_once_are_one_suspicion_and_one_probe(
    has_cache: bool, milvus: Milvus, request: pytest.FixtureRequest
) -> None:
    if not has_cache:
        request.getfixturevalue("unreachable_cache")
    milvus.failure = Unavailable("down")
    both_asked = threading.Barrier(16)

    def requested() -> str:
        both_asked.wait(10)
        raise Unavailable("down")

    def ask() -> None:
        with pytest.raises(Unavailable, match="down"):
            breaker.guarded(milvus.address, requested, probe=milvus._probed)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(watching(milvus)) == 1
    assert milvus.metric("zhifu_milvus_suspicions_total") == 1


def test_an_answer_that_is_an_error_is_no_silence(milvus: Milvus) -> None:
    milvus.fail()
    milvus.failure = DimensionMismatch("another dimension")
    wait_until(lambda: not milvus.is_suspected())
    with pytest.raises(DimensionMismatch):
        milvus.ask()
    assert not milvus.is_suspected()


def test_a_process_without_room_or_time_suspects_nobody(milvus: Milvus) -> None:
    milvus.failure = Overloaded("no thread was free")
    with pytest.raises(Overloaded):
        milvus.ask()
    assert not milvus.is_suspected()
    milvus.failure = None
    assert milvus.ask() == "answer"


def test_while_another_process_asks_this_one_only_refuses(milvus: Milvus) -> None:
    cache.set(breaker._suspect_key(milvus.address), 1, 30)
    cache.set(breaker._probing_key(milvus.address), "another process", 30)
    with pytest.raises(Suspected):
        milvus.ask()
    assert not watching(milvus)
    # It got its answer.
    cache.delete_many([breaker._suspect_key(milvus.address), breaker._probing_key(milvus.address)])
    assert milvus.ask() == "answer"


def test_when_the_process_that_asked_is_dead_another_takes_over(milvus: Milvus) -> None:
    # Its lock has run out, what it found has not.
    cache.set(breaker._suspect_key(milvus.address), 1, 30)
    with pytest.raises(Suspected):
        milvus.ask()
    assert milvus.requests == 0
    wait_until(lambda: not milvus.is_suspected())
    assert milvus.probes == 1
    assert milvus.ask() == "answer"


def test_a_process_that_stood_still_leaves_it_to_who_took_over(milvus: Milvus) -> None:
    milvus.gate.clear()
    milvus.fail()
    wait_until(lambda: milvus.probes == 1)
    cache.set(breaker._probing_key(milvus.address), "another process", 30)
    milvus.gate.set()
    wait_until(lambda: not watching(milvus))
    assert cache.get(breaker._probing_key(milvus.address)) == "another process"
    assert milvus.probes == 1


def test_a_process_that_ends_hands_over_at_once(milvus: Milvus) -> None:
    milvus.fail()
    breaker.stop()
    assert not watching(milvus)
    assert milvus.is_suspected()
    milvus.failure = None
    with pytest.raises(Suspected):
        milvus.ask()
    wait_until(lambda: not milvus.is_suspected())


def test_a_cache_that_forgets_in_the_middle_of_it_is_told_again(milvus: Milvus) -> None:
    milvus.fail()
    cache.delete_many([breaker._suspect_key(milvus.address), breaker._probing_key(milvus.address)])
    probes = milvus.probes
    wait_until(lambda: milvus.probes > probes + 1)
    assert cache.get(breaker._suspect_key(milvus.address)) is not None
    assert len(watching(milvus)) == 1


def test_without_a_cache_a_process_protects_itself(unreachable_cache: None, milvus: Milvus) -> None:
    milvus.fail()
    for _ in range(3):
        with pytest.raises(Suspected):
            milvus.ask()
    assert milvus.requests == 1
    milvus.failure = None
    wait_until(lambda: not milvus.is_suspected())
    assert milvus.ask() == "answer"


def test_a_cache_that_loses_its_connection_meanwhile_holds_nothing_up(milvus: Milvus, settings: Settings) -> None:
    milvus.fail()
    broken = {**settings.CACHES["default"], "LOCATION": f"redis://127.0.0.1:{servers.free_port()}"}
    settings.CACHES = {**settings.CACHES, "default": broken}
    with pytest.raises(Suspected):
        milvus.ask()
    milvus.failure = None
    wait_until(lambda: not milvus.is_suspected())
    assert milvus.ask() == "answer"


def test_a_silent_cache_holds_up_one_request_and_not_the_next(silent_cache: None, milvus: Milvus) -> None:
    began = time.monotonic()
    assert milvus.ask() == "answer"
    assert 0.9 < time.monotonic() - began < 3
    began = time.monotonic()
    for _ in range(20):
        breaker.refuse_if_suspected(milvus.address)
        assert milvus.ask() == "answer"
    milvus.fail()
    for _ in range(20):
        with pytest.raises(Suspected):
            milvus.ask()
    assert time.monotonic() - began < 0.5
    milvus.failure = None
    wait_until(lambda: not milvus.is_suspected())
    assert milvus.ask() == "answer"


def test_of_many_requests_one_finds_out_whether_the_cache_is_still_silent(
    silent_cache: None, milvus: Milvus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "_LEFT_ALONE_SECONDS", 0.1)
    milvus.ask()
    time.sleep(0.1)
    took = []

    def ask() -> None:
        began = time.monotonic()
        breaker.refuse_if_suspected(milvus.address)
        took.append(time.monotonic() - began)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [seconds > 0.8 for seconds in sorted(took)] == [False] * 7 + [True]


def test_a_cache_that_speaks_again_is_asked_again(
    silent_cache: None, milvus: Milvus, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "_LEFT_ALONE_SECONDS", 0.1)
    milvus.ask()
    settings.CACHES = {
        **settings.CACHES,
        "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": milvus.address},
    }
    cache.set(breaker._suspect_key(milvus.address), 1, 30)
    cache.set(breaker._probing_key(milvus.address), "another process", 30)
    wait_until(lambda: milvus.is_suspected())
    with pytest.raises(Suspected):
        breaker.refuse_if_suspected(milvus.address)


def test_a_search_looks_into_the_cache_once_however_often_it_asks(settings: Settings, milvus: Milvus) -> None:
    settings.MILVUS_URL = milvus.address
    settings.CACHES = {
        **settings.CACHES,
        "default": {"BACKEND": f"{__name__}.CountingCache", "LOCATION": milvus.address},
    }
    CountingCache.looks = 0
    calls.refuse_if_suspected()
    for _ in range(3):
        assert calls.all_at_once(calls.begin([]), [lambda: "answer"], timeout=1, seconds_left=1) == ([], ["answer"])
    assert CountingCache.looks == 1
    calls.refuse_if_suspected()
    assert CountingCache.looks == 2


def test_a_look_that_found_nothing_is_not_good_for_long(milvus: Milvus) -> None:
    milvus.ask()
    cache.set(breaker._suspect_key(milvus.address), 1, 30)
    cache.set(breaker._probing_key(milvus.address), "another process", 30)
    with pytest.raises(Suspected):
        breaker.refuse_if_suspected(milvus.address)
    time.sleep(breaker._CLEAR_SECONDS)
    with pytest.raises(Suspected):
        milvus.ask()


@pytest.mark.parametrize(
    "backend", ["django.core.cache.backends.locmem.LocMemCache", "django.core.cache.backends.filebased.FileBasedCache"]
)
def test_other_caches_serve_as_well(backend: str, milvus: Milvus, settings: Settings, tmp_path) -> None:
    settings.CACHES = {**settings.CACHES, "default": {"BACKEND": backend, "LOCATION": str(tmp_path)}}
    milvus.fail()
    with pytest.raises(Suspected):
        milvus.ask()
    milvus.failure = None
    wait_until(lambda: not milvus.is_suspected())
    assert milvus.ask() == "answer"


def test_what_happens_is_counted_and_no_password_is_shown(milvus: Milvus, caplog: pytest.LogCaptureFixture) -> None:
    milvus.fail()
    with pytest.raises(Suspected):
        milvus.ask()
    assert milvus.metric("zhifu_milvus_suspected") == 1
    assert milvus.metric("zhifu_milvus_suspicions_total") == 1
    assert milvus.metric("zhifu_milvus_refusals_total") == 1
    wait_until(lambda: milvus.metric("zhifu_milvus_probes_total", outcome="failed") >= 1)
    milvus.failure = None
    wait_until(lambda: milvus.metric("zhifu_milvus_probes_total", outcome="answered") == 1)
    # Also in a process that is asked nothing more: the gauge is read when it is collected.
    wait_until(lambda: milvus.metric("zhifu_milvus_suspected") == 0)
    wait_until(lambda: not watching(milvus))
    said = [record for record in caplog.records if record.name == "knowledge.breaker"]
    assert [record.message for record in said] == ["milvus is suspected", "milvus answers again"]
    assert all(record.address == breaker.label(milvus.address) for record in said)
    assert "secret" not in breaker.label(milvus.address)
