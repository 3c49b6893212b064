"""How the built-in model understands what a customer wishes for good: how to be answered, and where to be contacted.

A value counts when a clause asks for it lastingly (`from now on`), or plainly and about nothing else: every word of
it is known, none is a topic. Whatever could be somebody else's wish, or one for a single answer, is left alone: when in
doubt, nothing.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from config.offline_reading import Clause, Mention, Sentence, own_words, sentences

FIELDS = ("response_style", "language", "contact_channel")
WITHDRAWN = "withdrawn"

# Clauses about something else, and sentences about somebody else or a case that is only imagined.
_OFF_CLAUSE = frozenset({"TRANSLATE", "EITHER", "DENIED"})
_OFF_SENTENCE = frozenset({"IF", "REPORT", "DISOWNED"})
_FORCE = frozenset({"ASK", "WANT", "CAN", "LIKE", "PREFER", "URGE"})
_LASTING = frozenset({"FUTURE", "HABIT", "PREFER", "WHENEVER"})
_CONTACTING = frozenset({"CONTACT", "SEND"})
# A lasting wish may mention what it is about; with more than this it is a story.
_MOST_UNKNOWN = 12
_MOST_UNKNOWN_OF_HABIT = 4
_LONGEST_EVIDENCE = 160


@dataclass(frozen=True)
class _Said:
    """`value` is WITHDRAWN for a wish taken back; `of` is then the value it had, or None when that was not said."""

    value: str
    evidence: str
    of: str | None = None


@dataclass(frozen=True)
class _Message:
    text: str
    sentences: tuple[Sentence, ...]

    @cached_property
    def tags(self) -> frozenset[str]:
        return frozenset().union(*(sentence.tags for sentence in self.sentences))

    @cached_property
    def questions(self) -> int:
        return sum(sentence.is_question for sentence in self.sentences)

    def asks_beside(self, sentence: Sentence) -> bool:
        """Say whether another sentence is a question: what stands beside it may be meant for its answer."""
        return self.questions > sentence.is_question


@dataclass(frozen=True)
class _Place:
    """A clause and what stands around it."""

    message: _Message
    sentence: Sentence
    clause: Clause
    previous: Sentence | None

    @property
    def before(self) -> frozenset[str]:
        """The tags of the sentence before this one."""
        return self.previous.tags if self.previous else frozenset()

    @property
    def tags(self) -> frozenset[str]:
        return self.clause.tags

    @property
    def around(self) -> frozenset[str]:
        return self.sentence.tags

    @property
    def is_to_me(self) -> bool:
        """Whether what is asked for is to be done to the customer: `reply to me`, `跟我说`."""
        return "TO" in self.tags or "GENERAL" in self.tags or self.clause.follows("ANSWER", "ME") or self._is_done_to_me

    @property
    def _is_done_to_me(self) -> bool:
        return any("ME" in word.tags and word.tags & {"ANSWER", "CONTACT", "SEND"} for word in self.clause.words)


def stated(text: str) -> dict[str, str]:
    """Return field -> value and `<field>_evidence` -> the words of `text` that say so, for each lasting wish."""
    message = _Message(text, tuple(sentences(own_words(text))))
    said: dict[str, _Said] = {}
    previous: Sentence | None = None
    for sentence in message.sentences:
        for clause in sentence.clauses:
            _take(_Place(message, sentence, clause, previous), said)
        previous = sentence
    known = {field: said[field] for field in FIELDS if field in said}
    return {
        name: text
        for field, found in known.items()
        for name, text in ((field, found.value), (f"{field}_evidence", found.evidence))
    }


def _take(place: _Place, said: dict[str, _Said]) -> None:
    """Add what the clause says to `said`, over what was said before."""
    if _is_off(place):
        return
    for field in FIELDS:
        withdrawn = _withdrawn(place, field)
        wish = None if withdrawn else _wished(place, field, field in said)
        if wish:
            said[field] = _Said(wish.value, _evidence(place))
        elif withdrawn and not _keeps(said.get(field), withdrawn):
            said[field] = withdrawn


def _keeps(earlier: _Said | None, withdrawn: _Said) -> bool:
    """Say whether a wish of the same message stands although another value is taken back."""
    return earlier is not None and withdrawn.of is not None and earlier.value not in (withdrawn.of, WITHDRAWN)


# What rules out a clause, whatever it says.


def _is_off(place: _Place) -> bool:
    return bool(
        place.tags & _OFF_CLAUSE
        or ("QUESTION" in place.tags and not place.clause.is_relative)
        or place.around & _OFF_SENTENCE
        or _is_of_others(place)
        or _is_for_once(place)
        or _is_told(place)
        or (place.sentence.is_question and not _is_polite_request(place))
    )


def _is_of_others(place: _Place) -> bool:
    """Say whether it may be somebody else's wish. Who only stands beside it, as a reason, does not make it theirs."""
    if "THIRD" in place.tags:
        return True
    if "THIRD" not in place.around:
        is_set_apart = "ONCE" in place.before and "FUTURE" in place.tags
        return "THIRD" in place.before and not is_set_apart and not place.around & {"ME", "I", "MY"}
    if "FUTURE" not in place.around and "CANCEL" not in place.tags:
        return True
    others = [clause for clause in place.sentence.clauses if "THIRD" in clause.tags]
    if all(clause.start > place.clause.start for clause in others):
        return False
    return not place.is_to_me or any(_speaks(clause) for clause in others)


