"""Whether a wish that a model reports is borne out by the customer's own words. Any model may invent; this may not.

Only what survives here can be remembered: a value of the closed lists, and a span of the message that carries it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from memory.communication import FIELDS, canonical

WITHDRAWN = "withdrawn"
# Fewer characters carry nothing: a particle, a digit.
_SHORTEST = 2
# What limits a wish to the moment, unless the same sentence says that it is to last.
_MOMENT = re.compile(
    r"[这這](?:一)?(?:次|回|遍|个问题|個問題|单|單|条|條|封|趟)|今[次回]|今天|今日|呢(?:次|回|條|条)|暂时|暫時|先用|"
    r"\b(?:this (?:time|once|question|order|one)|just (?:this )?once|for (?:now|today)|today|right now)\b",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"以后|以後|今后|今後|往后|往後|之后都|之後都|从现在|從現在|由而家|一直|永远|永遠|每次|一律|都(?:用|要|请|請)|"
    r"\b(?:from now on|from here on|from today|always|in (?:the )?future|going forward|every time|henceforth)\b",
    re.IGNORECASE,
)
# A longer quotation is what somebody said, not the speaker's own wish.
_QUOTED = re.compile(
    '“([^”]{6,})”|「([^」]{6,})」|『([^』]{6,})』|"([^"\n]{6,})"|《([^》]{6,})》|```(.+?)```', re.DOTALL
)
_SENTENCE_END = re.compile(r"[。！？!?；;\n]|\.(?=\s|$)")


@dataclass(frozen=True)
class Wish:
    """One field, and the value it is to have; None: the customer takes an earlier wish back."""

    field: str
    value: str | None


def accepted(message: str, stated: dict[str, Any]) -> list[Wish]:
    """Return the wishes among what a model `stated` (values beside `<field>_evidence`) that `message` bears out."""
    return [wish for field in FIELDS if (wish := _accepted_field(message, field, stated)) is not None]


def _accepted_field(message: str, field: str, stated: dict[str, Any]) -> Wish | None:
    value, evidence = stated.get(field), stated.get(f"{field}_evidence")
    if not isinstance(value, str) or not isinstance(evidence, str) or not _carries(message, evidence.strip()):
        return None
    if value == WITHDRAWN:
        return Wish(field, None)
    known = canonical(field, value)
    return None if known is None else Wish(field, known)


def _carries(message: str, evidence: str) -> bool:
    """Say whether some place of the message where `evidence` stands is the speaker's own lasting word."""
    if len(evidence) < _SHORTEST:
        return False
    quoted = [match.span() for match in _QUOTED.finditer(message)]
    return any(
        not _is_inside(start, start + len(evidence), quoted) and _lasts(_sentences_at(message, start, evidence))
        for start in _places(message, evidence)
    )


def _places(message: str, evidence: str) -> Iterable[int]:
    start = message.find(evidence)
    while start >= 0:
        yield start
        start = message.find(evidence, start + 1)


def _is_inside(start: int, end: int, spans: list[tuple[int, int]]) -> bool:
    return any(first < start and end < last for first, last in spans)


def _sentences_at(message: str, start: int, evidence: str) -> str:
    """Return the evidence with the rest of the sentences it begins and ends in."""
    before = [match.end() for match in _SENTENCE_END.finditer(message, 0, start)]
    after = _SENTENCE_END.search(message, start + len(evidence))
    return message[before[-1] if before else 0 : after.start() if after else len(message)]


def _lasts(sentence: str) -> bool:
    return bool(_LASTING.search(sentence)) or not _MOMENT.search(sentence)
