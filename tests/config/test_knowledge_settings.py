"""The values of ZHIFU_KNOWLEDGE: read one by one, and said at the start when one is broken."""

import os
import subprocess
import sys

import pytest
from django.core import checks
from pytest_django.fixtures import Settings

from config.knowledge import KnowledgeSettings, knowledge_settings
from tests.architecture.test_layout import ROOT


def said() -> list[str]:
    return [str(message.msg) for message in checks.run_checks() if message.id == "config.W001"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"dense_weight": 5}, "dense_weight: Input should be less than or equal to 1"),
        ({"fusoin": "rrf"}, "fusoin: unknown; known are collections, similarity_threshold"),
        ({"collections": {"faq": {"collection": "faq", "top_k": 0}}}, "collections: Input should be greater"),
        (["a"], "it is no JSON object"),
        ("text", "it is no JSON object"),
    ],
)
def test_a_broken_value_is_named_at_the_start_and_its_default_used(
    settings: Settings, values: object, words: str
) -> None:
    settings.KNOWLEDGE = values
    [problem] = said()
    assert words in problem
    assert knowledge_settings() == KnowledgeSettings()


def test_good_values_are_used_and_nothing_is_said(settings: Settings) -> None:
    settings.KNOWLEDGE = {"fusion": "rrf", "similarity_threshold": 0}
    assert said() == []
    assert knowledge_settings() == KnowledgeSettings(fusion="rrf", similarity_threshold=0)
    assert knowledge_settings().similarity_threshold == 0


def test_what_is_broken_is_logged_once(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    settings.KNOWLEDGE = {"dense_weight": 17}
    for _ in range(3):
        knowledge_settings()
    assert [record.message for record in caplog.records].count(
        "ZHIFU_KNOWLEDGE has broken values, their defaults are used"
    ) == 1


def test_what_is_no_json_ends_the_start_with_the_name_of_the_variable() -> None:
    ended = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env=os.environ | {"ZHIFU_KNOWLEDGE": "{bad", "DJANGO_SETTINGS_MODULE": "zhifu.settings"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode != 0
    assert "ZHIFU_KNOWLEDGE is no JSON" in ended.stderr
