"""Sending work by name, once the transaction is committed.

A message is a hint that a row is ready. When it cannot be sent (broker down), nothing is lost: the sweeper
finds the row and sends again.
"""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import connections, transaction

logger = logging.getLogger(__name__)


def send(task: str, *args: Any) -> None:
    """Send `task` with JSON-able `args` after the current transaction commits; a broker that is down is only logged."""
    transaction.on_commit(partial(_deliver, task, args), robust=True)


def _deliver(task: str, args: tuple[Any, ...]) -> None:
    if settings.TASKS_IN_PROCESS:
        _executor(settings.TASK_QUEUES[task]).submit(_run_here, task, args)
        return
    try:
        current_app.send_task(task, args=args, queue=settings.TASK_QUEUES[task], retry=False)
    except Exception:  # The broker's client raises many kinds; whichever it is, the sweeper sends later.
        logger.warning("message not sent, the sweeper will", extra={"task": task, "args_sent": args}, exc_info=True)


def ping() -> None:
    """Reach the broker. Raises what its client raises when it does not answer; without a broker nothing is asked."""
    if settings.TASKS_IN_PROCESS:
        return
    with current_app.connection_for_write() as broker:
        broker.connect()


_executors: dict[str, ThreadPoolExecutor] = {}
_making = threading.Lock()
_loading = threading.Lock()


def _executor(queue: str) -> ThreadPoolExecutor:
    """One thread per queue and process: the embedded default runs one job of a kind at a time."""
    with _making:
        if queue not in _executors:
            _executors[queue] = ThreadPoolExecutor(max_workers=1, thread_name_prefix=queue)
        return _executors[queue]


def _load_tasks() -> None:
    """Import every app's tasks, as a worker does when it starts; the threads that come meanwhile wait for it."""
    with _loading:
        _load_once()


@cache
def _load_once() -> None:
    current_app.loader.import_default_modules()


def _run_here(task: str, args: tuple[Any, ...]) -> None:
    try:
        _load_tasks()
        current_app.tasks[task].run(*args)
    except Exception:
        logger.exception("task failed", extra={"task": task, "args_sent": args})
    finally:
        connections.close_all()
