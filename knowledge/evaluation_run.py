"""Judged sets through the product's own legs and fusion, in a collection that exists only meanwhile.

Passages are cut, embedded, written and searched as documents are; a passage of a set is a document here. The database
has no part in it.
"""

import hashlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings

from config.knowledge import KnowledgeSettings
from knowledge import chunking, embedding, evaluation, ranking, reranking, retrieval, vectors
from knowledge.encoders import Encoder, Kind
from knowledge.evaluation import Difference, Outcome
from knowledge.evaluation_cache import Vector, VectorCache
from knowledge.evaluation_sets import JudgedSet, Passage
from knowledge.models import Audience, Collection, IndexTarget
from knowledge.ranking import Hit, Key, Legs
from knowledge.where import Where
from zhifu.errors import Invalid, Unavailable

logger = logging.getLogger(__name__)

DENSE, KEYWORD = "dense", "BM25"
_EMBEDDED_AT_ONCE = 16
# Of one batch: a slow CPU needs a second a passage.
_EMBED_SECONDS = 600
_WRITTEN_AT_ONCE = 256
# What a reranker may take here, where slow is a result.
_RERANK_SECONDS = 60
_TENANT, _STORE, _BUILD = 1, 1, "0"

# What is being done, and how many there are -> told how many more are done.
Bars = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]


def no_bars(_what: str, _total: int) -> AbstractContextManager[Callable[[int], object]]:
    return nullcontext(lambda _done: None)


@dataclass(frozen=True)
class Chunk:
    """A passage of the product: `text` is what is embedded and what the keyword search reads."""

    document: str
    position: int
    text: str