def _speaks(clause: Clause) -> bool:
    """Say whether somebody else in the clause says or wants something."""
    after = itertools.dropwhile(lambda word: "THIRD" not in word.tags, clause.words)
    return any(word.tags & {"ANSWER", "ASK", "WANT"} for word in after)


def _is_for_once(place: _Place) -> bool:
    return any("ONCE" in word.tags and "SOFT" not in word.tags for word in place.clause.words)


def _is_told(place: _Place) -> bool:
    """Say whether the clause tells what was, will be, or what the customer does: it asks for nothing."""
    has_force = bool(place.tags & _FORCE)
    if "WILL" in place.tags and not has_force:
        return True
    if "TENSE" in place.tags and "ASK" not in place.tags:
        return True
    if "PAST" in place.tags and "CANCEL" not in place.around:
        return True
    if place.tags & {"HABIT", "WEAK"} and "YOU" in place.tags and not place.around & (_FORCE | {"FUTURE"}):
        return True
    return _is_agent(place.clause)


def _is_agent(clause: Clause) -> bool:
    """Say whether the customer is who answers or writes: `我会用英文回复`, `I always reply in English`."""
    subject, before = False, frozenset[str]()
    for word in clause.words:
        is_object = bool((word.tags | before) & {"TO", "ANSWER", "CONTACT", "SEND"})
        before = word.tags
        if "I" in word.tags and not is_object and "PREFER" not in word.tags:
            subject = True
        elif subject and word.tags & {"USE", "ANSWER", "SEND", "WRITE"} and not word.tags & {"ME", "SHARED", "GENERAL"}:
            return True
        elif not word.tags & {"FUTURE", "HABIT", "WEAK", "WILL", "CAN", "FILL", "NOT"}:
            subject = False
    return False


def _is_polite_request(place: _Place) -> bool:
    """Say whether a question asks for something lasting, not only whether it is possible."""
    around = place.around
    if "QUESTION" in around and not {"FUTURE", "CAN"} <= place.tags:
        return False
    if "TAG" in around and not around & {"YOU"}:
        return True
    general = "GENERAL" in around and {"CAN", "ASK"} <= around
    lasting = bool(around & {"FUTURE", "HABIT"} and around & {"CAN", "TAG"})
    return general or lasting or {"FUTURE", "ASK"} <= around


# What is wished for.


