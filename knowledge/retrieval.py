"""Search: what is published right now and fits a question, for one caller.

The indexes only propose. What comes back is read from MySQL after they answered, in one query that checks what is
live, whose it is and who may see it. Out of reach, they are replaced by keywords in the database, marked as degraded.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_

from django.conf import settings
from django.db.models import Q
from prometheus_client import Counter

from config.knowledge import KnowledgeSettings, knowledge_settings
from knowledge import calls, embedding, fallback, queries, ranking, targets, vectors
from knowledge.encoders import Encoder, get_encoder
from knowledge.filters import NO_FILTERS, Filters
from knowledge.models import Audience, Collection, IndexTarget
from knowledge.ranking import Candidate, Hit
from knowledge.results import DegradationReason, Passage, ScoreKind, SearchResult
from zhifu import credentials, faults
from zhifu.errors import Invalid, Unavailable
from zhifu.scope import Scope

logger = logging.getLogger(__name__)

MAX_QUERY = 2000
MAX_LIMIT = 20
MAX_INTENTS = 4
# How many each leg proposes per collection; and once more, deeper, when verification removed too many.
_DEPTH = 30
_DEEPER = 120
# How many candidates are looked up in MySQL in one query.
_VERIFIED_AT_ONCE = 64
# How many may come from a collection that no intent names, when all are searched.
_TOP_K_WITHOUT_INTENT = 5

DEGRADED = Counter("zhifu_search_degraded", "Searches answered by keywords in the database.", ["reason"])


@dataclass(frozen=True)
class _Request:
    """A checked question; `top_k` says which collections are searched and how many each may give; none: nothing can
    match."""

    scope: Scope
    query: str
    filters: Filters
    top_k: dict[str, int]
    limit: int
    deadline: float
    config: KnowledgeSettings

    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()


@dataclass(frozen=True)
class _Proposed:
    """What both legs proposed; `is_full`: a leg gave as many as it was asked for, so deeper there may be more."""

    candidates: list[Candidate]
    is_full: bool


def search(
    scope: Scope,
    query: str,
    *,
    intents: Sequence[str] = (),
    filters: Filters = NO_FILTERS,
    limit: int = 5,
    deadline: float | None = None,
) -> SearchResult:
    """Return the passages that answer `query` in the caller's store and match `filters`, best first.

    `deadline` is a moment of time.monotonic(), at most settings.SEARCH_DEADLINE_SECONDS from now. Raises Forbidden,
    Invalid, Unauthenticated (the caller lost access meanwhile), DimensionMismatch, and Unavailable when the vector
    store or the embedder is out of reach and the fallback is switched off.
    """
    scope.require("knowledge:query")
    request = _checked(scope, query, intents, filters, limit, deadline)
    if not request.top_k:
        return SearchResult(query=query, passages=(), searched_collections=())
    chosen = targets.active_targets(list(request.top_k))
    try:
        calls.refuse_if_suspected()
    except Unavailable as failure:
        return _degraded(request, DegradationReason.MILVUS_UNAVAILABLE, failure)
    try:
        meanings = _meanings(request, chosen)
    except Unavailable as failure:
        return _degraded(request, DegradationReason.EMBEDDING_UNAVAILABLE, failure)
    try:
        return _by_meaning(request, chosen, meanings)
    except Unavailable as failure:
        return _degraded(request, DegradationReason.MILVUS_UNAVAILABLE, failure)


# --- What is asked ---
def _checked(
    scope: Scope, query: str, intents: Sequence[str], filters: Filters, limit: int, deadline: float | None
) -> _Request:
    config = knowledge_settings()
    if scope.store_id is None:
        raise Invalid("请指明店铺 / Say which store.")
    if not query.strip() or len(query) > MAX_QUERY:
        raise Invalid(f"问题须为 1 至 {MAX_QUERY} 字 / The query must have 1 to {MAX_QUERY} characters.")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in query):
        raise Invalid("问题含有无效字符 / The query holds characters that are not valid text.")
    if not 1 <= limit <= MAX_LIMIT:
        raise Invalid(f"limit 须为 1 至 {MAX_LIMIT} / limit must be 1 to {MAX_LIMIT}.")
    latest = time.monotonic() + settings.SEARCH_DEADLINE_SECONDS
    return _Request(
        scope=scope,
        query=query,
        filters=filters,
        top_k=_narrowed(scope, _routed(config, intents), filters),
        limit=limit,
        deadline=min(latest, deadline) if deadline is not None else latest,
        config=config,
    )


def _routed(config: KnowledgeSettings, intents: Sequence[str]) -> dict[str, int]:
    """Return collection -> top_k for these intents; without intents, for every collection."""
    if len(intents) > MAX_INTENTS:
        raise Invalid(f"意图最多 {MAX_INTENTS} 个 / At most {MAX_INTENTS} intents.")
    unknown = sorted(set(intents) - set(config.collections))
    if unknown:
        raise Invalid(
            f"未知意图 {unknown[0]} / Unknown intent; known are {', '.join(config.collections)}.", field="intents"
        )
    top_k = {} if intents else dict.fromkeys(Collection.values, 0)
    for route in (config.collections[name] for name in intents or config.collections):
        top_k[route.collection] = max(route.top_k, top_k.get(route.collection, 0))
    return {collection: count or _TOP_K_WITHOUT_INTENT for collection, count in top_k.items()}


def _narrowed(scope: Scope, top_k: Mapping[str, int], filters: Filters) -> dict[str, int]:
    """Return what is left of the routes; none when the filters ask for what this caller never sees."""
    if scope.is_customer and filters.audience and Audience.CUSTOMER not in filters.audience:
        return {}
    return {name: count for name, count in top_k.items() if not filters.collection or name in filters.collection}


# --- By meaning and by words, from the indexes ---
def _meanings(request: _Request, chosen: Sequence[IndexTarget]) -> dict[str, vectors.Vector]:
    """Return the query's vector for each model the targets were built with."""
    deadline = min(request.deadline, time.monotonic() + settings.EMBED_DEADLINE_SECONDS)
    models = {target.model for target in chosen}
    return {model: embedding.embed_query(request.query, model=model, deadline=deadline) for model in models}


