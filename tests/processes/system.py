"""The product as an operator runs it: a web server, workers per queue and beat, each a process of its own.

All share the test database; the broker is a Redis of this system's own, which tests may stop and start.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from django.db import connection

from tests import servers

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LEASE_SECONDS = 3
SWEEP_SECONDS = 1


def eventually(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Return the first truthy value of `condition`; fail by name after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"did not come about within {seconds} s: {what}")


class System:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = ExitStack()
        self.port = servers.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.broker_port = servers.free_port()
        self.broker: subprocess.Popen | None = None
        self.processes: dict[str, subprocess.Popen] = {}

    def environment(self, **extra: str) -> dict[str, str]:
        database = urlsplit(os.environ["ZHIFU_TEST_DATABASE_URL"])
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "ZHIFU_TEST_DATABASE_URL": f"mysql://{database.netloc}/{connection.settings_dict['NAME']}",
            "ZHIFU_TEST_BROKER_URL": f"redis://127.0.0.1:{self.broker_port}/0",
            "ZHIFU_TEST_VAR_DIR": str(self.folder),
            "ZHIFU_LEASE_SECONDS": str(LEASE_SECONDS),
            "ZHIFU_SWEEP_SECONDS": str(SWEEP_SECONDS),
            "PYTHONUNBUFFERED": "1",
            **extra,
        }

    def start_broker(self) -> None:
        arguments = ["--port", str(self.broker_port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.broker = servers.start(
            [servers.find("redis-server"), *arguments], self.broker_port, self.folder, self.stack
        )

    def stop_broker(self) -> None:
        assert self.broker is not None
        servers.stop(self.broker)

    def start_web(self, application: str = "zhifu.wsgi", *, workers: int = 1, **extra: str) -> None:
        arguments = [application, "--bind", f"127.0.0.1:{self.port}", "--worker-class", "gthread", "--threads", "16"]
        arguments += ["--keep-alive", "75", "--workers", str(workers)]
        process = self._start("web", [str(BIN / "gunicorn"), *arguments], **extra)
        servers.wait_for_port(self.port, process, self.log("web"))
        # The port is open before the process has loaded the product.
        eventually(self._answers, "the web server answers")

    def start_worker(self, queue: str, *, threads: int = 4, **extra: str) -> subprocess.Popen:
        arguments = ["-A", "zhifu", "worker", "-Q", queue, "-P", "threads", "-c", str(threads), "-n", f"{queue}@test"]
        return self._start(queue, [str(BIN / "celery"), *arguments, "--loglevel", "INFO"], **extra)

    def start_beat(self) -> None:
        self._start("beat", [str(BIN / "celery"), "-A", "zhifu", "beat", "--loglevel", "WARNING"])

    def manage(self, *arguments: str, **extra: str) -> None:
        """Run a management command as an operator does, and fail with what it said."""
        command = [sys.executable, "manage.py", *arguments]
        environment = self.environment(**extra)
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def start_everything(self, **extra: str) -> None:
        self.start_broker()
        self.start_web(**extra)
        for queue in ("index", "agents", "memory", "maintenance"):
            self.start_worker(queue, **extra)
        self.start_beat()

    def kill(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def wait_for_death(self, name: str) -> None:
        """Wait until a fault point has killed the process: by SIGKILL, not by an error of its own."""
        code = self.processes[name].wait(60)
        assert code == -signal.SIGKILL, f"{name} ended with {code}: {self.log(name).read_text()[-2000:]}"

    def is_running(self, name: str) -> bool:
        return self.processes[name].poll() is None

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.out"

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        self.stack.close()

    def _start(self, name: str, arguments: list[str], **extra: str) -> subprocess.Popen:
        with self.log(name).open("a") as out:
            process = subprocess.Popen(
                arguments, env=self.environment(**extra), cwd=ROOT, stdout=out, stderr=subprocess.STDOUT
            )
        self.processes[name] = process
        return process


class Caller:
    """HTTP with one token, as JSON."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str) -> Any:
        return self._checked(self.session.get(self.url + path, timeout=30))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._checked(self.session.post(self.url + path, json=body, timeout=30))

    def put(self, path: str, body: dict[str, Any]) -> Any:
        return self._checked(self.session.put(self.url + path, json=body, timeout=30))

    @staticmethod
    def _checked(response: requests.Response) -> Any:
        assert response.ok, f"{response.status_code} {response.text[:500]}"
        return response.json()
