"""A breaker shared by all processes: while the vector store is suspected nobody's request is the trial.

The cache remembers that an address failed and which process asks it again: one thread of one process, until it
answers. A process that cannot reach the cache, or waited for it in vain a moment ago, remembers by itself and asks by
itself.
"""

import atexit
import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from django.core.cache import cache
from django.db import connections
from prometheus_client import Counter, Gauge

from zhifu.errors import Failure, Unavailable

logger = logging.getLogger(__name__)

# Before the first probe and before every later one: a hiccup is over soon, an outage is not asked all the time.
_PAUSES = (0.5, 1.0)
# Renewed by the probing process in each round; without one it ends and the next request finds out for itself.
_SUSPECT_SECONDS = 30
# Longer than one pause and one probe together: when it runs out the probing process is dead, and another takes over.
_PROBING_SECONDS = 12
# How long the end of a process waits for a probe that is on its way.
_ENDING_SECONDS = 3.0
# So long one look at the cache is good for: a search asks several times.
_CLEAR_SECONDS = 0.25
# A cache that takes so long, nearly its own timeout, is silent, and left alone for a while: each request would wait.
_SILENT_SECONDS = 0.9
_LEFT_ALONE_SECONDS = 5.0

_SUSPECTED = Gauge("zhifu_milvus_suspected", "1 while searches are kept away from Milvus.", ["address"])
_SUSPICIONS = Counter("zhifu_milvus_suspicions", "How often a failed call made Milvus suspect.", ["address"])
_REFUSALS = Counter("zhifu_milvus_refusals", "Searches that did not ask because Milvus was suspected.", ["address"])
_PROBES = Counter("zhifu_milvus_probes", "Calls that try whether a suspected Milvus answers.", ["address", "outcome"])

Answer = TypeVar("Answer")


class Overloaded(Unavailable):
    """This process had no room or no time to ask: that says nothing about who would have been asked."""


class Suspected(Unavailable):
    """Nobody was asked: a call failed a moment ago, and it is not known yet that the next would not."""

    code = "MILVUS_UNAVAILABLE"

    def __init__(self) -> None:
        super().__init__("向量库暂不可用 / The vector store is not available.")


def guarded(address: str, ask: Callable[[], Answer], *, probe: Callable[[], object]) -> Answer:
    """Return what `ask` returns.

    Any Unavailable that it raises, other than Overloaded, makes `address` suspect until `probe` returns without one
    in a thread of its own. Raises Suspected at once while it is.
    """
    if _is_watched_here(address) or time.monotonic() >= _clear_until.get(address, 0.0):
        refuse_if_suspected(address, probe=probe)
    try:
        return ask()
    except Overloaded:
        raise
    except Unavailable:
        _suspect(address, probe)
        raise


def refuse_if_suspected(address: str, *, probe: Callable[[], object] | None = None) -> None:
    """Raise Suspected while `address` is suspected, and see to it, given a `probe`, that some process asks it again."""
    if not _is_watched_here(address):
        known = _shared.call(cache.get_many, [_suspect_key(address), _probing_key(address)]) or {}
        _show(address)
        if _suspect_key(address) not in known:
            _clear_until[address] = time.monotonic() + _CLEAR_SECONDS
            return
        if _probing_key(address) not in known:
            if probe is None:
                return
            _watch(address, probe)
    _REFUSALS.labels(label(address)).inc()
    raise Suspected


@lru_cache
def _show(address: str) -> None:
    """Let the metrics ask, whenever they are read, whether `address` is suspected."""
    _SUSPECTED.labels(label(address)).set_function(lambda: float(is_suspected(address)))


def is_suspected(address: str) -> bool:
    """Return whether `address` is suspected right now, by all processes or by this one alone."""
    return _is_watched_here(address) or _shared.call(cache.get, _suspect_key(address)) is not None


def stop() -> None:
    """End the probes of this process and wait for them a little; others take over. Called when the process ends."""
    with _starting:
        watchers = list(_watchers.values())
        _watchers.clear()
    for watcher in watchers:
        watcher.ending.set()
    until = time.monotonic() + _ENDING_SECONDS
    for watcher in watchers:
        watcher.join(max(0.0, until - time.monotonic()))


def label(address: str) -> str:
    """Return `address` as metrics and logs may show it: without the credentials that a URL may carry."""
    return urlsplit(address).netloc.rpartition("@")[2] or address


