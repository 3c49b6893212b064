"""The embedded default's vector store: a `milvus-lite server` child of this process, on 127.0.0.1.

One server per data folder. The process that holds the folder's lock keeps the server; any other process of the same
installation finds its address in a file beside it. The server ends with the process that keeps it, also after
kill -9; the next one that needs it starts another.
"""

import atexit
import fcntl
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

from django.conf import settings

from zhifu.errors import Unavailable

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_READY_SECONDS = 60
_RESTART_PAUSE_SECONDS = 1.0
# The child asks the kernel to be ended with the thread that started it, then becomes the server. A function run
# between fork and exec could deadlock in a process with threads, this cannot.
_START = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


class MilvusChild:
    """The milvus-lite server of one data folder, kept by this process or found beside it."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "milvus"
        self._lock_file = folder / "milvus.lock"
        self._address_file = folder / "milvus.address"
        self._held: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._address: str | None = None
        self._stopping = threading.Event()
        self._guard = threading.Lock()

    def url(self, timeout: float) -> str:
        """Return the server's URL, starting it when nobody has. Raises Unavailable when it is not up in `timeout`."""
        deadline = time.monotonic() + timeout
        while True:
            address = self._address if self._is_kept_here() else self._found()
            if address is not None:
                return address
            if time.monotonic() >= deadline:
                raise Unavailable("向量库正在启动 / The vector store is starting.", code="MILVUS_UNAVAILABLE")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End the server, if this process keeps it, and let go of the folder."""
        self._stopping.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._held is not None:
            self._held.close()
            self._held = None

    def forget(self) -> None:
        """After a fork: the server and the lock are the parent's."""
        self._guard = threading.Lock()
        self._process = self._address = None
        if self._held is not None:
            self._held.close()
            self._held = None

    def _is_kept_here(self) -> bool:
        with self._guard:
            if self._held is not None:
                return True
            self._lock_file.parent.mkdir(parents=True, exist_ok=True)
            held = self._lock_file.open("w")
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.close()
                return False
            self._held = held
            # This thread lives as long as the process: the kernel ends the child with the thread that started it.
            threading.Thread(target=self._keep, name="milvus-lite", daemon=True).start()
            return True

    def _found(self) -> str | None:
        """Return the address another process has written down, if somebody answers there."""
        try:
            port = int(self._address_file.read_text())
        except (OSError, ValueError):
            return None
        return f"http://127.0.0.1:{port}" if _answers(port) else None

    def _keep(self) -> None:
        """Run the server, again when it died, until this process ends."""
        while not self._stopping.is_set():
            port = _free_port()
            self._process = self._start(port)
            if self._wait_until_ready(self._process, port):
                self._address_file.write_text(str(port))
                self._address = f"http://127.0.0.1:{port}"
                self._process.wait()
                self._address = None
            if not self._stopping.is_set():
                logger.error("milvus-lite ended, starting it again", extra={"exit_status": self._process.poll()})
                self._stopping.wait(_RESTART_PAUSE_SECONDS)

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).parent / "milvus-lite"
        server = [str(program), "server", "--data-dir", str(self._data), "--host", "127.0.0.1", "--port", str(port)]
        with self._lock_file.with_suffix(".log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603  # fixed arguments
                [sys.executable, "-c", _START, str(os.getpid()), *server],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for this process, which then ends its child.
                start_new_session=True,
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes], port: int) -> bool:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline and process.poll() is None and not self._stopping.is_set():
            if _answers(port):
                return True
            time.sleep(_POLL_SECONDS)
        process.kill()
        process.wait()
        return False


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_child: MilvusChild | None = None
_making = threading.Lock()


def url(timeout: float) -> str:
    """Return the URL of this installation's own milvus-lite server, in settings.VAR_PATH; raises as MilvusChild.url."""
    global _child
    with _making:
        if _child is None:
            _child = MilvusChild(settings.VAR_PATH)
            atexit.register(_child.stop)
            os.register_at_fork(after_in_child=_child.forget)
    return _child.url(timeout)