def _by_meaning(request: _Request, chosen: Sequence[IndexTarget], meanings: dict[str, vectors.Vector]) -> SearchResult:
    for depth in (_DEPTH, _DEEPER):
        proposed = _propose(request, chosen, meanings, depth)
        faults.point("search.before_verify")
        # The person, the store, the permission: as they are now, after slow work.
        scope = credentials.reread(request.scope)
        scope.require("knowledge:query")
        selection, all_verified = _select(scope, request, chosen, proposed.candidates)
        if all_verified or not proposed.is_full or len(selection.passages) == request.limit:
            break
    return SearchResult(
        query=request.query,
        passages=selection.passages,
        searched_collections=tuple(request.top_k),
        total_candidates=len(proposed.candidates),
        truncated=selection.left_out,
    )


def _propose(
    request: _Request, chosen: Sequence[IndexTarget], meanings: dict[str, vectors.Vector], depth: int
) -> _Proposed:
    """Ask both legs of every collection at once.

    Raises Unavailable when a call fails, and when a collection holds less than MySQL has live for it: a Milvus that
    lost its rows answers without an error.
    """
    scope = request.scope
    where = vectors.Where(
        tenant_id=scope.tenant_id or 0,
        store_id=scope.store_id or 0,
        customers_only=scope.is_customer,
        filters=request.filters,
    )
    timeout = request.config.milvus_timeout_seconds
    asks: list[Callable[[], list[Hit]]] = []
    for target in chosen:
        vector = meanings[target.model]
        asks.append(partial(vectors.dense_search, target, vector, where, limit=depth, timeout=timeout))
        asks.append(partial(vectors.keyword_search, target, request.query, vector, where, limit=depth, timeout=timeout))
    legs = calls.all_at_once(asks, timeout=timeout, seconds_left=request.seconds_left())
    dense, keyword = legs[0::2], legs[1::2]
    # A leg that is not full has given everything its collection holds for this caller.
    _refuse_hollow(
        request, {target.collection: hits for target, hits in zip(chosen, dense, strict=True) if len(hits) < depth}
    )
    fuse = ranking.FUSIONS[request.config.fusion]
    return _Proposed(
        candidates=fuse([hit for leg in dense for hit in leg], [hit for leg in keyword for hit in leg]),
        is_full=any(len(leg) >= depth for leg in legs),
    )