# --- What all processes know ---
class _Shared:
    """Asks the cache, unless it was silent a moment ago: then one thread at a time finds out whether it still is."""

    def __init__(self) -> None:
        self._left_alone_until = 0.0
        self._trying = threading.Lock()

    def call(self, method: Callable[..., Any], *args: object) -> Any:
        """Return what a method of the cache returns, and None, as from one that is down, while it is left alone."""
        if not self._left_alone_until:
            return self._timed(method, *args)
        if time.monotonic() < self._left_alone_until or not self._trying.acquire(blocking=False):
            return None
        try:
            return self._timed(method, *args)
        finally:
            self._trying.release()

    def _timed(self, method: Callable[..., Any], *args: object) -> Any:
        began = time.monotonic()
        try:
            return method(*args)
        finally:
            ended = time.monotonic()
            is_silent = ended - began >= _SILENT_SECONDS
            self._left_alone_until = ended + _LEFT_ALONE_SECONDS if is_silent else 0.0
            if is_silent:
                logger.warning("the cache is silent", extra={"seconds": round(ended - began, 1)})


_shared = _Shared()
# Address -> until when a look at the cache that found no suspicion is good.
_clear_until: dict[str, float] = {}


# --- Who is suspected, and who asks ---
class _Watcher(threading.Thread):
    """Asks one address again and again until it answers; while this lives the process suspects the address."""

    def __init__(self, address: str, probe: Callable[[], object], mark: str) -> None:
        super().__init__(name=f"probe-{label(address)}", daemon=True)
        self.ending = threading.Event()
        self._address = address
        self._probe = probe
        self._mark = mark

    def run(self) -> None:
        since = time.monotonic()
        try:
            for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
                if not self._renew():
                    return
                if self.ending.wait(pause):
                    # The next process that needs it need not wait until this one counts as dead.
                    cache.delete(_probing_key(self._address))
                    return
                if self._is_answered():
                    break
            # Also from a cache that is left alone: nobody waits for this, and other processes wait for the news.
            cache.delete_many([_suspect_key(self._address), _probing_key(self._address)])
            seconds = round(time.monotonic() - since, 1)
            logger.warning("milvus answers again", extra={"address": label(self._address), "seconds": seconds})
        except RuntimeError:
            # The interpreter is ending: its thread pools take no more calls.
            logger.info("a probe was cut short", exc_info=True)
        finally:
            # A cache in the database opened one for this thread.
            connections.close_all()

    def _renew(self) -> bool:
        """Keep the suspicion up, unless another process has taken over while this one was standing still."""
        if (_shared.call(cache.get, _probing_key(self._address)) or self._mark) != self._mark:
            return False
        _shared.call(cache.set, _suspect_key(self._address), 1, _SUSPECT_SECONDS)
        _shared.call(cache.set, _probing_key(self._address), self._mark, _PROBING_SECONDS)
        return True

    def _is_answered(self) -> bool:
        try:
            self._probe()
        except Unavailable:
            _PROBES.labels(label(self._address), "failed").inc()
            return False
        except Failure:
            # A wrong dimension, say: whatever it is, it is no silence.
            logger.info("milvus answers with an error", extra={"address": label(self._address)}, exc_info=True)
        _PROBES.labels(label(self._address), "answered").inc()
        return True


_watchers: dict[tuple[int, str], _Watcher] = {}
_starting = threading.Lock()
atexit.register(stop)


def _suspect(address: str, probe: Callable[[], object]) -> None:
    _clear_until.pop(address, None)
    # False: it was suspected already. None: the cache is down, or left alone.
    is_new = _shared.call(cache.add, _suspect_key(address), 1, _SUSPECT_SECONDS)
    is_asked_from_now = _watch(address, probe)
    if is_new or (is_new is None and is_asked_from_now):
        _SUSPICIONS.labels(label(address)).inc()
        logger.warning("milvus is suspected", extra={"address": label(address)})


def _watch(address: str, probe: Callable[[], object]) -> bool:
    """Begin to ask `address` again, unless some process does; return whether it began."""
    with _starting:
        if _is_watched_here(address):
            return False
        mark = uuid4().hex
        if _shared.call(cache.add, _probing_key(address), mark, _PROBING_SECONDS) is False:
            return False
        watcher = _Watcher(address, probe, mark)
        _watchers[os.getpid(), address] = watcher
        watcher.start()
        return True


def _is_watched_here(address: str) -> bool:
    watcher = _watchers.get((os.getpid(), address))
    return watcher is not None and watcher.is_alive()


def _suspect_key(address: str) -> str:
    return f"suspect:{_digest(address)}"


def _probing_key(address: str) -> str:
    return f"probing:{_digest(address)}"


def _digest(address: str) -> str:
    # A URL may carry a password, and a path what no cache takes for a key.
    return hashlib.sha256(address.encode()).hexdigest()[:16]
