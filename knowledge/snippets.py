"""A piece of a passage around what was asked for."""

import bisect
import itertools
import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"[0-9A-Za-z]+|[^\W_]")
# Where a sentence ends, with the marks and blanks that belong to it; where a part of one does.
_SENTENCE_END = re.compile(r"(?:[。！？!?；;…]+|\.(?=\s))[”’」』）)\"]*\s*|\n\s*")
# Of a question as long as a page; the rest would say the same.
_MOST_TERMS = 64
_CLAUSE_END = re.compile(r"[，,、：:]\s*")


def snippet(text: str, query: str, size: int) -> str:
    """Return `text`, or when it is longer than `size` characters, the sentences of it that share most with `query`.

    A sentence is cut only when it alone does not fit, then between its parts if it can be: without its beginning it may
    say the opposite. A cut end is marked by an ellipsis, which counts.
    """
    if len(text) <= size:
        return text
    room = size - 2
    start = _start(text, _densest(text, _terms(query), room), room)
    end = _end(text, start, room)
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def _start(text: str, place: int, room: int) -> int:
    """Return where to begin so that `place` is shown: with its sentence, or earlier if the rest of the text fits."""
    for ends in (_SENTENCE_END, _CLAUSE_END):
        borders = [0, *(match.end() for match in ends.finditer(text))]
        start = max(border for border in borders if border <= place)
        end = min((border for border in borders if border > place), default=len(text))
        if end - start <= room or place - start <= room // 2:
            return min((border for border in borders if len(text) - room <= border <= start), default=start)
    return max(0, place - room // 6)


def _end(text: str, start: int, room: int) -> int:
    if start + room >= len(text):
        return len(text)
    for ends in (_SENTENCE_END, _CLAUSE_END):
        borders = [match.end() for match in ends.finditer(text, start) if match.end() <= start + room]
        if borders:
            return borders[-1]
    return start + room


def _terms(query: str) -> list[str]:
    """Return the query's Latin words and numbers, and its other characters in pairs."""
    signs: list[str] = _WORD.findall(_folded(query))
    pairs = [first + second for first, second in itertools.pairwise(signs) if len(first) == len(second) == 1]
    return list(dict.fromkeys([sign for sign in signs if len(sign) > 1] + pairs))[:_MOST_TERMS]


def _densest(text: str, terms: list[str], room: int) -> int:
    """Return the first term of the window of `room` characters that holds the most; 0 without any."""
    folded = _folded(text)
    places = sorted(match.start() for term in terms for match in re.finditer(re.escape(term), folded))
    best, most = 0, 0
    for index, place in enumerate(places):
        held = bisect.bisect_left(places, place + room) - index
        if held > most:
            best, most = place, held
    return best


def _folded(text: str) -> str:
    """Return `text` without regard to case and width, character by character, so that places stay the same."""
    return "".join(_fold(character) for character in text)


@lru_cache(maxsize=20_000)
def _fold(character: str) -> str:
    folded = unicodedata.normalize("NFKC", character).lower()
    return folded if len(folded) == 1 else character
