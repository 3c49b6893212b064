"""What MySQL says of candidates: which answer this caller right now, with their text, and how near each is."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from django.db.models import F, Lookup, Q
from django.db.models.sql.compiler import SQLCompiler

from knowledge import queries, words
from knowledge.chunking import embedded_text
from knowledge.encoders import Encoder
from knowledge.filters import Filters
from knowledge.ranking import Candidate, Key
from knowledge.results import Passage, ScoreKind
from knowledge.selection import Weighed
from zhifu.scope import Scope


def verify(scope: Scope, filters: Filters, candidates: Sequence[Candidate]) -> list[tuple[Passage, Candidate]]:
    """Return those candidates that answer this caller right now, in one query, with text and title from MySQL."""
    known = {candidate.key: candidate for candidate in candidates}
    if not known:
        return []
    passages = map(queries.passage_of, queries.live_chunks(scope, filters).filter(_at(known)).order_by())
    return [(passage, known[key]) for passage in passages if (key := (*passage.version_key, passage.position)) in known]


def _at(candidates: Iterable[Key]) -> Q:
    """Return the condition that a chunk lies where one of the candidates does.

    The documents are named by themselves too: that is what the database looks up by.
    """
    documents: dict[int, set[int]] = {}
    for document_id, _version, _build, position in candidates:
        documents.setdefault(position, set()).add(document_id)
    return Q(document_version__document__in=set().union(*documents.values())) & Q(_Places(documents))


class _Places(Lookup):
    """`position = 0 AND document_id IN (1, 2) OR position = 1 AND ...`; put together by Django from lookups it would
    take longer than the whole query. Grouped by position there is little to compare, documents being many and short."""

    prepare_rhs = False

    def __init__(self, documents: Mapping[int, Collection[int]]) -> None:
        super().__init__(F("position"), F("document_version__document_id"))
        self.documents = documents

    def as_sql(self, compiler: SQLCompiler, *_: Any, **__: Any) -> tuple[str, tuple[int, ...]]:
        (position, _), (document, _) = compiler.compile(self.lhs), compiler.compile(self.rhs)
        one = f"({position} = %s AND {document} IN ({{}}))"
        terms = [one.format(", ".join(["%s"] * len(wanted))) for wanted in self.documents.values()]
        values = chain.from_iterable((at, *wanted) for at, wanted in self.documents.items())
        return f"({' OR '.join(terms)})", tuple(values)


def weigh(
    query: str,
    verified: Sequence[tuple[Passage, Candidate]],
    encoders: Mapping[str, Encoder],
    threshold: float | None,
) -> list[Weighed]:
    """Give each passage its score, max(0, cosine), and the score it must reach: `threshold`, or without one what the
    encoder of its collection asks for."""
    chinese = words.is_chinese(query)
    codes = words.codes(query)
    weighed = []
    for passage, candidate in verified:
        score = min(1.0, candidate.cosine) if candidate.cosine > 0 else 0.0
        least = _least(encoders[passage.collection], score, chinese, passage) if threshold is None else threshold
        scored = replace(passage, score=score, score_kind=ScoreKind.COSINE)
        held = words.held_codes(embedded_text(passage.title, passage.text), codes)
        weighed.append(Weighed(scored, candidate.weight, least, held))
    return weighed


def _least(encoder: Encoder, score: float, chinese: bool, passage: Passage) -> float:
    """Return what the encoder asks of this passage. Its language is looked at only where that decides."""
    low, high = sorted((encoder.threshold, encoder.threshold_chinese))
    if not low <= score < high:
        return low
    return encoder.threshold_chinese if chinese and words.is_chinese(passage.text) else encoder.threshold