def _wished(place: _Place, field: str, is_spoken_of: bool) -> Mention | None:
    """Return the value of `field` that the clause asks for, the last one it names."""
    if "UNSAVED" in place.tags:
        return None
    chosen = [mention for mention in place.clause.mentions if mention.field == field and mention.is_chosen]
    is_recounted = bool(place.tags & {"EARLIER", "CANCEL"}) and not place.tags & {"FUTURE", "REVISE"}
    if not chosen or is_recounted or (len(chosen) > 1 and "OR" in place.tags):
        return None
    mention = _outspoken(chosen)
    if "CLEAR" in mention.tags and is_spoken_of:
        return None
    if _is_lasting(place, field):
        if _LASTING_FORM[field](place, mention):
            return mention
    elif _is_plain(place) and _PLAIN_FORM[field](place, mention):
        return mention
    return mention if is_spoken_of and _is_instead(place) else None


def _is_instead(place: _Place) -> bool:
    """Say whether the clause names another value for what was just wished: `算了，中文吧`."""
    return place.clause.is_known and "MY" not in place.tags and bool(place.tags & {"REVISE", "USE", "ASK", "ANSWER"})


def _outspoken(chosen: list[Mention]) -> Mention:
    """Return the last value; that answers should be clear counts for less than how long they should be."""
    firm = [mention for mention in chosen if "CLEAR" not in mention.tags]
    return (firm or chosen)[-1]


def _is_lasting(place: _Place, field: str) -> bool:
    around, clause = place.around, place.clause
    if "FUTURE" in around and ("FUTURE" in place.tags or "ONCE" not in around):
        return True
    if place.tags & {"PREFER", "LIKE"}:
        return bool(around & {"ME", "I", "MY"}) and clause.is_known
    if "LISTED" in around and clause.is_known:
        return True
    if field == "contact_channel" and "WHENEVER" in around and "ONCE" not in around:
        return True
    if "REVISE" in place.tags and "EARLIER" in around:
        return True
    is_habit = "HABIT" in place.tags or (around & {"HABIT", "WEAK"} and "ONCE" not in around)
    return bool(is_habit) and _has_force(place)


def _has_force(place: _Place) -> bool:
    """Say whether a habit is asked for. `You always …` and `每次都…` only tell; `Always …` asks."""
    if place.around & (_FORCE if place.sentence.is_question else _FORCE - {"CAN"}):
        return True
    first = place.sentence.clauses[0].words[0]
    is_verb = first.tags & {"HABIT", "ANSWER", "CONTACT", "SEND", "USE"} and "GENERAL" not in first.tags
    return bool(is_verb) and place.message.text[first.start].isascii()


def _lasting_language(place: _Place, mention: Mention) -> bool:
    if "ANSWER" in place.around:
        return _is_about_answers(place) and bool(place.tags & {"USE", "ANSWER", "ASK"} or place.clause.is_known)
    if "TO" in place.tags and "USE" in place.tags and "THING" not in place.tags:
        return place.clause.unknown <= _MOST_UNKNOWN_OF_HABIT
    return (
        place.clause.is_known
        and ("WRITE" not in place.tags or "TO" in place.tags)
        and bool(place.tags & {"USE", "ASK", "PREFER", "FUTURE"} or _is_bare_request(place))
    )


def _is_bare_request(place: _Place) -> bool:
    """Say whether the words around ask for nothing else: `English, always, please`."""
    return "LISTED" in place.around or ("ASK" in place.around and place.sentence.is_known)


def _lasting_style(place: _Place, mention: Mention) -> bool:
    if "LOOSE" in mention.tags and not place.tags & {"DEGREE", "ASK"} and not _is_known_and_lasting(place):
        return False
    if "SKIMPY" in mention.tags and "ANSWER" not in place.around:
        return False
    if "ANSWER" in place.around:
        return _is_about_answers(place)
    return place.clause.is_known and "LIKE" not in place.tags


