"""Where the content of memory lies: the cache alias `memory`, Redis in production, a table in the embedded default.

One key holds one customer's content of one moment, `tenant:customer:epoch:random`, as JSON text. A key is written
once. Erasing puts an empty tombstone in its place, which keeps for as long as content would: a worker that wakes up
late cannot write there any more.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.db import DatabaseCache
from django.db import connection

from zhifu import errors

logger = logging.getLogger(__name__)

_ALIAS = "memory"
_TOMBSTONE = ""
# Keys that a scan looks at together.
_AT_ONCE = 500
# What reading bytes raises that are no JSON, and so were not written here.
_NOT_OURS = (ValueError, RecursionError)
_DOWN = "记忆暂时读不到，请稍后再试 / Memory cannot be reached right now; try again later."
_LOST = "记忆内容已丢失，请清空或重新设置 / The remembered content has been lost; clear it, or set it again."


class MemoryUnavailable(errors.Unavailable):
    """The store does not answer: whether there is content cannot be said."""

    code = "MEMORY_UNAVAILABLE"

    def __init__(self, message: str = _DOWN) -> None:
        super().__init__(message)


class MemoryLost(MemoryUnavailable):
    """The store answers, and no longer has what it should: waiting does not help."""

    retry_after = None

    def __init__(self) -> None:
        super().__init__(_LOST)


@dataclass(frozen=True)
class KeyParts:
    """What a key says about its content."""

    tenant_id: int
    customer_id: int
    epoch: int


def new_key(tenant_id: int, customer_id: int, epoch: int) -> str:
    """Return a key that was never used."""
    return f"{tenant_id}:{customer_id}:{epoch}:{uuid4().hex}"


def parts(key: str) -> KeyParts | None:
    """Return what `key` says, None for one that is not of ours."""
    numbers = key.split(":")
    if len(numbers) != 4 or not all(number.isdecimal() for number in numbers[:3]):
        return None
    return KeyParts(*map(int, numbers[:3]))


def write(key: str, content: Mapping[str, str], kept: timedelta | None = None) -> bool:
    """Store `content` under a key that holds nothing yet; False when it is taken: it was erased meanwhile.

    It is kept for settings.MEMORY_STORED, or for less. Raises MemoryUnavailable.
    """
    text = json.dumps(dict(content))
    with _translated():
        return bool(_cache().add(key, text, (kept or settings.MEMORY_STORED).total_seconds()))


def read(key: str) -> dict[str, Any]:
    """Return the content under `key`. Raises MemoryUnavailable, and MemoryLost when there is none of ours."""
    with _translated():
        try:
            text = _cache().get(key)
        except _NOT_OURS as error:
            raise MemoryLost from error
    if not text:
        raise MemoryLost
    return _decoded(text)


def erase(key: str) -> None:
    """Overwrite what lies under `key`, if anything, by a tombstone. Raises MemoryUnavailable."""
    with _translated():
        _cache().set(key, _TOMBSTONE, settings.MEMORY_STORED.total_seconds())


def keys_with_content() -> Iterator[list[str]]:
    """Yield every key that holds content, in lists; tombstones are none. Raises MemoryUnavailable."""
    with _translated():
        batch: list[str] = []
        for key in _all_keys():
            batch.append(key)
            if len(batch) == _AT_ONCE:
                yield _holding(batch)
                batch = []
        yield _holding(batch)


def holding(keys: list[str]) -> set[str]:
    """Return which of `keys` hold content. Raises MemoryUnavailable."""
    with _translated():
        return set(_holding(keys))


def ping() -> None:
    """Write to the store: one that only answers reads is of no use. Raises MemoryUnavailable."""
    with _translated():
        _cache().set("ping", _TOMBSTONE, 60)


def leave_no_copies() -> None:
    """Empty SQLite's write-ahead log, which holds what was overwritten until it is used again; Redis has none.

    While somebody reads, SQLite leaves it for the next time. Call it with no transaction open.
    """
    if _keeps_a_table() and connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _holding(keys: list[str]) -> list[str]:
    try:
        found = _cache().get_many(keys) if keys else {}
    except _NOT_OURS:
        return [key for key in keys if _holds(key)]
    return [key for key in keys if found.get(key)]


def _holds(key: str) -> bool:
    """Say whether one key holds content: bytes that are not ours do."""
    try:
        return bool(_cache().get(key))
    except _NOT_OURS:
        return True


def _all_keys() -> Iterator[str]:
    if not _keeps_a_table():
        yield from _redis_keys()
        return
    # Django's database cache cannot list its keys; they lie in a table of ours, as `prefix:version:key`.
    from memory.models import StoredContent

    stored = StoredContent.objects.order_by("pk").values_list("cache_key", flat=True)
    for full in stored.iterator(chunk_size=_AT_ONCE):
        yield full.split(":", 2)[2]


def _redis_keys() -> Iterator[str]:
    """Yield the keys under our prefix; one that is no text was never ours, and ends no scan."""
    cache = _cache()
    for raw in cache.client.get_client(write=False).scan_iter(match=cache.client.make_pattern("*"), count=_AT_ONCE):
        try:
            yield cache.client.reverse_key(raw.decode())
        except UnicodeDecodeError:
            logger.warning("a key under the memory prefix is no text")


def _keeps_a_table() -> bool:
    """Say whether the content lies in StoredContent, as in the embedded default, and not in Redis."""
    return isinstance(_cache(), DatabaseCache)


def _decoded(text: Any) -> dict[str, Any]:
    """Return the content; anything that is no JSON object counts as lost."""
    try:
        content = json.loads(text)
    except (TypeError, *_NOT_OURS) as error:
        raise MemoryLost from error
    if not isinstance(content, dict):
        raise MemoryLost
    return content


def _cache() -> Any:
    return caches[_ALIAS]


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except MemoryUnavailable:
        raise
    except Exception as error:  # Each backend's client raises its own; whichever it is, nothing was read or written.
        logger.warning("memory store failed", extra={"error": type(error).__name__})
        raise MemoryUnavailable from error
