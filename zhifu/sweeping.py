"""The regular round: jobs to send again, and whatever the apps ask for by `register`."""

import logging
from collections.abc import Callable

from zhifu import jobs

logger = logging.getLogger(__name__)

_rounds: dict[str, Callable[[], int]] = {"jobs": jobs.sweep}


def register(name: str, step: Callable[[], int]) -> None:
    """Add a step to the round; apps call this from AppConfig.ready(). `step` returns how much it did."""
    _rounds[name] = step


def run() -> None:
    """Run every step; a failing one does not keep the others from running."""
    for name, step in _rounds.items():
        try:
            done = step()
        except Exception:
            logger.exception("sweep step failed", extra={"step": name})
            continue
        if done:
            logger.info("sweep", extra={"step": name, "done": done})
