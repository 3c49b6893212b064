"""`manage.py run` as somebody at a terminal meets it: what it says, and how it ends."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests import servers
from tests.processes.system import ROOT, eventually

pytestmark = pytest.mark.processes


@contextmanager
def running(folder: Path, port: int) -> Iterator[subprocess.Popen]:
    """Run the embedded default in a process group of its own, its output in `folder`/output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ZHIFU_", "DJANGO_"))}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "run", "--port", str(port)],
            cwd=ROOT,
            env=environment | {"ZHIFU_ENV_FILE": os.devnull, "ZHIFU_VAR_DIR": str(folder), "OMP_NUM_THREADS": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/healthz", timeout=5).ok
    except requests.ConnectionError:
        return False


def test_ctrl_c_ends_it_without_a_word_and_soon(tmp_path: Path) -> None:
    port = servers.free_port()
    url = f"http://127.0.0.1:{port}"
    with running(tmp_path, port) as process:
        eventually(lambda: answers(url), "it answers")
        assert requests.get(url, timeout=30).url == f"{url}/admin/login/?next=/admin/"
        eventually(lambda: requests.get(f"{url}/readyz", timeout=30).json()["degraded"] == [], "all is there")
        started = time.monotonic()
        # Pressed again and again: the later ones meet a process that is ending.
        while process.poll() is None and time.monotonic() < started + 30:
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.02)
        seconds = time.monotonic() - started
    said = (tmp_path / "output").read_text()
    after = said.partition("Ctrl-C")[2].splitlines()[1:]
    assert [line for line in after if "Traceback" in line or "SIGKILL" in line or "Error" in line] == [], said
    assert seconds < 5


def test_a_port_that_is_taken_is_said_before_anything_else(tmp_path: Path) -> None:
    port = servers.free_port()
    with socket.create_server(("127.0.0.1", port)), running(tmp_path, port) as process:
        assert process.wait(60) == 1
    said = (tmp_path / "output").read_text()
    assert str(port) in said
    assert "make run PORT=" in said
    assert "merchant" not in said
