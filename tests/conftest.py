"""Fixtures of every test."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from tests.factories import Shop, make_shop
from tests.model_server import ModelServer


@pytest.fixture
def shop(db: None) -> Shop:
    """A tenant with one store, one admin member and one customer."""
    return make_shop()


@pytest.fixture
def other_shop(db: None) -> Shop:
    """Another tenant, of the same shape."""
    return make_shop()


@pytest.fixture
def model_server(settings: Settings) -> Iterator[ModelServer]:
    """A chat server of this test's own, asked as the model "scripted" unless the test sets CHAT_MODEL."""
    with ModelServer() as server:
        settings.CHAT_MODEL = "scripted"
        settings.CHAT_BASE_URL = server.url
        settings.CHAT_API_KEY = "key of the test"
        settings.CHAT_TIMEOUT_SECONDS = 10.0
        yield server
    assert server.violations == []
