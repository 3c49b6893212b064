"""Whether a wish that a model reports is borne out by the customer's own words. Any model may invent; this may not.

Only what survives here can be remembered: a value of the closed lists, and a span of the message that names it, in a
clause that is the customer's own, about themselves, that asks for it, and not only for the moment.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from config import offline_vocabulary
from memory import cues
from memory.communication import FIELDS, canonical
from memory.own_words import OwnWords, Place, Span

WITHDRAWN = "withdrawn"
# Longer than any message may be: a longer "span" of one is none.
_LONGEST = 4000
_LONGEST_NAME = 40
# Marks that models put around what they copy.
_MARKS = " \t\r\n\u3000\"'“”‘’「」『』`"
# Who takes back more than this in one message plays with it.
_MOST_WITHDRAWALS = 12
_CONTRARY = {"concise": "detailed", "detailed": "concise"}


@dataclass(frozen=True)
class Wish:
    """One field, and the value it is to have; None: the customer takes an earlier wish back, and `of` is then which
    values they name as taken back: empty when they name none, and mean whatever it was."""

    field: str
    value: str | None
    of: frozenset[str] = frozenset()


def accepted(message: str, stated: dict[str, Any]) -> list[Wish]:
    """Return the wishes among what a model `stated` (values beside `<field>_evidence`) that `message` bears out."""
    own = OwnWords(message)
    return [wish for field in FIELDS if (wish := _accepted_field(own, field, stated)) is not None]


def _accepted_field(own: OwnWords, field: str, stated: dict[str, Any]) -> Wish | None:
    value, evidence = stated.get(field), stated.get(f"{field}_evidence")
    if not isinstance(value, str) or not isinstance(evidence, str) or len(evidence) > _LONGEST:
        return None
    span = Span(own.message, evidence.strip(_MARKS))
    if value.strip().lower() == WITHDRAWN:
        return _withdrawal(own, field, span)
    known = canonical(field, value) or _named(field, value)
    if known is None:
        return None
    return next((Wish(field, code) for code in _or_less(known) if _is_wished(own, field, code, span)), None)


def _named(field: str, value: str) -> str | None:
    """Return the code of a value that a model gives by its name: `English`, `日本語`."""
    name = offline_vocabulary.normal(value.strip()[:_LONGEST_NAME])
    return next((code for code, cue in cues.CUES[field].items() if cue.fullmatch(name)), None)


def _or_less(value: str) -> tuple[str, ...]:
    """Return the values that `value` may come down to: of a script that nobody named, the language is left."""
    return (value, "zh") if value in {"zh-Hans", "zh-Hant"} else (value,)


def _is_wished(own: OwnWords, field: str, value: str, span: Span) -> bool:
    """Say whether the span names `value` in some place where the customer wishes it for good."""
    named = own.places(cues.CUES[field][value])
    if any(span.holds(cue) and own.is_lasting_wish(cue) and not own.is_refused(cue) for cue in named):
        return True
    complained = own.places(cues.COMPLAINTS[field][value]) if field in cues.COMPLAINTS else ()
    return any(span.holds(cue) and own.is_lasting_wish(cue) for cue in complained)


def _withdrawal(own: OwnWords, field: str, span: Span) -> Wish | None:
    """Return what the customer takes back of this field, when the span is about that."""
    clauses = dict.fromkeys(own.clause_at(taken) for taken in own.places(cues.TAKEN_BACK))
    found = [
        part
        for clause in list(clauses)[-_MOST_WITHDRAWALS:]
        if _is_own_withdrawal(own, clause)
        for part in _spoken_of(own, field, clause)
        if _is_about(own, field, span, clause) or _is_about(own, field, span, part)
    ]
    return Wish(field, None, frozenset().union(*(_values_in(own, field, part) for part in found))) if found else None


def _is_own_withdrawal(own: OwnWords, clause: Place) -> bool:
    is_of_a_thing = own.has(cues.THINGS, clause) and not own.has(cues.ABOUT, clause)
    is_for_the_moment = own.is_for_the_moment(clause) and not own.has(cues.EARLIER_WISHES, own.sentence_at(clause))
    taken = next(own.places(cues.TAKEN_BACK, clause))
    return not (is_of_a_thing or is_for_the_moment or own.is_of_others(taken) or own.is_only_asked(clause))


def _spoken_of(own: OwnWords, field: str, clause: Place) -> Iterator[Place]:
    """Yield the parts that tell what the clause takes back: itself, else what stands before it in its sentence and the
    sentence before, when an earlier wish is spoken of there."""
    sentence = own.sentence_at(clause)
    is_of_any = own.has(cues.EARLIER_WISHES, clause) and not any(_speaks_of(own, name, clause) for name in FIELDS)
    if _speaks_of(own, field, clause) or is_of_any:
        yield clause
    for part in (Place(sentence.start, clause.start), own.sentence_before(sentence)):
        if own.has(cues.EARLIER_WISHES, part) and _speaks_of(own, field, part):
            yield part


def _speaks_of(own: OwnWords, field: str, part: Place) -> bool:
    return any(own.has(cue, part) for cue in _cues_of(field))


def _is_about(own: OwnWords, field: str, span: Span, part: Place) -> bool:
    about = (*_cues_of(field), cues.EARLIER_WISHES, cues.TAKEN_BACK)
    return any(span.holds(place) for cue in about for place in own.places(cue, part))


def _values_in(own: OwnWords, field: str, part: Place) -> frozenset[str]:
    """Return the values that a part names as taken back. Not what it names as what is wished instead; and who no
    longer wants it long-winded takes back that it is to be detailed."""
    named = {
        value
        for value, cue in cues.CUES[field].items()
        if not all(own.is_named_instead(place) for place in own.places(cue, part))
    }
    is_recalled = own.has(cues.EARLIER_WISHES, part)
    complained = {
        value if is_recalled else _CONTRARY[value]
        for value, cue in cues.COMPLAINTS.get(field, {}).items()
        if own.has(cue, part)
    }
    return frozenset(named or complained)


def _cues_of(field: str) -> Iterator[re.Pattern[str]]:
    yield from cues.CUES[field].values()
    yield from cues.COMPLAINTS.get(field, {}).values()
    yield cues.TOPICS[field]