def _refuse_hollow(request: _Request, held: Mapping[str, Sequence[Hit]]) -> None:
    """Raise Unavailable when a collection holds nothing of what is live, fewer rows than were live before this search
    began, or none of a document that was; `held` has what the collections gave that gave all they have."""
    scope, seconds = request.scope, settings.SEARCH_DEADLINE_SECONDS
    # What was published since, or is there beside what was asked for, must not make up for what is missing.
    given = {hit.build for hits in held.values() for hit in hits}
    live = queries.count_live_chunks(scope, held, seconds, request.filters, given)
    hollow = [
        name
        for name, (now, before, beside) in live.items()
        if beside or len(held[name]) < (before if held[name] else now)
    ]
    if hollow:
        logger.error("the index lacks what is live", extra={"store": scope.store_id, "collections": hollow})
        raise Unavailable("向量库缺少已发布的内容 / The vector store lacks what is live.", code="MILVUS_UNAVAILABLE")


# --- What MySQL says of it ---
def _select(
    scope: Scope, request: _Request, chosen: Sequence[IndexTarget], candidates: Sequence[Candidate]
) -> tuple[ranking.Selection, bool]:
    """Return the passages worth showing, and whether every candidate that was looked up is live for this caller.

    Candidates are looked up from the best on, until the answer is full and it is known that more would qualify:
    one query unless many are removed.
    """
    rules = ranking.Rules(top_k=request.top_k, limit=request.limit, codes=ranking.codes(request.query))
    weighed: list[ranking.Weighed] = []
    selection, looked_up = ranking.Selection((), left_out=False), 0
    for start in range(0, len(candidates), _VERIFIED_AT_ONCE):
        some = candidates[start : start + _VERIFIED_AT_ONCE]
        weighed += _weigh(request, chosen, _verify(scope, request.filters, some))
        looked_up += len(some)
        selection = ranking.select(weighed, rules)
        if selection.left_out and len(selection.passages) == request.limit:
            break
    return selection, len(weighed) == looked_up


def _verify(scope: Scope, filters: Filters, candidates: Sequence[Candidate]) -> list[tuple[Passage, Candidate]]:
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


def _weigh(
    request: _Request, chosen: Sequence[IndexTarget], verified: Sequence[tuple[Passage, Candidate]]
) -> list[ranking.Weighed]:
    """Give each passage its score, max(0, cosine), and the score it must reach."""
    encoders = {target.collection: get_encoder(target.model) for target in chosen}
    configured = request.config.similarity_threshold
    chinese = ranking.is_chinese(request.query)
    weighed = []
    for passage, candidate in verified:
        score = max(0.0, min(1.0, candidate.cosine))
        least = _threshold(encoders[passage.collection], score, chinese, passage) if configured is None else configured
        scored = replace(passage, score=score, score_kind=ScoreKind.COSINE)
        weighed.append(ranking.Weighed(scored, candidate.weight, least))
    return weighed


def _threshold(encoder: Encoder, score: float, chinese: bool, passage: Passage) -> float:
    """Return what the encoder asks of this passage. Its language is looked at only where that decides."""
    low, high = sorted((encoder.threshold, encoder.threshold_chinese))
    if not low <= score < high:
        return low
    return encoder.threshold_chinese if chinese and ranking.is_chinese(passage.text) else encoder.threshold


# --- Without the indexes ---
def _degraded(request: _Request, reason: DegradationReason, failure: Unavailable) -> SearchResult:
    """Answer by keywords, and say so. Raises Unavailable SEARCH_UNAVAILABLE when that is switched off."""
    DEGRADED.labels(reason).inc()
    logger.warning("search degraded", extra={"reason": reason, "code": failure.code, "store": request.scope.store_id})
    if not request.config.fallback_enabled:
        raise Unavailable(
            "检索暂不可用，请稍后再试 / Search is not available right now; try again.", code="SEARCH_UNAVAILABLE"
        ) from failure
    scope = credentials.reread(request.scope)
    scope.require("knowledge:query")
    passages, more = fallback.search(
        scope, request.query, top_k=request.top_k, limit=request.limit, filters=request.filters
    )
    return SearchResult(
        query=request.query,
        passages=tuple(passages),
        searched_collections=tuple(request.top_k),
        total_candidates=len(passages),
        truncated=more,
        degraded=True,
        degradation_reason=reason,
    )
