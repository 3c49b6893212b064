"""The store behind memory: written once, erased for good, told apart when lost or away; on Redis and on a table."""

import json
import os
import pickle
import time
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings as configured
from django.core.cache import caches
from pytest_django.fixtures import Settings

from memory import store
from memory.models import StoredContent
from tests.memory import outages
from tests.memory.outages import OwnStore
from tests.memory.remembering import keys_with_content

CONTENT = {"response_style": "concise", "language": "zh-Hant"}
# What a call may take while the store hangs: one time-out of a second.
BOUND = 2.0


@pytest.fixture(params=["redis", "table"])
def backend(request: pytest.FixtureRequest, db: None, settings: Settings) -> str:
    """Each kind of store that the product runs on."""
    if request.param == "table":
        changed = deepcopy(configured.CACHES)
        changed["memory"] = {
            "BACKEND": "django.core.cache.backends.db.DatabaseCache",
            "LOCATION": StoredContent._meta.db_table,
            "OPTIONS": {"MAX_ENTRIES": 1_000_000_000},
        }
        settings.CACHES = changed
    return str(request.param)


def test_content_is_read_as_it_was_written(backend: str) -> None:
    key = store.new_key(1, 2, 3)
    assert store.write(key, CONTENT)
    assert store.read(key) == CONTENT
    assert keys_with_content() == {key}
    assert store.holding([key, store.new_key(1, 2, 3)]) == {key}


def test_a_key_is_written_once(backend: str) -> None:
    key = store.new_key(1, 2, 3)
    assert store.write(key, CONTENT)
    assert not store.write(key, {"language": "en"})
    assert store.read(key) == CONTENT


def test_what_is_erased_cannot_be_read_nor_written_again_by_a_worker_that_wakes_up_late(backend: str) -> None:
    written, never_written = store.new_key(1, 2, 3), store.new_key(1, 2, 4)
    assert store.write(written, CONTENT)
    for key in (written, never_written):
        store.erase(key)
        assert not store.write(key, CONTENT)
        with pytest.raises(store.MemoryLost):
            store.read(key)
    assert keys_with_content() == set()


def test_a_key_that_was_never_written_is_lost_and_no_waiting_helps(backend: str) -> None:
    with pytest.raises(store.MemoryLost) as lost:
        store.read(store.new_key(1, 2, 3))
    assert (lost.value.code, lost.value.retry_after) == ("MEMORY_UNAVAILABLE", None)


def test_no_two_keys_are_alike_and_each_says_whose_it_is() -> None:
    keys = {store.new_key(1, 22, 333) for _ in range(1000)}
    assert len(keys) == 1000
    assert {store.parts(key) for key in keys} == {store.KeyParts(1, 22, 333)}
    for other in ("", "1:2:3", "1:2:x:a", "1:2:-3:a", "1:2:3:a:b", "zhifu"):
        assert store.parts(other) is None


def test_every_key_is_found_however_many_there_are(backend: str) -> None:
    held = {store.new_key(1, 2, number) for number in range(600)}
    erased = {store.new_key(1, 3, number) for number in range(600)}
    for key in held:
        store.write(key, CONTENT)
    for key in erased:
        store.erase(key)
    lists = list(store.keys_with_content())
    found = [key for keys in lists for key in keys]
    assert len(found) == 600
    assert set(found) == held
    assert max(map(len, lists)) <= 500


def test_content_lies_in_redis_as_plain_json_for_thirty_days_and_so_does_a_tombstone() -> None:
    kept, erased = store.new_key(1, 2, 3), store.new_key(1, 2, 3)
    store.write(kept, CONTENT)
    store.write(erased, CONTENT)
    store.erase(erased)
    assert json.loads(json.loads(outages.bytes_at(kept) or b"")) == CONTENT
    assert outages.bytes_at(erased) == b'""'
    for key in (kept, erased):
        left = timedelta(seconds=outages.raw().ttl(outages.full(key)))
        assert timedelta(days=30, seconds=-60) < left <= timedelta(days=30)


def test_a_scan_leaves_what_others_keep_in_the_same_redis_alone() -> None:
    mine = store.new_key(1, 2, 3)
    store.write(mine, CONTENT)
    outages.raw().set("another-product:1:1:2:3:abc", b"x")
    caches["default"].set("somebody", "else")
    assert keys_with_content() == {mine}


