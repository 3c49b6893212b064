"""A breaker shared by all processes: a dead Milvus costs one request its timeout now and then, not each of them.

The cache remembers that an address failed. While it does, one caller in a few seconds may try; its success ends the
suspicion. A cache that is down suspects nobody.
"""

from django.core.cache import cache

# How long a failure is remembered, and how often somebody may try meanwhile.
_SUSPECT_SECONDS = 60
_TRY_EVERY_SECONDS = 3


def may_try(address: str) -> bool:
    """Say whether this caller should ask `address` now."""
    if cache.get(f"suspect:{address}") is None:
        return True
    return cache.add(f"trying:{address}", 1, _TRY_EVERY_SECONDS) is True


def failed(address: str) -> None:
    """Remember that `address` did not answer."""
    cache.set(f"suspect:{address}", 1, _SUSPECT_SECONDS)
    cache.add(f"trying:{address}", 1, _TRY_EVERY_SECONDS)


def answered(address: str) -> None:
    """Forget what `failed` remembered."""
    cache.delete_many([f"suspect:{address}", f"trying:{address}"])
