"""A memory store that a test may break."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from tests.memory.outages import OwnStore, cached_at


@pytest.fixture
def own_store(settings: Settings) -> Iterator[OwnStore]:
    """A Redis of this test's own, running, in the place of the one that all tests share."""
    store = OwnStore()
    store.start()
    settings.CACHES = cached_at(store.url)
    yield store
    store.remove()
