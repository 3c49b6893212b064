"""The running product, and people who use it over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories import Shop, make_shop
from tests.processes.system import System


@pytest.fixture
def system(transactional_db: None, tmp_path: Path) -> Iterator[System]:
    """Nothing started yet; whatever a test starts is stopped after it."""
    system = System(tmp_path)
    yield system
    system.stop()


@pytest.fixture
def merchant(transactional_db: None) -> Shop:
    """A shop whose rows other processes can see."""
    return make_shop()
