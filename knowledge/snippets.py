"""A piece of a passage around what was asked for."""

import itertools
import re
import unicodedata

_WORD = re.compile(r"[0-9A-Za-z]+|[^\W_]")


def snippet(text: str, query: str, size: int) -> str:
    """Return `text`, or when it is longer than `size` characters, the part of it that shares most with `query`.

    A cut end is marked by an ellipsis, which counts.
    """
    if len(text) <= size:
        return text
    room = size - 2
    start = _densest(text, _terms(query), room)
    end = min(len(text), start + room)
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def _terms(query: str) -> list[str]:
    """Return the query's Latin words and numbers, and its other characters in pairs."""
    signs: list[str] = _WORD.findall(_folded(query))
    pairs = [first + second for first, second in itertools.pairwise(signs) if len(first) == len(second) == 1]
    return list(dict.fromkeys([sign for sign in signs if len(sign) > 1] + pairs))


def _densest(text: str, terms: list[str], room: int) -> int:
    """Return where a window of `room` characters holds the most terms; a little is left to read before the first."""
    folded = _folded(text)
    places = sorted(match.start() for term in terms for match in re.finditer(re.escape(term), folded))
    best, most = 0, 0
    for index, place in enumerate(places):
        held = sum(1 for other in places[index:] if other < place + room)
        if held > most:
            best, most = place, held
    return max(0, min(best - room // 6, len(text) - room)) if most else 0


def _folded(text: str) -> str:
    """Return `text` without regard to case and width, character by character, so that places stay the same."""
    return "".join(_fold(character) for character in text)


def _fold(character: str) -> str:
    folded = unicodedata.normalize("NFKC", character).lower()
    return folded if len(folded) == 1 else character
