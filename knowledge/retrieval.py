"""Search: what is published right now and fits a question, for one caller.

The indexes only propose. What comes back is read from MySQL after they answered, in one query that checks what is
live, whose it is and who may see it. Out of reach, they are replaced by keywords in the database, marked as degraded.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from django.conf import settings
from prometheus_client import Counter

from config.knowledge import KnowledgeSettings, knowledge_settings
from knowledge import calls, embedding, fallback, queries, ranking, reranking, routing, targets, vectors, verifying
from knowledge.encoders import Encoder, get_encoder
from knowledge.filters import NO_FILTERS, Filters
from knowledge.models import IndexTarget
from knowledge.ranking import Candidate, Fusion, Hit, Key, Legs
from knowledge.results import DegradationReason, Rerank, SearchResult
from knowledge.selection import Selection, Shortlist, Weighed
from zhifu import credentials, faults
from zhifu.errors import Invalid, Unavailable
from zhifu.scope import Scope

logger = logging.getLogger(__name__)

MAX_QUERY = 2000
MAX_LIMIT = 20
# How many each leg proposes per collection; and once more, deeper, when verification removed too many.
_DEPTH = 30
_DEEPER = 300
# How many candidates are looked up in MySQL in one query, and how many a reranker reads at once.
_LOOKED_UP_AT_ONCE = 64
_RERANKED_AT_ONCE = 30

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
class _Index:
    """Where to look, each collection with the query as its model understands it."""

    targets: Sequence[IndexTarget]
    meanings: Mapping[str, vectors.Vector]

    @property
    def encoders(self) -> dict[str, Encoder]:
        return {target.collection: get_encoder(target.model) for target in self.targets}


@dataclass(frozen=True)
class _Proposed:
    """What both legs proposed; `is_full`: a leg gave as many as it was asked for, so deeper there may be more."""

    candidates: list[Candidate]
    is_full: bool


@dataclass
class _Findings:
    """What came of the candidates so far: `seen` were looked up, `live` of them answer this caller."""

    shortlist: Shortlist
    seen: set[Key] = field(default_factory=set)
    live: int = 0
    rerank: Rerank = Rerank.OFF

    @property
    def all_are_live(self) -> bool:
        return self.live == len(self.seen)


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
        index = _Index(chosen, _meanings(request, chosen))
    except Unavailable as failure:
        return _degraded(request, DegradationReason.EMBEDDING_UNAVAILABLE, failure)
    try:
        return _from_index(request, index)
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
        top_k=routing.route(scope, config, intents, filters),
        limit=limit,
        deadline=min(latest, deadline) if deadline is not None else latest,
        config=config,
    )


# --- By meaning and by words, from the indexes ---
def _meanings(request: _Request, chosen: Sequence[IndexTarget]) -> dict[str, vectors.Vector]:
    """Return the query's vector for each model the targets were built with."""
    deadline = min(request.deadline, time.monotonic() + settings.EMBED_DEADLINE_SECONDS)
    models = {target.model for target in chosen}
    return {model: embedding.embed_query(request.query, model=model, deadline=deadline) for model in models}


def _from_index(request: _Request, index: _Index) -> SearchResult:
    """Return what the indexes find. Raises Unavailable when they fail, lack what is live, or hold so much that is no
    longer live that nothing else comes up."""
    findings = _Findings(Shortlist(request.top_k, request.limit))
    for depth in (_DEPTH, _DEEPER):
        proposed = _propose(request, index, depth)
        faults.point("search.before_verify")
        # The person, the store, the permission: as they are now, after slow work.
        scope = credentials.reread(request.scope)
        scope.require("knowledge:query")
        selection = _look_up(scope, request, index, findings, proposed.candidates)
        if findings.all_are_live or not proposed.is_full or len(selection.passages) == request.limit:
            break
    else:
        if not findings.live:
            raise Unavailable(
                "向量库内容过时 / The vector store holds what is no longer live.", code="MILVUS_UNAVAILABLE"
            )
    return SearchResult(
        query=request.query,
        passages=selection.passages,
        searched_collections=tuple(request.top_k),
        total_candidates=len(proposed.candidates),
        truncated=selection.left_out,
        rerank=findings.rerank,
    )


def _propose(request: _Request, index: _Index, depth: int) -> _Proposed:
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
    for target in index.targets:
        vector = index.meanings[target.model]
        asks.append(partial(vectors.dense_search, target, vector, where, limit=depth, timeout=timeout))
        asks.append(partial(vectors.keyword_search, target, request.query, vector, where, limit=depth, timeout=timeout))
    found = calls.all_at_once(asks, timeout=timeout, seconds_left=request.seconds_left())
    dense, keyword = found[0::2], found[1::2]
    # A leg that is not full has given everything its collection holds for this caller.
    _refuse_hollow(
        request,
        {target.collection: hits for target, hits in zip(index.targets, dense, strict=True) if len(hits) < depth},
    )
    legs = [Legs(target.model, *both) for target, *both in zip(index.targets, dense, keyword, strict=True)]
    return _Proposed(
        candidates=ranking.fuse(legs, Fusion(request.config.fusion, request.config.dense_weight)),
        is_full=any(len(leg) >= depth for leg in found),
    )


def _refuse_hollow(request: _Request, held: Mapping[str, Sequence[Hit]]) -> None:
    """Raise Unavailable when a collection holds nothing of what is live, fewer rows than were live before this search
    began, or none of a document that was; `held` has what the collections gave that gave all they have."""
    if not held:
        return
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
def _look_up(
    scope: Scope, request: _Request, index: _Index, findings: _Findings, candidates: Sequence[Candidate]
) -> Selection:
    """Look candidates up that were not yet, from the best on, until the answer is full and it is known that more would
    qualify: one query unless many are removed."""
    fresh = [candidate for candidate in candidates if candidate.key not in findings.seen]
    size = _RERANKED_AT_ONCE if request.config.rerank else _LOOKED_UP_AT_ONCE
    selection = findings.shortlist.selection()
    for start in range(0, len(fresh), size):
        stage = fresh[start : start + size]
        verified = verifying.verify(scope, request.filters, stage)
        findings.seen |= {candidate.key for candidate in stage}
        findings.live += len(verified)
        weighed = verifying.weigh(request.query, verified, index.encoders, request.config.similarity_threshold)
        findings.shortlist.add(_reranked(request, findings, weighed))
        selection = findings.shortlist.selection()
        if selection.left_out and len(selection.passages) == request.limit:
            break
    return selection


def _reranked(request: _Request, findings: _Findings, weighed: list[Weighed]) -> list[Weighed]:
    """Return the passages as the configured reranker judges them, or as they are when it cannot be asked; after it took
    its time only those that are still live."""
    if not request.config.rerank or not weighed:
        return weighed
    try:
        weighed = reranking.rerank(
            request.config.rerank,
            request.query,
            weighed,
            threshold=request.config.rerank_threshold,
            deadline=min(request.deadline, time.monotonic() + settings.RERANK_DEADLINE_SECONDS),
        )
        findings.rerank = Rerank.APPLIED if findings.rerank == Rerank.OFF else findings.rerank
    except Unavailable:
        findings.rerank = Rerank.FAILED
    faults.point("search.after_rerank")
    credentials.reread(request.scope).require("knowledge:query")
    live = queries.live_among(item.passage.version_key for item in weighed)
    return [item for item in weighed if item.passage.version_key in live]


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
