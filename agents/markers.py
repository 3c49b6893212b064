"""The markers by which an answer cites: finding them in every form models write, and replacing them.

Inside code, inline or in a block, brackets are code: markers there are neither read nor changed.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# Blanks are counted and every separator is at least one character: no text makes these expressions slow.
_BLANKS = r"[ \t]{0,2}"
_OPEN, _CLOSE = r"[\[［【]", r"[\]］】]"
_K = "[KkＫｋ]"
_DIGITS = "[0-9０-９]{1,4}"
_TO = "[-–—~～至]"
_ITEM = rf"\^?(?:{_K}{_BLANKS})?-?{_DIGITS}(?:{_BLANKS}{_TO}{_BLANKS}{_K}?{_BLANKS}{_DIGITS})?"
_AND = rf"(?:{_BLANKS}[,，、;；&和]{_BLANKS}|[ \t]{{1,2}})"
_ITEMS = rf"{_ITEM}(?:{_AND}{_ITEM}){{0,30}}"
_LABEL = rf"(?:(?:来源|资料|参考|引用|source|ref){_BLANKS}[:：]?{_BLANKS})?"
_TAIL = r"(?:†[^\]］】\n]{0,40})?"
_LINK = r"(?:\((?:https?://|#)[^()\s]{0,300}\))?"
# [K1], 【Ｋ１】, [[K1]], [K1, K2], [K1-K3], [来源：K1], (K1); and numbers alone, which no marker of ours is.
_MARKER = re.compile(
    rf"{_OPEN}{{1,2}}{_BLANKS}{_LABEL}(?P<items>{_ITEMS}){_BLANKS}{_TAIL}{_CLOSE}{{1,2}}{_LINK}"
    rf"|[(（]{_BLANKS}(?P<round>{_K}{_DIGITS}(?:{_AND}{_K}{_DIGITS}){{0,30}}){_BLANKS}[)）]",
    re.IGNORECASE,
)
_NAMED = re.compile(
    rf"(?P<k>{_K})?{_BLANKS}-?(?P<first>{_DIGITS})(?:{_BLANKS}{_TO}{_BLANKS}{_K}?{_BLANKS}(?P<last>{_DIGITS}))?"
)
# A marker on which the output limit fell.
_CUT = re.compile(rf"{_OPEN}{{1,2}}[\^KkＫｋ0-9０-９,，、;； -]{{0,40}}\Z")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_CLOSING = re.compile(r"[ \t]*[)）]")
_LONGEST_RANGE = 20
# Brackets of a document in an answer: told apart by what stands around them, shown so that nobody takes them for ours.
_CONTEXT = 4
_TEXT_BRACKETS = str.maketrans("[]［］【】()（）", "〔〕〔〕〔〕〔〕〔〕")
# [2026] is a year or a number of its own.
_YEAR_DIGITS = 4


@dataclass(frozen=True)
class Marker:
    """Where a group of neighbouring markers stands, and which of ours it names ("K3"), in order; possibly none."""

    start: int
    end: int
    names: tuple[str, ...]


def written_as_text(text: str, sources: Sequence[str]) -> str:
    """Return `text` with brackets that it took over from one of `sources` made 〔〕: [10] in a price list is no
    marker, and must not look like one. `find` and `replace` leave them alone."""
    sources = [_normal(source) for source in sources]
    result, position = "", 0
    for match in _matches(text):
        if not _is_taken_over(text, match, sources):
            continue
        result += text[position : match.start()] + match[0].translate(_TEXT_BRACKETS)
        position = match.end()
    return result + text[position:]


def _is_taken_over(text: str, match: re.Match[str], sources: Sequence[str]) -> bool:
    """Say whether a source has these very brackets with the same characters before, or after, them. [K1] in square
    brackets is always a marker of ours; (K1) may be the name of a keyboard."""
    if match["items"] and _names_ours(match):
        return False
    mark = match[0]
    before, after = text[: match.start()][-_CONTEXT:], text[match.end() :][:_CONTEXT]
    return any(
        (before.strip() and _normal(before + mark) in source) or (after.strip() and _normal(mark + after) in source)
        for source in sources
    )


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def find(text: str) -> list[Marker]:
    """Return the groups of markers outside code, in order."""
    groups: list[Marker] = []
    for marker in _single(text):
        if groups and not text[groups[-1].end : marker.start].strip(" \t,、"):
            before = groups.pop()
            names = tuple(dict.fromkeys((*before.names, *marker.names)))
            groups.append(Marker(before.start, marker.end, names))
        else:
            groups.append(marker)
    return groups


def replace(text: str, shown: Callable[[Marker], str]) -> str:
    """Return `text` with what `shown` gives in place of each group; an empty one leaves no blank or bracket behind."""
    result, position = "", 0
    for marker in find(text):
        result += text[position : marker.start]
        position = marker.end
        replacement = shown(marker)
        if not replacement:
            result, position = _closed_up(result, text, position)
        result += replacement
    return result + _without_cut(text, position)


def _closed_up(before: str, text: str, position: int) -> tuple[str, int]:
    before = before.rstrip(" \t")
    following = _CLOSING.match(text, position)
    if before.endswith(("(", "（")) and following:
        return before[:-1].rstrip(" \t"), following.end()
    return before, position


def _without_cut(text: str, position: int) -> str:
    cut = _CUT.search(text, position)
    if cut is None or _is_inside(cut.start(), _code(text)):
        return text[position:]
    return text[position : cut.start()]


def _single(text: str) -> Iterator[Marker]:
    for match in _matches(text):
        named = _NAMED.finditer(match["items"] or match["round"])
        yield Marker(match.start(), match.end(), tuple(name for item in named for name in _names(item)))


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Yield what looks like a marker, outside code; years do not."""
    code = _code(text)
    for match in _MARKER.finditer(text):
        numbers = _NAMED.finditer(match["items"] or match["round"])
        is_year = not _names_ours(match) and any(len(item["first"]) >= _YEAR_DIGITS for item in numbers)
        if not is_year and not _is_inside(match.start(), code):
            yield match


def _names_ours(match: re.Match[str]) -> bool:
    return any(item["k"] for item in _NAMED.finditer(match["items"] or match["round"]))


def _code(text: str) -> list[tuple[int, int]]:
    return [code.span() for code in _CODE.finditer(text)]


def _is_inside(position: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= position < end for start, end in spans)


def _names(item: re.Match[str]) -> list[str]:
    if not item["k"]:
        return []
    first = int(item["first"])
    last = int(item["last"] or first)
    return [f"K{number}" for number in range(first, min(last, first + _LONGEST_RANGE) + 1)]
