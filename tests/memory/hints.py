"""What the queue was told: which rows were hinted once a transaction was committed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

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
