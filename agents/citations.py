"""Checking an answer against the passages it cites, without a model.

Each cited sentence is held against its passages: every number it states must be in them, and its wording must be
theirs, literally or by overlap. Where script differs, wording cannot be compared and only numbers are. Meaning is
not judged: beyond 支持退货 for 不支持退货, a sentence that twists its source in the source's own words passes.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from agents import markers, numbers
from agents.markers import Marker
from config import wording

# What share of a sentence's words and character pairs must be in the passages.
_ENOUGH = 0.4
# Of several passages cited by one sentence, each must carry at least this much.
_SOMETHING = 0.15
# Shorter than this, being contained proves nothing.
_SHORTEST_LITERAL = 4
# A quotation stands for the sentence when it is most of it.
_MOSTLY_QUOTE = 0.6
_QUOTED = re.compile(r"[“「『\"]([^“”「」『』\"]+)[”」』\"]")
_NEGATIONS = tuple("不没未无非别勿")
_END = re.compile(r"[。！？!?；;\n]|\.(?=\s|$)")
_LIST_MARK = re.compile(r"^\s*(?:[-*•>#]+|\d{1,2}[.、)）])\s*")
# What introduces a list of sources: its markers cite the sentence before.
_SOURCES_LABEL = re.compile(
    r"^\W*(?:来源|资料来源|参考资料?|参考来源|依据|出处|详见|参见|sources?|references?|see)\W*$", re.IGNORECASE
)
# "根据[K1]，…": its marker cites what follows.
_LEAD_IN = re.compile(
    r"^(?:根据|按照|依据|依照|参照|据)(?:以上|上述|相关|已发布的?)?(?:资料|文档|信息|说明|内容|规定)?$"
    r"|^(?:according to|based on|as stated in|per)(?: the)?(?: published)?(?: material| document| source)?$",
    re.IGNORECASE,
)


class Support(TextChoices):
    """How a passage bears out a sentence that cites it, weakest last."""

    LITERAL = "literal", _("原文")
    OVERLAP = "overlap", _("措辞相近")
    UNCHECKED = "unchecked", _("语言不同，未核对措辞")


_STRENGTH = [Support.UNCHECKED, Support.OVERLAP, Support.LITERAL]


@dataclass(frozen=True)
class ShownPassage:
    """A passage as the model saw it, under its marker."""

    marker: str
    document_id: int
    version: int
    position: int
    title: str
    text: str

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ShownPassage":
        """Return the passage kept in a tool message of AgentRun.messages."""
        return cls(
            marker=values["marker"],
            document_id=values["document_id"],
            version=values["version"],
            position=values["position"],
            title=values["title"],
            text=values["text"],
        )

    @property
    def key(self) -> tuple[int, int, int]:
        """What makes two shown passages one source."""
        return (self.document_id, self.version, self.position)


@dataclass(frozen=True)
class CitedSource:
    """A source of the answer, under the number the customer sees. `quote` is a literal part of the passage."""

    number: int
    document_id: int
    version: int
    position: int
    quote: str
    support: Support


@dataclass(frozen=True)
class CheckedAnswer:
    """`text` shows sources as [1], [2]; `unsupported` are the sentences that their passages do not bear out."""

    text: str
    sources: tuple[CitedSource, ...]
    unsupported: tuple[str, ...]


@dataclass(frozen=True)
class _Finding:
    passage: ShownPassage
    quote: str
    support: Support


def check(text: str, passages: Iterable[ShownPassage]) -> CheckedAnswer:
    """Return the answer as it may be shown, its sources numbered by first use, and what is not borne out.

    Unknown markers are removed. A source cited by several sentences has the weakest support among them, and a quote
    that holds the words of all. An answer that cites nothing has no sources.
    """
    known = {passage.marker: passage for passage in passages}
    text = _with_known_markers(text, known)
    found: dict[tuple[int, int, int], _Finding] = {}
    kept: dict[int, list[ShownPassage]] = {}
    unsupported: list[str] = []
    for marker, sentence in _cited_sentences(text):
        cited = _distinct(known[name] for name in marker.names if name in known)
        findings = _findings(sentence, cited)
        if not findings:
            unsupported.append(sentence)
        kept[marker.start] = [finding.passage for finding in findings]
        for finding in findings:
            key = finding.passage.key
            found[key] = _joined(found[key], finding) if key in found else finding
    order = {key: number for number, key in enumerate(found, start=1)}

    def shown(marker: Marker) -> str:
        return "".join(f"[{order[passage.key]}]" for passage in kept.get(marker.start, ()))

    return CheckedAnswer(
        text=markers.replace(text, shown).strip(),
        sources=tuple(_source(order[key], finding) for key, finding in found.items()),
        unsupported=tuple(unsupported),
    )


def _with_known_markers(text: str, known: dict[str, ShownPassage]) -> str:
    """Return the text without markers that name nothing: before the check, or they would cut the sentence they stand
    in, and half of it would go unchecked."""
    text = markers.written_as_text(text, [_whole(passage) for passage in known.values()])
    return markers.replace(
        text, lambda marker: text[marker.start : marker.end] if known.keys() & set(marker.names) else ""
    )


def _cited_sentences(text: str) -> Iterable[tuple[Marker, str]]:
    """Yield each group of markers with the sentence, or the part of one, that it stands behind (or, at the start
    of a line, before)."""
    groups = markers.find(text)
    ends = [marker.start for marker in groups[1:]] + [len(text)]
    previous_end, previous = 0, ""
    for marker, next_start in zip(groups, ends, strict=False):
        previous = _sentence_of(text[previous_end : marker.start], text[marker.end : next_start]) or previous
        yield marker, previous
        previous_end = marker.end


def _sentence_of(before: str, after: str) -> str:
    """Return the sentence a marker between these two texts cites; nothing when it follows another marker."""
    *_, line_before = before.split("\n")
    if _SOURCES_LABEL.match(line_before):
        return _last_sentence(before.removesuffix(line_before))
    if _telling(line_before) and not _LEAD_IN.match(_last_sentence(before)):
        return _last_sentence(before)
    return _first_sentence(after.partition("\n")[0]) or _last_sentence(before)


def _last_sentence(text: str) -> str:
    stripped = text.rstrip().rstrip("。！？!?；;.")
    start = max((match.end() for match in _END.finditer(stripped)), default=0)
    return _telling(text[start:])


def _first_sentence(text: str) -> str:
    end = _END.search(text)
    return _telling(text[: end.end()] if end else text)


def _telling(text: str) -> str:
    """Return the text without list marks and blanks; nothing when no letter or digit is in it."""
    bare = _LIST_MARK.sub("", text).strip().strip("，,、").strip()
    return bare if any(character.isalnum() for character in bare) else ""


def _distinct(passages: Iterable[ShownPassage]) -> list[ShownPassage]:
    return list({passage.key: passage for passage in passages}.values())


def _findings(sentence: str, cited: list[ShownPassage]) -> list[_Finding]:
    """Return what the cited passages bear out; nothing when together they do not."""
    stated = numbers.stated(sentence)
    if not wording.features(sentence) or not stated <= numbers.found("\n".join(map(_whole, cited))):
        return []
    together = _support(sentence, cited)
    if together is None:
        return []
    findings = []
    for passage in cited:
        support = _support(sentence, [passage])
        if support is None and len(cited) > 1 and _overlap(sentence, [passage]) >= _SOMETHING:
            support = Support.OVERLAP
        if support is not None:
            findings.append(_Finding(passage, _quote(sentence, passage), support))
    return findings


def _support(sentence: str, passages: list[ShownPassage]) -> Support | None:
    if any(_is_literal(sentence, passage.text) for passage in passages):
        return Support.LITERAL
    if any(_is_denied(sentence, passage.text) for passage in passages):
        return None
    if _overlap(sentence, passages) >= _ENOUGH:
        return Support.OVERLAP
    if all(_script(sentence) != _script(passage.text) for passage in passages):
        return Support.UNCHECKED
    return None


def _is_literal(sentence: str, text: str) -> bool:
    wanted, inside = _bare(sentence), _bare(text)
    if _contains(inside, wanted):
        return True
    quotations = [_bare(quotation) for quotation in _QUOTED.findall(sentence)]
    return any(
        len(quotation) >= _MOSTLY_QUOTE * len(wanted) and _contains(inside, quotation) for quotation in quotations
    )


def _is_denied(sentence: str, text: str) -> bool:
    """Say whether the passage has these very words, but only as the tail of their denial."""
    wanted, inside = _bare(sentence), _bare(text)
    return len(wanted) >= _SHORTEST_LITERAL and wanted in inside and not _contains(inside, wanted)


def _contains(inside: str, wanted: str) -> bool:
    """Say whether `wanted` is in a text, and not as the tail of its denial: 支持退货 in 不支持退货."""
    if len(wanted) < _SHORTEST_LITERAL:
        return False
    position = inside.find(wanted)
    while position > 0 and inside[position - 1] in _NEGATIONS:
        position = inside.find(wanted, position + 1)
    return position >= 0


def _overlap(sentence: str, passages: list[ShownPassage]) -> float:
    wanted = wording.features(_half_width(sentence))
    present: set[str] = set()
    for passage in passages:
        present |= wording.features(_half_width(_whole(passage)))
    return len(wanted & present) / len(wanted) if wanted else 0.0


def _quote(sentence: str, passage: ShownPassage) -> str:
    """Return the sentence of the passage that shares most with `sentence`; numbers decide between scripts."""
    wanted, figures = wording.features(_half_width(sentence)), numbers.stated(sentence)

    def likeness(candidate: str) -> tuple[int, int]:
        return (
            len(wanted & wording.features(_half_width(candidate))),
            len(figures & numbers.found(candidate)),
        )

    # A passage that was shown in part has a mark where it was cut, which is not in the source.
    return max(wording.sentences(passage.text), key=likeness, default=passage.text).strip("…") or passage.text


def _joined(earlier: _Finding, later: _Finding) -> _Finding:
    """Return what two sentences make of one passage: the weaker support, and the stretch that holds both quotes."""
    support = min(earlier.support, later.support, key=_STRENGTH.index)
    text = earlier.passage.text
    starts = [text.find(earlier.quote), text.find(later.quote)]
    ends = [starts[0] + len(earlier.quote), starts[1] + len(later.quote)]
    return _Finding(earlier.passage, text[min(starts) : max(ends)], support)


def _source(number: int, finding: _Finding) -> CitedSource:
    passage = finding.passage
    return CitedSource(number, passage.document_id, passage.version, passage.position, finding.quote, finding.support)


def _whole(passage: ShownPassage) -> str:
    return f"{passage.title}\n{passage.text}"


def _bare(text: str) -> str:
    """Return letters and digits only, in one width and case."""
    return "".join(character for character in _half_width(text).casefold() if character.isalnum())


def _half_width(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _script(text: str) -> str:
    """Return the script most of a text is written in: that of its letters, by Unicode name."""
    counts: dict[str, int] = {}
    for character in _half_width(text):
        if character.isalpha():
            script = unicodedata.name(character, "unknown").split(" ", 1)[0]
            counts[script] = counts.get(script, 0) + (3 if script == "CJK" else 1)
    if counts.get("HIRAGANA") or counts.get("KATAKANA"):
        return "JAPANESE"
    return max(counts, key=lambda script: counts[script], default="none")
