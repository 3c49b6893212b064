"""Several calls of Milvus at once, within one time, behind the breaker."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from django.conf import settings

from knowledge import breaker, fallback
from zhifu.errors import Unavailable

# Of one process, for all its callers: eight calls of a search over all collections wait on Milvus together.
_THREADS = 64
# Each call ends by its own timeout; this much later nobody waits for it any more.
_GRACE_SECONDS = 0.2

Before = TypeVar("Before")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Begun(Generic[Answer]):
    """Calls under way."""

    asks: Sequence[Callable[[], Answer]]
    futures: Sequence[Future[Answer]]

    def cancel(self) -> None:
        """Give up those that nobody has begun yet."""
        for future in self.futures:
            future.cancel()


def begin(asks: Sequence[Callable[[], Answer]]) -> Begun[Answer]:
    """Begin calls whose answers `all_at_once` waits for; its threads never touch the database."""
    return Begun(asks, [_pool(os.getpid()).submit(ask) for ask in asks])


def all_at_once(
    begun: Begun[Before], asks: Sequence[Callable[[], Answer]], *, timeout: float, seconds_left: float
) -> tuple[list[Before], list[Answer]]:
    """Run the calls in parallel, beside those that have begun, and return the answers of both, in order.

    Each call takes at most `timeout`. Raises what the first failed one raised, and Unavailable at once while Milvus is
    suspected, or when `seconds_left` are over.
    """
    patience = timeout + _GRACE_SECONDS
    again: list[Callable[[], Any]] = [*begun.asks, *asks]
    try:
        answers = breaker.guarded(
            _address(),
            lambda: _wait([*begun.futures, *begin(asks).futures], min(patience, seconds_left), patience),
            # What failed is what is tried again, with the whole time that it may take.
            probe=lambda: _wait(begin(again).futures, patience, patience),
        )
    except Exception:
        begun.cancel()
        raise
    return answers[: len(begun.asks)], answers[len(begun.asks) :]


def refuse_if_suspected() -> None:
    """Raise Unavailable while Milvus is suspected: what a search does before it asks would be in vain."""
    breaker.refuse_if_suspected(_address())


def _wait(futures: Sequence[Future[Any]], seconds: float, patience: float) -> list[Any]:
    done, late = wait(futures, timeout=max(0.0, seconds), return_when=FIRST_EXCEPTION)
    # Those that can still be cancelled were never asked: the queue was here.
    never_asked = [future for future in late if future.cancel()]
    answers = [future.result() for future in futures if future in done]
    if late:
        kind = breaker.Overloaded if never_asked or seconds < patience else Unavailable
        raise kind("向量库响应超时 / The vector store took too long.", code="MILVUS_UNAVAILABLE")
    return answers


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One small pool per process: a forked child has none of its parent's threads."""
    pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix=f"search-{process}")
    # Who asks Milvus will have to do without it one day, and should not begin to read then.
    pool.submit(fallback.read_dictionary)
    return pool


def _address() -> str:
    return settings.MILVUS_URL or str(settings.VAR_PATH)
