"""A breaker shared by all processes: a dead Milvus costs one request its timeout now and then, not each of them.

The cache remembers that an address failed. While it does, one caller in a few seconds may try; its success ends the
suspicion. A cache that is down suspects nobody.
"""

from collections.abc import Callable
from typing import TypeVar

from django.core.cache import cache

from zhifu.errors import Unavailable

# How long a failure is remembered, and how often somebody may try meanwhile.
_SUSPECT_SECONDS = 60
_TRY_EVERY_SECONDS = 3

Answer = TypeVar("Answer")


def guarded(address: str, ask: Callable[[], Answer], refusal: Unavailable) -> Answer:
    """Return what `ask` returns. While `address` is suspected only one caller in a few seconds may ask, the others
    get `refusal` at once. Any Unavailable that `ask` raises, other than Overloaded, makes the address suspect.
    """
    suspect, trying = f"suspect:{address}", f"trying:{address}"
    is_suspected = cache.get(suspect) is not None
    if is_suspected and cache.add(trying, 1, _TRY_EVERY_SECONDS) is not True:
        raise refusal
    try:
        answer = ask()
    except Overloaded:
        raise
    except Unavailable:
        cache.set(suspect, 1, _SUSPECT_SECONDS)
        cache.add(trying, 1, _TRY_EVERY_SECONDS)
        raise
    if is_suspected:
        cache.delete_many([suspect, trying])
    return answer


class Overloaded(Unavailable):
    """This process had no room to ask: that says nothing about who would have been asked."""
