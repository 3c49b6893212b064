"""Fixtures of every test."""

from collections.abc import Iterator

import hypothesis
import pytest
from django.core.cache import caches
from pytest_django.fixtures import Settings

from knowledge import breaker
from tests.factories import Shop, make_shop
from tests.model_server import ModelServer

# These machines are noisy: how long a call takes says nothing about the product.
hypothesis.settings.register_profile("house", deadline=None)
hypothesis.settings.load_profile("house")


@pytest.fixture(autouse=True)
def empty_memory_store() -> None:
    """Rows are rolled back after each test, what was stored for them is not: nothing of an earlier test is left."""
    caches["memory"].clear()


@pytest.fixture(autouse=True)
def no_probe_outlives_its_test() -> Iterator[None]:
    """A test that takes Milvus away leaves no thread behind that still asks for it."""
    yield
    breaker.stop()


@pytest.fixture
def shop(db: None) -> Shop:
    """A tenant with one store, one admin member and one customer."""
    return make_shop()


@pytest.fixture
def other_shop(db: None) -> Shop:
    """Another tenant, of the same shape."""
    return make_shop()


@pytest.fixture(scope="session")
def running_model_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def model_server(running_model_server: ModelServer, settings: Settings) -> Iterator[ModelServer]:
    """A scripted chat server, asked as the model "scripted" unless the test sets CHAT_MODEL."""
    running_model_server.reset()
    settings.CHAT_MODEL = "scripted"
    settings.CHAT_BASE_URL = running_model_server.url
    settings.CHAT_API_KEY = "key of the test"
    settings.CHAT_TIMEOUT_SECONDS = 10.0
    yield running_model_server
    assert running_model_server.violations == []