def _is_known_and_lasting(place: _Place) -> bool:
    return place.clause.is_known and {"FUTURE", "ANSWER"} <= place.tags


def _lasting_channel(place: _Place, mention: Mention) -> bool:
    if (
        place.clause.follows("CONTACT", "YOU")
        or place.clause.follows("SEND", "YOU")
        or _is_only_a_place(place, mention)
    ):
        return False
    is_bare = not place.tags & (_CONTACTING | {"USE", "ANSWER", "PREFER"})
    if is_bare and not (place.clause.is_known and ("NOT" not in place.tags or "FUTURE" in place.tags)):
        return False
    if not (place.around & (_LASTING - {"HABIT"}) or place.is_to_me or place.clause.is_known):
        return False
    if place.around & _CONTACTING:
        return place.clause.unknown <= _MOST_UNKNOWN and not _is_delivery(place)
    return place.clause.is_known and _is_contact_alone(place)


def _is_contact_alone(place: _Place) -> bool:
    """Say whether a clause that has no word of contacting is about that all the same: `以后短信吧`."""
    if "PREFER" in place.tags or ("ANSWER" in place.tags and (place.is_to_me or "WHENEVER" in place.around)):
        return True
    is_lasting = "FUTURE" in place.around or ("HABIT" in place.around and "ASK" in place.tags)
    return is_lasting and not (place.message.asks_beside(place.sentence) or "THING" in place.message.tags)


def _is_only_a_place(place: _Place, mention: Mention) -> bool:
    """Say whether `here` is only where something is or goes: it is a channel of what is said or written there."""
    return "HERE" in mention.tags and not place.tags & {"CONTACT", "ANSWER", "MESSAGE"}


def _is_delivery(place: _Place) -> bool:
    """Say whether it is a thing that is to be sent, not word about one: `email me about my orders`."""
    if "THING" not in place.tags or ("CONTACT" in place.tags and place.is_to_me):
        return False
    words = itertools.takewhile(lambda word: "THING" not in word.tags, place.clause.words)
    return not place.is_to_me or all("ABOUT" not in word.tags for word in words)


def _is_about_answers(place: _Place) -> bool:
    most = _MOST_UNKNOWN if "FUTURE" in place.around else _MOST_UNKNOWN_OF_HABIT
    return place.clause.unknown <= most and ("THING" not in place.tags or place.is_to_me)


# A plain imperative, which says nothing of how long.


def _is_plain(place: _Place) -> bool:
    """Say whether the clause asks for nothing but the manner, and nothing around it limits that."""
    if not place.clause.is_known or place.message.tags & {"ONCE", "TRANSLATE", "HELP"}:
        return False
    return place.is_to_me or (place.sentence.is_known and not place.message.asks_beside(place.sentence))


def _plain_language(place: _Place, mention: Mention) -> bool:
    if "ANSWER" in place.tags:
        return "WRITE" not in place.tags or "TO" in place.tags
    return "USE" in place.tags and not place.around & {"WRITE", "TOPIC=language"}


def _plain_style(place: _Place, mention: Mention) -> bool:
    if place.message.asks_beside(place.sentence) or place.clause.follows("GIVE", f"response_style={mention.value}"):
        return False
    if mention.tags & {"LOOSE", "CLEAR"} and "DEGREE" not in place.tags:
        return False
    if "SKIMPY" in mention.tags and "ANSWER" not in place.around:
        return False
    return bool(mention.tags & {"MANNER"} or place.tags & {"DEGREE", "MANNER"} or place.is_to_me)


def _plain_channel(place: _Place, mention: Mention) -> bool:
    if place.clause.follows("CONTACT", "YOU") or not place.tags & {"ME", "TO", "ASK"}:
        return False
    refused = any(other.refusal for other in place.sentence.mentions)
    return "CONTACT" in place.tags or (refused and "SEND" in place.tags)


