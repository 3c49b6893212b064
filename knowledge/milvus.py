"""How Milvus is called: one client per process and address, and one deadline for each piece of work.

Whatever pymilvus and grpc raise becomes Unavailable (MILVUS_UNAVAILABLE) with that as its cause.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
from django.conf import settings
from pymilvus import MilvusClient, MilvusException

from knowledge import milvus_child
from zhifu.errors import Unavailable

logger = logging.getLogger(__name__)
# It makes a logger of its own on import, which prints each failing call with a traceback; what fails is said here once.
logging.getLogger("pymilvus").setLevel(logging.CRITICAL)

NO_COLLECTION, NOT_LOADED = 100, 101
_NO_ANSWER = 2
_QUIET_SECONDS = 30.0
_PAUSE_SECONDS = 0.05
# grpc waits up to two minutes before it connects again to a server that was away, and 20 s for one that is silent:
# long after both are well again.
_GRPC_OPTIONS = {
    "grpc.initial_reconnect_backoff_ms": 500,
    "grpc.min_reconnect_backoff_ms": 2000,
    "grpc.max_reconnect_backoff_ms": 2000,
}
# pymilvus pings while nothing is asked, lest a network forgets the connection. milvus-lite ends it for that after a
# minute, and with it the next call.
_CHILD_OPTIONS = {**_GRPC_OPTIONS, "grpc.keepalive_permit_without_calls": 0}

# What is asked: the client, and how many seconds are left for it.
Ask = Callable[[MilvusClient, float], Any]


class Deadline:
    """A moment until which everything that belongs to one piece of work must be done."""

    def __init__(self, seconds: float) -> None:
        self._moment = time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """Raises Unavailable when none are."""
        left = self._moment - time.monotonic()
        if left <= 0:
            raise _unavailable()
        return left

    def lasts(self, seconds: float) -> bool:
        return self._moment - time.monotonic() > seconds


def call(ask: Ask, deadline: Deadline) -> Any:
    """Run one call, again when its connection broke. Raises Unavailable when it fails or the deadline is over."""
    client = _client(_address(deadline), deadline)
    left = deadline.seconds_left
    try:
        return ask(client, left)
    except Exception as error:
        if not _is_broken_connection(error) or not deadline.lasts(2 * _PAUSE_SECONDS):
            raise _failed(error) from error
    # What is asked may be done twice. grpc connects anew once it knows, and a server that is away refuses that at once.
    time.sleep(_PAUSE_SECONDS)
    left = deadline.seconds_left
    try:
        return ask(client, left)
    except Exception as error:
        raise _failed(error) from error


def _is_broken_connection(error: Exception) -> bool:
    """Also what a server that was restarted, or wanted to hear no more over this connection, is first found by."""
    return isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.UNAVAILABLE


def answer_code(failure: Unavailable) -> int | None:
    """Return the code of the error that a server answered with; None when it did not answer."""
    code = getattr(failure.__cause__, "code", _NO_ANSWER)
    # grpc's own errors have a method of that name.
    return code if isinstance(code, int) and code != _NO_ANSWER else None


_clients: dict[tuple[int, str], MilvusClient] = {}
_connecting = threading.Lock()


def _client(address: str, deadline: Deadline) -> MilvusClient:
    key = (os.getpid(), address)
    known = _clients.get(key)
    if known is not None:
        return known
    # One thread connects; the others wait for it no longer than they have time.
    if not _connecting.acquire(timeout=deadline.seconds_left):
        raise _unavailable()
    try:
        if key not in _clients:
            # Who writes has time to wait for a server that is busy starting.
            left = deadline.seconds_left
            timeout = min(max(settings.MILVUS_TIMEOUT_SECONDS, left / 3), left)
            options = _GRPC_OPTIONS if settings.MILVUS_URL else _CHILD_OPTIONS
            client = MilvusClient(uri=address, token=settings.MILVUS_TOKEN, timeout=timeout, grpc_options=options)
            # A failed call would otherwise have it connect again, for a whole timeout and with a lock in its hand that
            # all other calls need, and then try the call again. grpc connects again by itself.
            client._handler._on_rpc_error = _give_up
            _clients[key] = client
        return _clients[key]
    except MilvusException as error:
        raise _failed(error) from error
    finally:
        _connecting.release()


def _give_up(error: Exception) -> None:
    raise error


def _address(deadline: Deadline) -> str:
    return settings.MILVUS_URL or milvus_child.url(deadline.seconds_left)


def _failed(error: Exception) -> Unavailable:
    """Return what the caller is told, which is only that Milvus is out of reach; why is said here, in the log."""
    # A collection that is not there, or not loaded yet, is nothing unusual.
    if getattr(error, "code", _NO_ANSWER) not in (NO_COLLECTION, NOT_LOADED):
        _say(f"{type(error).__name__}: {error}"[:300])
    return _unavailable()


def _say(cause: str) -> None:
    """Log a failed call; in an outage, when every call fails, one of each kind in half a minute."""
    now, kind = time.monotonic(), cause.partition(":")[0]
    is_news = now - _said.get(kind, -_QUIET_SECONDS) >= _QUIET_SECONDS
    if is_news:
        _said[kind] = now
    logger.log(logging.WARNING if is_news else logging.DEBUG, "milvus call failed", extra={"cause": cause})


_said: dict[str, float] = {}


def _unavailable() -> Unavailable:
    return Unavailable("向量库暂不可用 / The vector store is not available.", code="MILVUS_UNAVAILABLE")
