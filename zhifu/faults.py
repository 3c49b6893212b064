"""Named fault points, so that tests can stop a worker at every step. They do nothing in production.

In a test process: `with faults.at("index.before_flip", action):`. In a worker process: the environment
variable ZHIFU_FAULTS="index.before_flip=kill" (a real kill -9) or "agents.before_commit=sleep:5", several
separated by commas.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings

_actions: dict[str, Callable[[], None]] = {}


class Killed(BaseException):
    """Stands for the sudden death of a worker: no `except Exception` may swallow it."""


def point(name: str) -> None:
    """Run the fault armed for `name`, if any."""
    if _actions:
        action = _actions.get(name)
        if action is not None:
            action()
    if settings.FAULTS:
        _from_environment(name)


@contextmanager
def at(name: str, action: Callable[[], None]) -> Iterator[None]:
    """Arm `action` for the point `name` while the block runs."""
    _actions[name] = action
    try:
        yield
    finally:
        _actions.pop(name, None)


def kill() -> None:
    """Die here, as far as this process can."""
    raise Killed


def _from_environment(name: str) -> None:
    for part in settings.FAULTS.split(","):
        point_name, _, action = part.partition("=")
        if point_name != name:
            continue
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action.startswith("sleep:"):
            time.sleep(float(action.removeprefix("sleep:")))