_LASTING_FORM = {
    "response_style": _lasting_style,
    "language": _lasting_language,
    "contact_channel": _lasting_channel,
}
_PLAIN_FORM = {"response_style": _plain_style, "language": _plain_language, "contact_channel": _plain_channel}


# What is taken back.


def _withdrawn(place: _Place, field: str) -> _Said | None:
    if "THING" in place.around:
        return None
    if "UNSAVED" in place.tags:
        return _unsaved(place, field)
    for mention in place.clause.mentions:
        if mention.field == field and not mention.is_chosen and _is_ended(place, mention):
            return _Said(WITHDRAWN, _evidence(place), of=mention.value)
    is_about_earlier = bool({"EARLIER", "PREFER"} & (place.around | place.before))
    if "CANCEL" in place.tags and (is_about_earlier or ("ANSWER" in place.around and place.clause.is_known)):
        return _cancelled(place, field)
    return None


def _unsaved(place: _Place, field: str) -> _Said | None:
    """Return the wish that is not to be remembered: `不用记住我喜欢…`. `I don't remember` only tells."""
    if place.clause.follows("I", "UNSAVED"):
        return None
    named = [mention.value for mention in place.clause.mentions if mention.field == field]
    return _Said(WITHDRAWN, _evidence(place), of=named[-1]) if named else None


def _is_ended(place: _Place, mention: Mention) -> bool:
    """Say whether a refused value is one that was asked for before: `no longer`, `不用再…了`."""
    ended = "ENDED" in place.tags
    if mention.field == "contact_channel":
        is_for_good = "CONTACT" in place.tags or ("SEND" in place.tags and "FUTURE" in place.tags | place.before)
        if "ENDED" in mention.refusal and "ME" in place.tags and place.sentence.is_known:
            return bool(place.tags & _CONTACTING) and _is_for_good(place)
        is_over = "NEEDNOT" in mention.refusal or ("ENDED" in mention.refusal and "EARLIER" in place.around)
        return is_over and ended and is_for_good
    if mention.field == "response_style" and "ENDED" not in mention.refusal:
        return ended and bool(mention.refusal & {"NOT", "NEEDNOT"}) and bool(place.tags & {"SO", "ANSWER", "TOO"})
    return bool(mention.refusal & {"NOT", "NEEDNOT"}) and (ended or {"FUTURE", "NEEDNOT"} <= place.tags)


def _is_for_good(place: _Place) -> bool:
    """Say whether `别再` is said for good: `以后别再…`, `别再…了`. `Stop calling me!` may be about this one thing."""
    return "FUTURE" in place.tags or any("ENDED" in word.tags and "NOT" not in word.tags for word in place.clause.words)


def _cancelled(place: _Place, field: str) -> _Said | None:
    """Return the wish that a `forget what I said` speaks of, in its own clause or before it."""
    clauses = list(_up_to(place))
    if place.previous and "EARLIER" in place.before and not any(clause.mentions for clause in clauses):
        clauses = [*place.previous.clauses, *clauses]
    named = [mention.value for clause in clauses for mention in clause.mentions if mention.field == field]
    if named:
        return _Said(WITHDRAWN, _evidence(place), of=named[-1])
    is_topic = any(f"TOPIC={field}" in clause.tags for clause in clauses)
    return _Said(WITHDRAWN, _evidence(place)) if is_topic else None


def _evidence(place: _Place) -> str:
    """Return the clause, from where its sentence began to speak of this, when that is short enough."""
    cues = _LASTING | {"ANSWER", "CONTACT", "EARLIER"}
    start = next(clause.start for clause in _up_to(place) if clause.tags & cues or clause is place.clause)
    end = place.clause.end
    return place.message.text[start if end - start <= _LONGEST_EVIDENCE else place.clause.start : end]


def _up_to(place: _Place) -> Iterator[Clause]:
    return (clause for clause in place.sentence.clauses if clause.start <= place.clause.start)
