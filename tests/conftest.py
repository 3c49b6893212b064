"""Fixtures of every test."""

import pytest

from tests.factories import Shop, make_shop


@pytest.fixture
def shop(db: None) -> Shop:
    """A tenant with one store, one admin member and one customer."""
    return make_shop()


@pytest.fixture
def other_shop(db: None) -> Shop:
    """Another tenant, of the same shape."""
    return make_shop()
