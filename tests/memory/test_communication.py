"""The closed schema: which codes there are, what counts after how long, and what another schema left behind."""

import logging
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.communication import (
    FIELDS,
    LEAST_CONFIDENCE,
    Communication,
    Language,
    canonical,
    canonical_language,
    confidence_now,
)

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("zh", "zh"),
        ("ZH", "zh"),
        ("zh-Hans", "zh-Hans"),
        ("zh-hant", "zh-Hant"),
        ("zh-CN", "zh-Hans"),
        ("zh-SG", "zh-Hans"),
        ("zh-TW", "zh-Hant"),
        ("zh-HK", "zh-Hant"),
        ("zh-MO", "zh-Hant"),
        ("zh_TW", "zh-Hant"),
        ("zh-Hant-HK", "zh-Hant"),
        ("zh-Hans-HK", "zh-Hans"),
        ("zh-yue", "yue"),
        ("zh-yue-HK", "yue"),
        ("yue-Hant-HK", "yue"),
        ("cmn", "zh"),
        ("cmn-Hans", "zh-Hans"),
        ("en-US", "en"),
        ("en-GB-oed", "en"),
        ("pt-BR", "pt"),
        ("in", "id"),
        ("id-ID", "id"),
        (" fr ", "fr"),
        ("zh-x-unknown", "zh"),
        ("", None),
        ("-", None),
        ("english", None),
        ("中文", None),
        ("xx", None),
        ("e", None),
        ("withdrawn", None),
    ],
)
def test_a_tag_comes_down_to_a_code(tag: str, code: str | None) -> None:
    assert canonical_language(tag) == code


@given(st.text())
def test_whatever_is_said_becomes_a_code_or_nothing(text: str) -> None:
    for field in FIELDS:
        code = canonical(field, text)
        assert code is None or canonical(field, code) == code
    assert canonical_language(text) in {None, *Language.values}


@pytest.mark.parametrize("value", [None, 1, True, ["en"], {"language": "en"}, 1.5])
def test_only_text_is_a_value(value: object) -> None:
    assert {canonical(field, value) for field in FIELDS} == {None}


# --- confidence ---
def test_confidence_halves_every_sixty_days() -> None:
    for half_lives, left in ((0, 1.0), (1, 0.5), (2, 0.25), (3, 0.125)):
        assert confidence_now(1.0, NOON - timedelta(days=60 * half_lives), NOON) == pytest.approx(left)


@pytest.mark.parametrize(("confidence", "last_day"), [(1.0, 60), (0.9, 50)])
def test_a_value_is_used_for_as_many_days_as_it_is_sure(confidence: float, last_day: int) -> None:
    assert confidence_now(confidence, NOON - timedelta(days=last_day), NOON) >= LEAST_CONFIDENCE
    assert confidence_now(confidence, NOON - timedelta(days=last_day + 1), NOON) < LEAST_CONFIDENCE


def test_a_clock_that_runs_ahead_makes_nothing_surer() -> None:
    assert confidence_now(0.9, NOON + timedelta(days=30), NOON) == 0.9


@given(st.floats(0, 1), st.integers(0, 5000), st.integers(0, 5000))
def test_confidence_never_grows_with_age(confidence: float, younger: int, more: int) -> None:
    now, then = (confidence_now(confidence, NOON - timedelta(hours=hours), NOON) for hours in (younger, younger + more))
    assert 0 <= then <= now <= confidence


# --- stored content ---
def test_what_is_stored_is_what_is_known() -> None:
    known = Communication(language="en")
    assert known.stored() == {"language": "en"}
    assert Communication.from_stored(known.stored()) == known
    assert (bool(known), bool(Communication())) == (True, False)
    assert Communication("concise", "en", "sms").only({"language", "unheard_of"}) == known


@pytest.mark.parametrize(
    ("stored", "known", "skipped"),
    [
        ({"language": "en", "shoe_size": "43"}, {"language": "en"}, 1),
        ({"language": "klingon", "response_style": "concise"}, {"response_style": "concise"}, 1),
        ({"language": ["en"], "contact_channel": {"x": 1}, "张三": "李四"}, {}, 3),
        ({"language": "zh-TW"}, {"language": "zh-Hant"}, 0),
        ({"language": None, "response_style": None}, {}, 0),
        ({}, {}, 0),
    ],
)
def test_another_schema_is_skipped_and_counted_and_its_words_are_not_logged(
    stored: dict[str, object], known: dict[str, str], skipped: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        assert Communication.from_stored(stored).stored() == known
    assert [record.skipped for record in caplog.records] == ([skipped] if skipped else [])
    written = str([vars(record) for record in caplog.records])
    for word in ("shoe_size", "klingon", "张三", "李四"):
        assert word not in written
