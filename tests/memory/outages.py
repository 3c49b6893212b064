"""The memory store away, hung, emptied or damaged, and back again."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.core.cache import caches
from django.test import override_settings

from tests import servers


class OwnStore:
    """A Redis of one test's own, which keeps what it holds when it is stopped and started."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        memory = servers.MEMORY_FOLDER if os.access(servers.MEMORY_FOLDER, os.W_OK) else None
        self._folder = Path(tempfile.mkdtemp(prefix="zhifu-store-", dir=memory))
        self._process: subprocess.Popen | None = None
        self.port = servers.free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        program = [servers.find("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1"]
        kept = ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(self._folder)]
        self._process = servers.start([*program, *kept], self.port, self._folder, self._stack)

    def start_empty(self) -> None:
        shutil.rmtree(self._folder / "appendonlydir", ignore_errors=True)
        self.start()

    def stop(self) -> None:
        assert self._process is not None
        servers.stop(self._process)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it accept connections and answer nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        self._stack.close()
        shutil.rmtree(self._folder)


def cached_at(url: str) -> dict[str, dict[str, Any]]:
    """Return the product's caches, with the memory store at another address."""
    changed: dict[str, dict[str, Any]] = deepcopy(settings.CACHES)
    changed["memory"]["LOCATION"] = url
    return changed


@contextmanager
def away() -> Iterator[None]:
    """Let nothing listen where the store should be; what it holds is back afterwards."""
    with override_settings(CACHES=cached_at(f"redis://127.0.0.1:{servers.free_port()}/0")):
        yield


def raw() -> redis.Redis:
    """Return a plain client of the store, to see and write bytes past the product."""
    client: redis.Redis = caches["memory"].client.get_client()
    return client


def full(key: str) -> str:
    """Return what a key of ours is called in the store itself."""
    return str(caches["memory"].make_key(key))


def put(key: str, value: bytes) -> None:
    """Have `value` under a key of ours as if somebody else had written it."""
    raw().set(full(key), value)


def bytes_at(key: str) -> bytes | None:
    value: bytes | None = raw().get(full(key))
    return value


def lose(key: str) -> None:
    assert raw().delete(full(key)) == 1
