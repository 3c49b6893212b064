"""The acceptance checks themselves, run against the built-in model served over the OpenAI protocol; and that they
can fail."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from tests.acceptance import checks
from tests.acceptance.conftest import VARIABLES
from tests.factories import Shop
from tests.model_server import ModelServer

ROOT = Path(__file__).resolve().parents[2]
CHECKS = [
    checks.a_published_document_is_found_and_cited,
    checks.a_wish_is_remembered_and_followed_in_another_conversation,
    checks.a_memory_cleared_while_the_model_reads_stays_empty,
    checks.a_document_revoked_while_the_model_answers_is_not_cited,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_built_in_model_passes_over_http(
    shop: Shop, model_server: ModelServer, settings: Settings, check: Callable[[Shop], None]
) -> None:
    settings.CHAT_MODEL = "extractive"
    check(shop)
    assert len(model_server.requests) >= 2


@pytest.mark.parametrize("check", [CHECKS[0], CHECKS[1], CHECKS[3]], ids=lambda check: check.__name__)
def test_a_model_that_does_nothing_asked_of_it_fails(
    shop: Shop, model_server: ModelServer, check: Callable[[Shop], None]
) -> None:
    """It never searches, remembers nothing and answers in Chinese whatever the prompt says."""
    model_server.say(*["没有相关内容。"] * 9)
    with pytest.raises((AssertionError, ValueError)):
        check(shop)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_an_endpoint_that_is_away_fails(
    shop: Shop, model_server: ModelServer, settings: Settings, check: Callable[[Shop], None]
) -> None:
    settings.CHAT_MODEL = "http-500"
    with pytest.raises((AssertionError, ValueError)):
        check(shop)
    assert model_server.requests


@pytest.mark.parametrize("missing", VARIABLES.values())
def test_without_an_endpoint_it_stops_before_anything_else_and_says_what_to_set(tmp_path: Path, missing: str) -> None:
    named = dict.fromkeys(VARIABLES.values(), "given") | {missing: ""}
    made = subprocess.run(
        ["make", "--no-print-directory", "acceptance", f"VENV={tmp_path / 'none'}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]} | named,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert made.returncode != 0
    assert "set ZHIFU_ACCEPTANCE_MODEL, ZHIFU_ACCEPTANCE_BASE_URL" in made.stdout
    assert made.stdout.strip().endswith(f"missing here: {missing}")
    assert list(tmp_path.iterdir()) == []