class _Trap:
    """Unpickled, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (str(self.path),)


STRANGE = {
    "nothing": b"",
    "words": b"concise",
    "half of it": b'"{\\"language\\": ',
    "not text": b"\xff\xfe\x00\x80",
    "a number": b"17",
    "a longer number": b"9" * 5000,
    "a list": json.dumps(json.dumps(["concise"])).encode(),
    "an object that is no text": json.dumps(CONTENT).encode(),
    "null in text": b'"null"',
    "deep": b"[" * 100_000,
    "deep in text": json.dumps("[" * 100_000).encode(),
    "text in text": b'"\\"concise\\""',
    "too precise": b"Infinity",
}


@pytest.mark.parametrize("kind", STRANGE)
def test_bytes_of_somebody_else_are_content_that_is_lost(kind: str) -> None:
    key = store.new_key(1, 2, 3)
    outages.put(key, STRANGE[kind])
    with pytest.raises(store.MemoryLost):
        store.read(key)


def test_a_pickle_in_the_store_is_never_executed(tmp_path: Path) -> None:
    key = store.new_key(1, 2, 3)
    trap = pickle.dumps(_Trap(tmp_path / "sprung"))
    pickle.loads(trap)  # noqa: S301  # to show that the trap works
    assert (tmp_path / "sprung").exists(), "it would spring"
    (tmp_path / "sprung").rmdir()

    outages.put(key, trap)
    with pytest.raises(store.MemoryLost):
        store.read(key)
    assert keys_with_content() == {key}
    assert not (tmp_path / "sprung").exists()


def test_strange_bytes_hide_no_key_from_a_scan_and_are_found_themselves() -> None:
    good, erased, strange = (store.new_key(1, 2, number) for number in range(3))
    store.write(good, CONTENT)
    store.erase(erased)
    outages.put(strange, STRANGE["not text"])
    assert keys_with_content() == {good, strange}
    assert store.holding([good, erased, strange]) == {good, strange}
    store.erase(strange)
    assert keys_with_content() == {good}
    assert outages.bytes_at(strange) == b'""'


CALLS: dict[str, Callable[[str], object]] = {
    "read": store.read,
    "write": lambda key: store.write(key, CONTENT),
    "erase": store.erase,
    "scan": lambda key: keys_with_content(),
    "holding": lambda key: store.holding([key]),
    "ping": lambda key: store.ping(),
}


def _said_unavailable(call: Callable[[str], object], key: str) -> store.MemoryUnavailable:
    started = time.monotonic()
    with pytest.raises(store.MemoryUnavailable) as failure:
        call(key)
    assert time.monotonic() - started < BOUND
    return failure.value


@pytest.mark.faults
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_store_that_is_down_is_said_to_be_away_and_not_empty(
    call: Callable[[str], object], caplog: pytest.LogCaptureFixture
) -> None:
    key = store.new_key(1, 2, 3)
    store.write(key, CONTENT)
    with outages.away():
        failure = _said_unavailable(call, key)
    assert not isinstance(failure, store.MemoryLost)
    assert (failure.code, failure.retry_after) == ("MEMORY_UNAVAILABLE", 5)
    assert "concise" not in caplog.text
    assert store.read(key) == CONTENT


@pytest.mark.faults
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_store_that_hangs_holds_nobody_up_for_longer_than_its_time_out(
    own_store: OwnStore, call: Callable[[str], object]
) -> None:
    key = store.new_key(1, 2, 3)
    with own_store.frozen():
        assert not isinstance(_said_unavailable(call, key), store.MemoryLost)
    store.ping()


@pytest.mark.faults
def test_a_connection_that_is_open_when_the_store_hangs_is_given_up_as_soon(own_store: OwnStore) -> None:
    key = store.new_key(1, 2, 3)
    store.write(key, CONTENT)
    with own_store.frozen():
        _said_unavailable(CALLS["read"], key)
        _said_unavailable(CALLS["read"], key)
    assert store.read(key) == CONTENT


@pytest.mark.faults
def test_a_store_that_was_started_again_is_used_again_at_the_first_call(own_store: OwnStore) -> None:
    key = store.new_key(1, 2, 3)
    store.write(key, CONTENT)
    own_store.stop()
    own_store.start()
    assert store.read(key) == CONTENT
    own_store.stop()
    own_store.start_empty()
    with pytest.raises(store.MemoryLost):
        store.read(key)
