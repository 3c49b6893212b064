"""Search: what is published right now and fits a question, for one caller.

The indexes only propose. What comes back is read from MySQL after they answered, in one query that checks what is
live, whose it is and who may see it. Out of reach, they are replaced by keywords in the database, marked as degraded.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from django.conf import settings
from prometheus_client import Counter

from config.knowledge import KnowledgeSettings, knowledge_settings
from knowledge import (
    calls,
    embedding,
    fallback,
    queries,
    ranking,
    reranking,
    routing,
    targets,
    vectors,
    verifying,
    words,
)
from knowledge.calls import Begun
from knowledge.encoders import Encoder, get_encoder
from knowledge.filters import NO_FILTERS, Filters
from knowledge.models import IndexTarget
from knowledge.ranking import Candidate, Fusion, Hit, Key, Legs
from knowledge.results import DegradationReason, Rerank, SearchResult
from knowledge.selection import Shortlist, Weighed
from knowledge.vectors import FoundByWords
from knowledge.where import Where
from zhifu import credentials, faults
from zhifu.errors import Failure, Invalid, Unavailable
from zhifu.scope import Scope

logger = logging.getLogger(__name__)

MAX_QUERY = 2000
MAX_LIMIT = 20
# How many each leg proposes per collection; and once more, deeper, when verification removed too many.
DEPTH = 30
_DEEPER = 300
# How many candidates that may qualify are looked up in MySQL in one query.
_LOOKED_UP_AT_ONCE = 32
# How many passages a reranker reads, once for a search.
RERANKED = 30

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

    @cached_property
    def codes(self) -> frozenset[str]:
        return words.codes(self.query)

    @property
    def where(self) -> Where:
        return Where(
            tenant_id=self.scope.tenant_id or 0,
            store_id=self.scope.store_id or 0,
            customers_only=self.scope.is_customer,
            filters=self.filters,
        )

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
    """What both legs proposed. `is_full`: by meaning a collection gave as many as it was asked for, so it has more;
    `nearest_left`: none of them has a higher cosine."""

    candidates: list[Candidate]
    is_full: bool
    nearest_left: float


@dataclass
class _Findings:
    """What came of the candidates so far: `seen` were looked up; `stages` holds those of them that answer this caller,
    and `shortlist` what of them may be shown."""

    shortlist: Shortlist
    seen: set[Key] = field(default_factory=set)
    stages: list[list[Weighed]] = field(default_factory=list)
    rerank: Rerank = Rerank.OFF

    @property
    def live(self) -> int:
        return sum(map(len, self.stages))

    def add(self, stage: list[Weighed]) -> None:
        self.stages.append(stage)
        self.shortlist.add(stage)

    def replace(self, stages: Sequence[list[Weighed]]) -> None:
        """Begin again with other passages than were found."""
        self.stages, self.shortlist = [], Shortlist(self.shortlist.top_k, self.shortlist.limit)
        for stage in stages:
            self.add(stage)


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
    # While the question is embedded, its words are looked for already.
    begun = _ask_words(request, chosen, DEPTH)
    try:
        index = _Index(chosen, _meanings(request, chosen))
    except Failure as failure:
        begun.cancel()
        if not isinstance(failure, Unavailable):
            raise
        return _degraded(request, DegradationReason.EMBEDDING_UNAVAILABLE, failure)
    try:
        return _from_index(request, index, begun)
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
    if not words.is_storable(query):
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


def _from_index(request: _Request, index: _Index, by_words: Begun[FoundByWords]) -> SearchResult:
    """Return what the indexes find. Raises Unavailable when they fail, lack what is live, or hold so much that is no
    longer live that nothing else comes up."""
    findings = _Findings(Shortlist(request.top_k, request.limit))
    proposed = _propose(request, index, by_words, DEPTH)
    _look_up(request, index, findings, proposed.candidates)
    took_long = _may_be_more(request, index, findings, proposed)
    if took_long:
        proposed = _propose(request, index, _ask_words(request, index.targets, _DEEPER), _DEEPER)
        _look_up(request, index, findings, proposed.candidates)
        if proposed.is_full and not findings.live:
            raise Unavailable(
                "向量库内容过时 / The vector store holds what is no longer live.", code="MILVUS_UNAVAILABLE"
            )
    if request.config.rerank and findings.stages:
        took_long = True
        if not _rerank(request, findings):
            _look_up(request, index, findings, proposed.candidates)
    if took_long:
        _keep_live(request, findings)
    selection = findings.shortlist.selection()
    return SearchResult(
        query=request.query,
        passages=selection.passages,
        searched_collections=tuple(request.top_k),
        total_candidates=len(proposed.candidates),
        truncated=selection.left_out,
        rerank=findings.rerank,
    )


def _may_be_more(request: _Request, index: _Index, findings: _Findings, proposed: _Proposed) -> bool:
    """Say whether a deeper look may bring what belongs into the answer: what was removed took its place, and what is
    left may be near enough, or hold a number of the question."""
    if findings.live == len(findings.seen) or not proposed.is_full or _is_enough(request, findings):
        return False
    return _any_may_qualify(request, findings) or proposed.nearest_left >= _least(request, index)


def _any_may_qualify(request: _Request, findings: _Findings) -> bool:
    """Say whether a passage may be shown however far it is: a reranker decides, or it may hold a number asked for."""
    return bool(request.config.rerank and findings.rerank == Rerank.OFF) or bool(request.codes)


def _least(request: _Request, index: _Index) -> float:
    """Return the cosine below which no passage is worth showing, whatever its language."""
    if request.config.similarity_threshold is not None:
        return request.config.similarity_threshold
    return min(min(encoder.threshold, encoder.threshold_chinese) for encoder in index.encoders.values())


def _ask_words(request: _Request, chosen: Sequence[IndexTarget], depth: int) -> Begun[FoundByWords]:
    """Begin to ask every collection by words."""
    where, timeout = request.where, request.config.milvus_timeout_seconds
    search = partial(vectors.keyword_search, text=request.query, where=where, limit=depth, timeout=timeout)
    return calls.begin([partial(search, target) for target in chosen])


def _propose(request: _Request, index: _Index, by_words: Begun[FoundByWords], depth: int) -> _Proposed:
    """Ask every collection by meaning, and wait for what it said by words.

    Raises Unavailable when a call fails, and when a collection holds less than MySQL has live for it: a Milvus that
    lost its rows answers without an error.
    """
    where, timeout = request.where, request.config.milvus_timeout_seconds
    search = partial(vectors.dense_search, where=where, limit=depth, timeout=timeout)
    by_meaning = [partial(search, target, index.meanings[target.model]) for target in index.targets]
    worded, dense = calls.all_at_once(by_words, by_meaning, timeout=timeout, seconds_left=request.seconds_left())
    keyword = [found.hits(index.meanings[found.target.model]) for found in worded]
    # A leg that is not full has given everything its collection holds for this caller.
    short = {target: hits for target, hits in zip(index.targets, dense, strict=True) if len(hits) < depth}
    _refuse_hollow(request, short)
    legs = [Legs(target.model, *both) for target, *both in zip(index.targets, dense, keyword, strict=True)]
    return _Proposed(
        candidates=ranking.fuse(legs, Fusion(request.config.fusion, request.config.dense_weight)),
        is_full=any(len(leg) >= depth for leg in dense),
        nearest_left=max((min(hit.cosine for hit in leg) for leg in dense if len(leg) >= depth), default=-1.0),
    )


def _refuse_hollow(request: _Request, short: Mapping[IndexTarget, Sequence[Hit]]) -> None:
    """Raise Unavailable when a collection holds nothing of what is live, fewer rows than were live before this search
    began, or none of a document that was; `short` has what the collections gave that seem to have given all."""
    if not _hollow(request, {target.collection: [hit.build for hit in hits] for target, hits in short.items()}):
        return
    # A server walks a graph, and may give fewer than it has: before anything is said of it, what it holds is read.
    timeout = request.config.milvus_timeout_seconds
    reads = [partial(vectors.held_builds, target, request.where, timeout=timeout) for target in short]
    _, held = calls.all_at_once(calls.begin([]), reads, timeout=timeout, seconds_left=request.seconds_left())
    hollow = _hollow(request, {target.collection: builds for target, builds in zip(short, held, strict=True)})
    if hollow:
        logger.error("the index lacks what is live", extra={"store": request.scope.store_id, "collections": hollow})
        raise Unavailable("向量库缺少已发布的内容 / The vector store lacks what is live.", code="MILVUS_UNAVAILABLE")


def _hollow(request: _Request, builds: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the collections that lack what is live, given the build of each row that they hold."""
    if not builds:
        return []
    # What was published since, or is there beside what was asked for, must not make up for what is missing.
    given = {build for of_collection in builds.values() for build in of_collection}
    live = queries.count_live_chunks(request.scope, builds, settings.SEARCH_DEADLINE_SECONDS, request.filters, given)
    return [
        name
        for name, (now, before, beside) in live.items()
        if beside or len(builds[name]) < (before if builds[name] else now)
    ]


