"""`manage.py run`: the embedded default in one process: admin, API, docs, tasks and the sweeper."""

import signal
import socket
import threading
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command
from django.db import connections
from gunicorn.app.base import BaseApplication

from zhifu import probes, sweeping
from zhifu.demo_shop import MERCHANT, PLATFORM, DemoShop, ensure_demo_shop
from zhifu.wsgi import application


class _Server(BaseApplication):  # type: ignore[misc]  # gunicorn is untyped
    """gunicorn with one process and threads: milvus-lite and in-process tasks belong to one process."""

    def __init__(self, port: int) -> None:
        self._port = port
        super().__init__()

    def load_config(self) -> None:
        for name, value in {
            "bind": f"127.0.0.1:{self._port}",
            "workers": 1,
            "worker_class": "gthread",
            "threads": 16,
            "timeout": 120,
            "graceful_timeout": 5,
            "loglevel": "warning",
            "post_worker_init": _prepare_worker,
        }.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return application


def _prepare_worker(worker: Any) -> None:
    # Ctrl-C reaches the whole group. The parent passes it on as SIGQUIT; a second signal while the first ends this
    # process could lock it up, or cut short what it still has to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_sweep_for_ever, name="sweeper", daemon=True).start()


def _sweep_for_ever() -> None:
    pause = threading.Event()
    # Asking whether they work starts milvus-lite and loads the model, so that the first question need not wait.
    probes.report()
    while True:
        sweeping.run()
        connections.close_all()
        pause.wait(settings.SWEEP_SECONDS)


def _check_that_it_is_free(port: int) -> None:
    """Raise CommandError when somebody listens there: gunicorn would say so only below the logins, after five tries."""
    with socket.socket() as probe:
        # As gunicorn does; without it a port that was just closed looks taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CommandError(
                f"不能使用端口 {port} / Port {port} cannot be used: {error.strerror}. "
                "Stop what runs there, or take another: make run PORT=8001"
            ) from error


class Command(BaseCommand):
    help = "Serve the embedded default: admin, API and docs, with tasks in this process."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000)

    def handle(self, *args: Any, port: int, **options: Any) -> None:
        if not settings.TASKS_IN_PROCESS:
            raise CommandError(
                "A broker is configured, so tasks run in workers: serve with `gunicorn zhifu.wsgi` and start "
                "`celery -A zhifu worker -Q index`, `-Q agents`, `-Q memory`, `-Q maintenance`, and `celery -A zhifu "
                "beat`."
            )
        _check_that_it_is_free(port)
        call_command("migrate", interactive=False, verbosity=0)
        self._say_where(port, ensure_demo_shop())
        connections.close_all()
        _Server(port).run()

    def _say_where(self, port: int, shop: DemoShop) -> None:
        self.stdout.write(
            f"""智服 zhifu  http://127.0.0.1:{port}
  管理后台 admin     http://127.0.0.1:{port}/admin/
    商家 merchant    {MERCHANT} / {shop.merchant_password}
    平台 platform    {PLATFORM} / {shop.platform_password}
  接口文档 API docs  http://127.0.0.1:{port}/openapi/v1/docs
  供 README 的 curl 使用 for the README's curl:
    BASE=http://127.0.0.1:{port} STORE={shop.store.public_id} PASSWORD={shop.merchant_password}
    KEY={shop.store_key}
Ctrl-C 停止 stops."""
        )
