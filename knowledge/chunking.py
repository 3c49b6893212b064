"""Cutting a text into passages that can be cited: exact offsets, nothing lost."""

import unicodedata
from dataclasses import dataclass
from functools import cache

from langchain_text_splitters import RecursiveCharacterTextSplitter

from zhifu.errors import Invalid

CHUNK_SIZE = 500
CHUNK_OVERLAP = 50
MAX_CHUNKS = 64

# Coarse to fine. Punctuation of one weight is one separator, so that "？" cuts as readily as "。". Closing quotes
# and blanks belong to the sentence before them; a full stop ends one only before a blank ("3.5" and "v1.2" stay whole).
_SEPARATORS = [
    r"(?:\r?\n[ \t\u3000]*){2,}",
    r"\r?\n|\r|\u2028|\u2029",
    r"(?:[。！？!?…]+|\.(?=\s))[”’」』）)\"]*[ \t\u3000]*",
    r"[；;]",
    r"[，,、：:]",
    r"\s",
    "",
]


@dataclass(frozen=True)
class Span:
    """Half-open range of characters in the source text."""

    start: int
    end: int


def split(text: str) -> list[Span]:
    """Return the passages of `text`, in order: every visible character is in one, and none is blank.

    A passage has at most CHUNK_SIZE characters and begins at most CHUNK_OVERLAP before the end of the one before.
    Raises Invalid for a text without visible characters, and with code TOO_MANY_CHUNKS beyond MAX_CHUNKS.
    """
    if is_blank(text):
        raise Invalid("正文不能为空 / The text is empty.", field="source_text")
    chunks = _splitter().split_text(text)
    # Before anything that costs more for each chunk; blank ones count, so that a flood of line ends ends here too.
    if len(chunks) > MAX_CHUNKS:
        raise Invalid(
            f"正文过长：分成 {len(chunks)} 段，最多 {MAX_CHUNKS} 段，请拆成几篇文档 / "
            f"The text makes {len(chunks)} chunks, at most {MAX_CHUNKS} are allowed; split it into several documents.",
            code="TOO_MANY_CHUNKS",
            chunks=len(chunks),
            limit=MAX_CHUNKS,
        )
    return [span for span in _locate(text, chunks) if not is_blank(text[span.start : span.end])]


def embedded_text(title: str, chunk_text: str) -> str:
    """Return what is embedded for a passage: its title gives a passage from the middle its subject."""
    return f"{title}\n{chunk_text}"


def is_blank(text: str) -> bool:
    """Say whether nothing in `text` is visible: blanks, line ends, zero-width and other control characters."""
    return all(character.isspace() or unicodedata.category(character) in ("Cc", "Cf") for character in text)


@cache
def _splitter() -> RecursiveCharacterTextSplitter:
    return RecursiveCharacterTextSplitter(
        separators=_SEPARATORS,
        is_separator_regex=True,
        chunk_size=CHUNK_SIZE,
        chunk_overlap=CHUNK_OVERLAP,
        keep_separator="end",
        strip_whitespace=False,
    )


def _locate(text: str, chunks: list[str]) -> list[Span]:
    """Return where each chunk lies. The splitter's own start index cannot be trusted, and in a text that repeats
    itself the first match may be the wrong one: a place counts only if all later chunks follow from it to the end.
    """
    hopeless: set[tuple[int, int]] = set()

    def place(number: int, end: int) -> list[Span] | None:
        """Return the spans of `chunks[number:]`, the chunk before having ended at `end`; None if there are none."""
        if number == len(chunks):
            return [] if end == len(text) else None
        chunk = chunks[number]
        earliest = max(0, end - CHUNK_OVERLAP) if number else 0
        for start in range(earliest, end + 1):
            span = Span(start, start + len(chunk))
            if span.end <= end or (number, span.end) in hopeless or not text.startswith(chunk, start):
                continue
            rest = place(number + 1, span.end)
            if rest is not None:
                return [span, *rest]
            hopeless.add((number, span.end))
        return None

    spans = place(0, 0)
    if spans is None:
        raise AssertionError("the splitter lost characters")
    return spans
