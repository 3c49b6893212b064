"""What MySQL says of candidates: which answer this caller right now, with their text, and how near each is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from django.db.models import Q

from knowledge import queries, words
from knowledge.encoders import Encoder
from knowledge.filters import Filters
from knowledge.ranking import Candidate
from knowledge.results import Passage, ScoreKind
from knowledge.selection import Weighed
from zhifu.scope import Scope


def verify(scope: Scope, filters: Filters, candidates: Sequence[Candidate]) -> list[tuple[Passage, Candidate]]:
    """Return those candidates that answer this caller right now, in one query, with text and title from MySQL."""
    known = {candidate.key: candidate for candidate in candidates}
    positions: dict[int, set[int]] = {}
    for document_id, _version, _build, position in known:
        positions.setdefault(document_id, set()).add(position)
    if not positions:
        return []
    of_candidates = reduce(
        or_,
        (
            Q(document_version__document_id=document_id, position__in=wanted)
            for document_id, wanted in positions.items()
        ),
    )
    passages = map(queries.passage_of, queries.live_chunks(scope, filters).filter(of_candidates).order_by())
    return [
        (passage, known[key])
        for passage in passages
        if (key := (passage.document_id, passage.version, passage.build, passage.position)) in known
    ]


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
        score = max(0.0, min(1.0, candidate.cosine))
        least = _least(encoders[passage.collection], score, chinese, passage) if threshold is None else threshold
        scored = replace(passage, score=score, score_kind=ScoreKind.COSINE)
        held = words.held_codes(f"{passage.title}\n{passage.text}", codes)
        weighed.append(Weighed(scored, candidate.weight, least, held))
    return weighed


def _least(encoder: Encoder, score: float, chinese: bool, passage: Passage) -> float:
    """Return what the encoder asks of this passage. Its language is looked at only where that decides."""
    low, high = sorted((encoder.threshold, encoder.threshold_chinese))
    if not low <= score < high:
        return low
    return encoder.threshold_chinese if chinese and words.is_chinese(passage.text) else encoder.threshold
