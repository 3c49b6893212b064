"""What the queue was told: which rows were hinted once a transaction was committed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from queue import Empty
from typing import Any

from celery import current_app

Capture = Callable[[], AbstractContextManager[list[Any]]]


@contextmanager
def sent(capture: Capture, task: str = "memory.run_extraction") -> Iterator[list[int]]:
    """Yield a list that holds, after the block, the rows hinted to `task` in it, in order.

    `capture` is the fixture django_capture_on_commit_callbacks.
    """
    rows: list[int] = []
    with capture() as callbacks:
        yield rows
    for callback in callbacks:
        name, arguments = callback.args
        if name == task:
            rows += arguments


def taken(queue: str) -> list[tuple[str, int]]:
    """Take what lies in a queue of the test's own broker: (task, row), in order."""
    found = []
    with (
        current_app.connection_for_read() as broker,
        broker.SimpleQueue(queue, no_ack=True) as waiting,
        suppress(Empty),
    ):
        while True:
            message = waiting.get_nowait()
            (row,) = message.payload[0] or (0,)
            found.append((message.headers["task"], row))
    return found