# --- What MySQL says of it ---
def _look_up(request: _Request, index: _Index, findings: _Findings, candidates: Sequence[Candidate]) -> None:
    """Look candidates up that may qualify and were not yet, from the best on, until there are enough: one query unless
    many are removed."""
    faults.point("search.before_verify")
    # The person, the store, the permission: as they are now, after slow work.
    scope = credentials.reread(request.scope)
    scope.require("knowledge:query")
    least = 0.0 if _any_may_qualify(request, findings) else _least(request, index)
    fresh = [one for one in candidates if one.key not in findings.seen and max(0.0, one.cosine) >= least]
    # A number of the question lifts who holds it, wherever it stands: then all are looked up together.
    size = len(fresh) if request.codes else _LOOKED_UP_AT_ONCE
    for start in range(0, len(fresh), size or 1):
        if findings.stages and _is_enough(request, findings, is_known_to_be_cut=True):
            return
        stage = fresh[start : start + size]
        verified = verifying.verify(scope, request.filters, stage)
        findings.seen |= {candidate.key for candidate in stage}
        findings.add(verifying.weigh(request.query, verified, index.encoders, request.config.similarity_threshold))


def _is_enough(request: _Request, findings: _Findings, *, is_known_to_be_cut: bool = False) -> bool:
    """Say whether what was found fills the answer, and, if asked, whether it is known that more would qualify. A
    reranker wants a number of passages, whatever they score."""
    if request.config.rerank and findings.rerank == Rerank.OFF:
        return findings.live >= RERANKED
    selection = findings.shortlist.selection()
    return selection.is_full and (selection.left_out or not is_known_to_be_cut)