@dataclass(frozen=True)
class Prepared:
    """A set, its chunks and all vectors, each in the order of its texts."""

    judged: JudgedSet
    chunks: list[Chunk]
    chunk_vectors: Vector
    query_vectors: Vector

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Passage -> the number it has as a document."""
        return {passage.id: number for number, passage in enumerate(self.judged.passages, 1)}

    @cached_property
    def by_key(self) -> dict[Key, Chunk]:
        return {(self.numbers[chunk.document], 1, _BUILD, chunk.position): chunk for chunk in self.chunks}

    @cached_property
    def text_hashes(self) -> dict[Key, str]:
        return {key: hashlib.sha256(chunk.text.encode()).hexdigest() for key, chunk in self.by_key.items()}


@dataclass(frozen=True)
class Asked:
    """What both legs proposed for a query, and the seconds each took."""

    legs: Legs
    dense_seconds: float
    keyword_seconds: float


@dataclass(frozen=True)
class Ranking:
    """The outcomes of one way to rank, and the seconds it took, query by query."""

    name: str
    outcomes: list[Outcome]
    seconds: list[float]


@dataclass(frozen=True)
class SetReport:
    """`fused`: a ranking for each of the settings that were asked for, reranked where they name a reranker."""

    prepared: Prepared
    legs: list[Ranking]
    fused: list[Ranking]

    @property
    def rankings(self) -> list[Ranking]:
        return [*self.legs, *self.fused]

    @cached_property
    def differences(self) -> dict[str, list[Difference]]:
        """Return, by ranking: each fused one against the better leg, and all but the first against the first."""
        legs = {leg.name: leg.outcomes for leg in self.legs}
        found = {one.name: evaluation.differences(one.outcomes, legs) for one in self.fused}
        first, *others = self.fused
        for one in others:
            found[one.name] += evaluation.differences(one.outcomes, {first.name: first.outcomes})
        return found

    def as_dict(self) -> dict[str, Any]:
        judged = self.prepared.judged
        return {
            "name": judged.name,
            "passages": len(judged.passages),
            "chunks": len(self.prepared.chunks),
            "queries": len(judged.queries),
            "unjudged": judged.unjudged,
            "rankings": {
                one.name: {"metrics": evaluation.means(one.outcomes), "latency_ms": evaluation.latency(one.seconds)}
                for one in self.rankings
            },
            "differences": {
                name: [asdict(one) | {"verdict": one.verdict} for one in found]
                for name, found in self.differences.items()
            },
            "per_query": [
                {"id": query.id, "text": query.text}
                | {
                    one.name: asdict(one.outcomes[number]) | {"ms": round(one.seconds[number] * 1000, 2)}
                    for one in self.rankings
                }
                for number, query in enumerate(judged.queries)
            ],
        }


# --- Before anything is asked ---
def prepare(
    judged: JudgedSet, encoder: Encoder, cache: VectorCache, *, first_chunks: bool = False, bars: Bars = no_bars
) -> Prepared:
    """Cut and embed a set. Raises Invalid for a passage that the product would refuse, and what embedding raises."""
    chunks = [chunk for passage in judged.passages for chunk in _cut(passage, first_chunks)]
    return Prepared(
        judged,
        chunks,
        _embedded([chunk.text for chunk in chunks], Kind.PASSAGE, encoder, cache, bars),
        _embedded([query.text for query in judged.queries], Kind.QUERY, encoder, cache, bars),
    )


def _cut(passage: Passage, first_only: bool) -> list[Chunk]:
    try:
        spans = chunking.split(passage.text)
    except Invalid as refusal:
        raise Invalid(f"{passage.id}: {refusal.message}", code=refusal.code) from refusal
    texts = [passage.text[span.start : span.end] for span in spans[: 1 if first_only else None]]
    # A set may have passages without a title, the product has none.
    return [
        Chunk(passage.id, position, chunking.embedded_text(passage.title, text) if passage.title.strip() else text)
        for position, text in enumerate(texts)
    ]


def _embedded(texts: Sequence[str], kind: Kind, encoder: Encoder, cache: VectorCache, bars: Bars) -> Vector:
    found = {text: vector for text in dict.fromkeys(texts) if (vector := cache.get(kind, text)) is not None}
    missing = [text for text in dict.fromkeys(texts) if text not in found]
    with bars(f"embedding, {kind}", len(missing)) as done:
        for batch in _batches(missing, _EMBEDDED_AT_ONCE):
            deadline = time.monotonic() + _EMBED_SECONDS
            made = embedding.embed(batch, kind, model=encoder.model, deadline=deadline)
            cache.put(kind, batch, made)
            found |= dict(zip(batch, made, strict=True))
            done(len(batch))
    return np.stack([found[text] for text in texts])


def _batches(items: list[Any], size: int) -> Iterator[list[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def export(prepared: Prepared, folder: Path) -> None:
    """Write what another product needs to be asked the same: chunks.jsonl, queries.jsonl, grades.json and vectors."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("chunks", prepared.chunks), ("queries", prepared.judged.queries)):
        lines = (json.dumps(asdict(row), ensure_ascii=False) for row in rows)
        (folder / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")
    (folder / "grades.json").write_text(json.dumps(prepared.judged.grades), "utf-8")
    np.save(folder / "chunks.npy", prepared.chunk_vectors)
    np.save(folder / "queries.npy", prepared.query_vectors)


# --- Asking ---
def evaluate(
    prepared: Prepared, encoder: Encoder, variants: Mapping[str, KnowledgeSettings], *, bars: Bars = no_bars
) -> SetReport:
    """Ask both legs once, then order under each of the settings. Raises Unavailable, DimensionMismatch, and whatever a
    reranker raises: its failure is no fused order."""
    with throwaway_collection(encoder) as target:
        _write(target, prepared, bars)
        asked = _ask(target, prepared, bars)
    return SetReport(
        prepared,
        [
            _ranked(DENSE, prepared, asked, lambda _text, legs: _by_score(legs.dense), ["dense_seconds"]),
            _ranked(KEYWORD, prepared, asked, lambda _text, legs: _by_score(legs.keyword), ["keyword_seconds"]),
        ],
        [
            _ranked(name, prepared, asked, _by_settings(prepared, config), ["dense_seconds", "keyword_seconds"])
            for name, config in variants.items()
        ],
    )


@contextmanager
def throwaway_collection(encoder: Encoder) -> Iterator[IndexTarget]:
    """Give an index that no tenant has and no row names; it is dropped afterwards, whatever ends the block."""
    target = IndexTarget(
        collection=Collection.GENERAL,
        model=encoder.model,
        revision=encoder.revision,
        dimension=encoder.dimension,
        physical_name=f"{settings.MILVUS_PREFIX}evaluation_{secrets.token_hex(8)}",
        # Else the database would be asked for it.
        created_at=datetime.now(UTC),
    )
    try:
        vectors.ensure_collection(target)
        yield target
    finally:
        try:
            vectors.drop_collection(target)
        except Unavailable:
            # What went wrong before matters more than this.
            logger.error("an evaluation's collection stays behind", extra={"collection": target.physical_name})


def _write(target: IndexTarget, prepared: Prepared, bars: Bars) -> None:
    rows = list(zip(prepared.chunks, prepared.chunk_vectors, strict=True))
    with bars("writing", len(rows)) as done:
        for batch in _batches(rows, _WRITTEN_AT_ONCE):
            deadline = time.monotonic() + settings.MILVUS_WRITE_TIMEOUT_SECONDS
            made = [_row(prepared.numbers[chunk.document], chunk, vector) for chunk, vector in batch]
            vectors.upsert(target, made, deadline=deadline)
            done(len(batch))
    vectors.finish_writing(target)


def _row(number: int, chunk: Chunk, vector: Vector) -> vectors.VectorRow:
    return vectors.VectorRow(
        tenant=_TENANT,
        store=_STORE,
        document=number,
        version=1,
        build=_BUILD,
        position=chunk.position,
        collection=Collection.GENERAL,
        source_type="",
        audience=Audience.CUSTOMER,
        entity_ref="",
        tags=(),
        updated_at=0,
        text=chunk.text,
        vector=vector,
    )


def _ask(target: IndexTarget, prepared: Prepared, bars: Bars) -> list[Asked]:
    """Ask one leg after the other, so that neither waits for the other's answer."""
    asked = list(zip(prepared.judged.queries, prepared.query_vectors, strict=True))
    # The first search of a collection loads it.
    _ask_one(target, asked[0][0].text, asked[0][1])
    found = []
    with bars("asking", len(asked)) as done:
        for query, vector in asked:
            found.append(_ask_one(target, query.text, vector))
            done(1)
    return found


def _ask_one(target: IndexTarget, text: str, vector: Vector) -> Asked:
    where = Where(tenant_id=_TENANT, store_id=_STORE, customers_only=True)
    timeout = settings.MILVUS_WRITE_TIMEOUT_SECONDS
    started = time.perf_counter()
    dense = vectors.dense_search(target, vector, where, limit=retrieval.DEPTH, timeout=timeout)
    between = time.perf_counter()
    keyword = vectors.keyword_search(target, text, where, limit=retrieval.DEPTH, timeout=timeout).hits(vector)
    return Asked(Legs(target.model, dense, keyword), between - started, time.perf_counter() - between)


# --- From hits to an order ---
# The text of a query and what was proposed for it -> chunks, each with a weight; higher is better.
Weigh = Callable[[str, Legs], list[tuple[Key, float]]]


def _by_settings(prepared: Prepared, config: KnowledgeSettings) -> Weigh:
    """As a search under `config` orders: by fusion, and where a reranker is named, the best of that by its scores."""
    fusion = ranking.Fusion(config.fusion, config.dense_weight)

    def fused(_text: str, legs: Legs) -> list[tuple[Key, float]]:
        return [(one.key, one.weight) for one in ranking.fuse([legs], fusion)]

    def reranked(text: str, legs: Legs) -> list[tuple[Key, float]]:
        keys = [key for key, _weight in fused(text, legs)]
        first, rest = keys[: retrieval.RERANKED], keys[retrieval.RERANKED :]
        deadline = time.monotonic() + _RERANK_SECONDS
        scores = reranker.scores(text, [prepared.by_key[key].text for key in first], deadline)
        # Scores lie in 0..1: the rest stands behind them, as it was.
        return [*zip(first, scores, strict=True), *((key, -1.0 - place) for place, key in enumerate(rest))]

    if not config.rerank:
        return fused
    reranker = reranking.get_reranker(config.rerank)
    return reranked


def _by_score(leg: Sequence[Hit]) -> list[tuple[Key, float]]:
    return [(hit.key, hit.score) for hit in leg]


def _ranked(name: str, prepared: Prepared, asked: Sequence[Asked], weigh: Weigh, waited_for: Sequence[str]) -> Ranking:
    """Judge an order of chunks: a document stands where its best chunk does. Equal weights as in a search, by the
    hash of the text: the order of the file says nothing."""
    outcomes, seconds = [], []
    for query, one in zip(prepared.judged.queries, asked, strict=True):
        started = time.perf_counter()
        weighed = weigh(query.text, one.legs)
        seconds.append(time.perf_counter() - started + sum(getattr(one, leg) for leg in waited_for))
        ordered = sorted(weighed, key=lambda item: (-item[1], prepared.text_hashes[item[0]], item[0]))
        documents = dict.fromkeys(prepared.by_key[key].document for key, _weight in ordered)
        outcomes.append(evaluation.judge(documents, prepared.judged.grades[query.id]))
    return Ranking(name, outcomes, seconds)
