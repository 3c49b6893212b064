"""The embedded vector store: one server per folder, ended with the process that keeps it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from knowledge.milvus_child import MilvusChild
from zhifu.errors import Unavailable

pytestmark = pytest.mark.processes

READY = 30.0
# Another process of the same installation; it says where the server is and waits to be killed.
OTHER = """
import sys, time
from pathlib import Path
from knowledge.milvus_child import MilvusChild
print(MilvusChild(Path(sys.argv[1])).url(30), flush=True)
time.sleep(60)
"""


def start_other(folder: Path) -> tuple[subprocess.Popen, str]:
    process = subprocess.Popen([sys.executable, "-c", OTHER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def servers_of(folder: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(folder / "milvus") in (process.info["cmdline"] or []) and "server" in process.info["cmdline"]
    ]


def wait_for(condition, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_server_starts_on_first_use_is_restarted_when_it_dies_and_ends_with_stop(tmp_path: Path) -> None:
    child = MilvusChild(tmp_path)
    assert servers_of(tmp_path) == []
    try:
        first = child.url(READY)
        assert child.url(READY) == first
        (process,) = servers_of(tmp_path)
        process.kill()
        wait_for(lambda: process not in servers_of(tmp_path))
        wait_for(lambda: len(servers_of(tmp_path)) == 1)
        assert child.url(READY).startswith("http://127.0.0.1:")
    finally:
        child.stop()
    wait_for(lambda: servers_of(tmp_path) == [])


def test_not_being_ready_in_time_is_an_outage(tmp_path: Path) -> None:
    child = MilvusChild(tmp_path)
    try:
        with pytest.raises(Unavailable) as failure:
            child.url(0.0)
        assert failure.value.code == "MILVUS_UNAVAILABLE"
    finally:
        child.stop()


@pytest.mark.faults
def test_a_second_process_uses_the_first_ones_server_and_takes_over_after_its_kill(tmp_path: Path) -> None:
    keeper, address = start_other(tmp_path)
    child = MilvusChild(tmp_path)
    try:
        assert child.url(READY) == address
        assert len(servers_of(tmp_path)) == 1
        os.kill(keeper.pid, signal.SIGKILL)
        keeper.wait()
        # The kernel ends the server with the process that kept it.
        wait_for(lambda: servers_of(tmp_path) == [])
        assert child.url(READY).startswith("http://127.0.0.1:")
        assert len(servers_of(tmp_path)) == 1
    finally:
        child.stop()
        keeper.kill()
        keeper.wait()
        if keeper.stdout:
            keeper.stdout.close()