def _rerank(request: _Request, findings: _Findings) -> bool:
    """Let the configured reranker order the best passages, and show only those. False when it cannot be asked: then
    everything stays as it is."""
    head = [item for stage in findings.stages for item in sorted(stage, key=lambda item: -item.weight)][:RERANKED]
    try:
        judged = reranking.rerank(
            request.config.rerank,
            request.query,
            head,
            threshold=request.config.rerank_threshold,
            deadline=min(request.deadline, time.monotonic() + settings.RERANK_DEADLINE_SECONDS),
        )
    except Unavailable:
        findings.rerank = Rerank.FAILED
        return False
    finally:
        faults.point("search.after_rerank")
    findings.replace([judged])
    findings.rerank = Rerank.APPLIED
    return True


def _keep_live(request: _Request, findings: _Findings) -> None:
    """Drop what went out of force since it was looked up. Raises as a search does when the caller lost access."""
    credentials.reread(request.scope).require("knowledge:query")
    live = queries.live_among(item.passage.version_key for stage in findings.stages for item in stage)
    findings.replace([[item for item in stage if item.passage.version_key in live] for stage in findings.stages])


# --- Without the indexes ---
def _degraded(request: _Request, reason: DegradationReason, failure: Unavailable) -> SearchResult:
    """Answer by keywords, and say so. Raises Unavailable SEARCH_UNAVAILABLE when that is switched off."""
    logger.warning("search degraded", extra={"reason": reason, "code": failure.code, "store": request.scope.store_id})
    if not request.config.fallback_enabled:
        raise Unavailable(
            "检索暂不可用，请稍后再试 / Search is not available right now; try again.", code="SEARCH_UNAVAILABLE"
        ) from failure
    DEGRADED.labels(reason).inc()
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
