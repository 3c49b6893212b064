"""Cutting texts: nothing lost, every offset exact, whatever the text looks like."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge import chunking
from zhifu.errors import Invalid

FAMILY = "👨‍👩‍👧‍👦"
PIECES = [
    "退货须在签收后七天内提出。",
    "键盘怎么清洁？",
    "Really?! ",
    "Version 3.5 costs $1.20. ",
    "e\u0301a\u0308",
    FAMILY,
    "𠀀𠮷",
    "\r\n",
    "\r\n\r\n",
    "\n\n\n",
    "　　",
    " ",
    "\u200b",
    "---",
    "a" * 70,
    "重复" * 30,
    "，",
    "”",
    "{{x}} %s ${}",
]
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=250).map("".join),
    st.text(max_size=3000),
    st.tuples(st.text(min_size=1, max_size=6), st.integers(1, 3000)).map(lambda pair: (pair[0] * pair[1])[:12000]),
)


def check(text: str) -> list[chunking.Span]:
    """Check every promise of split for `text`, which it must accept."""
    spans = chunking.split(text)
    covered = set()
    for span in spans:
        assert 0 <= span.start < span.end <= len(text)
        assert span.end - span.start <= chunking.CHUNK_SIZE
        assert not chunking.is_blank(text[span.start : span.end])
        covered.update(range(span.start, span.end))
    lost = [index for index, character in enumerate(text) if index not in covered and not chunking.is_blank(character)]
    assert not lost
    for before, after in itertools.pairwise(spans):
        assert before.start < after.start
        assert before.end < after.end
        assert before.end - after.start <= chunking.CHUNK_OVERLAP
    return spans


@settings(max_examples=150, deadline=None)
@given(texts)
def test_no_visible_character_is_lost_and_no_chunk_is_blank_or_too_long(text: str) -> None:
    try:
        check(text)
    except Invalid as refusal:
        assert refusal.code == "TOO_MANY_CHUNKS" or chunking.is_blank(text)  # noqa: PT017  # both are right answers


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("短", 1),
        ("一" * 500, 1),
        ("一" * 600, 2),
        (FAMILY * 100, 2),
        ("e\u0301" * 400, 2),
        ("第一行。\r\n第二行。\r\n" * 60, 2),
        ("x" * 20_000, 45),
        ("重复的一句话。" * 1000, 16),
        ("\n" * 700 + "可见" + "\n" * 700, 1),
        ("---", 1),
    ],
)
def test_awkward_texts_are_cut_into_the_expected_number_of_chunks(text: str, chunks: int) -> None:
    assert len(check(text)) == chunks


def test_offsets_in_a_text_that_repeats_itself_belong_to_the_right_repetition() -> None:
    text = "同一句话。" * 300
    starts = [span.start for span in check(text)]
    assert starts == sorted(set(starts))
    assert check(text)[-1].end == len(text)


def test_sentences_stay_whole_and_keep_their_punctuation() -> None:
    sentences = ["“能退货吗？”", "七天内可以！", "版本 3.5 的价格是 12.50 元。", "Please ask us first. ", "谢谢…"] * 30
    text = "".join(sentences)
    ends = set(itertools.accumulate(len(sentence) for sentence in sentences))
    for span in check(text):
        assert span.end in ends
        assert span.start in ends | {0}


def test_paragraphs_are_preferred_to_sentences() -> None:
    first, second = "甲。" * 150 + "\n\n", "乙。" * 150
    spans = check(first + second)
    assert [(span.start, span.end) for span in spans] == [(0, 302), (302, 602)]


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "\u200b\ufeff", "　\t", "\u200d"])
def test_a_text_without_visible_characters_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="empty") as refusal:
        chunking.split(text)
    assert refusal.value.code == "INVALID"


def test_64_chunks_are_accepted_and_65_refused() -> None:
    paragraph = "字" * 498 + "\n\n"
    assert len(check(paragraph * 64)) == 64
    with pytest.raises(Invalid) as refusal:
        chunking.split(paragraph * 65)
    assert refusal.value.code == "TOO_MANY_CHUNKS"
    assert refusal.value.details == {"chunks": 65, "limit": 64}


def test_a_flood_of_line_ends_is_refused_quickly() -> None:
    with pytest.raises(Invalid) as refusal:
        chunking.split("可见" + "\n" * 99_000)
    assert refusal.value.code == "TOO_MANY_CHUNKS"


def test_the_title_goes_before_what_is_embedded() -> None:
    assert chunking.embedded_text("退货", "七天。") == "退货\n七天。"
