import pytest

from tests.admin.estate import Estate, furnish
from tests.factories import Shop


@pytest.fixture
def ours(shop: Shop) -> Estate:
    return furnish(shop, "alphaone")


@pytest.fixture
def theirs(other_shop: Shop) -> Estate:
    return furnish(other_shop, "betatwo")
