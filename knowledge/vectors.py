"""What Milvus is asked: the only module that knows.

A copy of what MySQL holds, as rows under `tenant:document:version:position:build`. Filters are made of integers and
whitelisted words, never of strings from people. Dense and keyword are two plain searches with the same filter:
pymilvus' hybrid_search silently ignores filters. Every function has one timeout for all the calls it makes
(`knowledge/milvus.py`). Everything that goes wrong is Unavailable (MILVUS_UNAVAILABLE) or DimensionMismatch.
"""

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
from django.conf import settings
from numpy.typing import NDArray
from prometheus_client import Histogram
from pymilvus import DataType, Function, FunctionType, MilvusClient

from knowledge import milvus, words
from knowledge.models import IndexTarget
from knowledge.ranking import Hit
from knowledge.where import Where, hashed
from zhifu.errors import DimensionMismatch, Unavailable

# Bytes, as a Milvus server counts: 4 per character of a passage with its title.
_TEXT_BYTES = 8192
_WORD_BYTES = 80
_MAX_TAGS = 20
# A server's own bound for one answer.
_MOST_READ = 16_384
_KEYWORDS_BROKEN = "KEYWORD_SEARCH_BROKEN"
_MAKING_TRIES, _MAKING_PAUSE_SECONDS = 5, 0.2
_INDEXES = {
    "dense": {"index_type": "AUTOINDEX", "metric_type": "COSINE"},
    "sparse": {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "BM25"},
}
# A sentence without blanks, as Chinese is written, and what must find it.
_PROOF, _PROOF_WORDS = "从知识库检索内容并作selftest之用", ("检索", "selftest")
_BUILD = re.compile(r"[0-9a-f-]*")
_SEARCH_SECONDS = Histogram(
    "zhifu_milvus_search_seconds",
    "How long one leg of a search waits for Milvus, answered or not.",
    ["leg"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8),
)

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class VectorRow:
    """A chunk as Milvus holds it. `updated_at` in epoch seconds; `text` feeds the keyword search and is never shown."""

    tenant: int
    store: int
    document: int
    version: int
    build: str
    position: int
    collection: str
    source_type: str
    audience: str
    entity_ref: str
    tags: tuple[str, ...]
    updated_at: int
    text: str
    vector: Vector

    @property
    def id(self) -> str:
        return f"{self.tenant}:{self.document}:{self.version}:{self.position}:{self.build}"


def ensure_collection(target: IndexTarget) -> None:
    """Make the target's physical collection unless it is there; safe when several do it at once.

    Raises DimensionMismatch when it is there with another dimension, and Unavailable (KEYWORD_SEARCH_BROKEN) when a new
    one does not find by words what is in it.
    """
    deadline = milvus.Deadline(settings.MILVUS_WRITE_TIMEOUT_SECONDS)
    for tries_left in reversed(range(_MAKING_TRIES)):
        if _is_whole(target, deadline):
            break
        try:
            milvus.call(lambda client, seconds: _create(client, target, seconds), deadline)
            _prove_keyword_search(target, deadline)
        except Unavailable as failure:
            if failure.code == _KEYWORDS_BROKEN or not tries_left:
                raise
            # Somebody else may be making it.
            time.sleep(_MAKING_PAUSE_SECONDS)
    _check_physical(target, deadline)


def _is_whole(target: IndexTarget, deadline: milvus.Deadline) -> bool:
    """Say whether the physical collection is there with both its indexes: who made it may have been cut short."""
    if not _exists(target, deadline):
        return False
    held = milvus.call(lambda client, seconds: client.list_indexes(target.physical_name, timeout=seconds), deadline)
    return len(held) == len(_INDEXES)


def _prove_keyword_search(target: IndexTarget, deadline: milvus.Deadline) -> None:
    """See that Chinese and Latin words of a row are found, or drop the new collection: a server whose analyzer does not
    know Chinese answers such questions with nothing and no error, and nobody would notice."""
    build = f"0-{uuid4().hex}"
    upsert(target, [_proof_row(target, build)], deadline=time.monotonic() + deadline.seconds_left)
    where = Where(tenant_id=0, store_id=0, customers_only=True)
    for word in _PROOF_WORDS:
        if not keyword_search(target, word, where, limit=1, timeout=deadline.seconds_left).rows:
            drop_collection(target)
            raise Unavailable(
                f"向量库按词检索不到“{word}”，请检查其分词器 / The vector store does not find {word!r} by words: "
                "see that its analyzer has the tokenizer jieba.",
                code=_KEYWORDS_BROKEN,
            )
    remove_builds(target, tenant_id=0, document_id=0, builds=[build])


def _proof_row(target: IndexTarget, build: str) -> VectorRow:
    """Return a row of no tenant's."""
    vector = np.ones(target.dimension, dtype=np.float32)
    return VectorRow(0, 0, 0, 0, build, 0, target.collection, "manual", "CUSTOMER", "", (), 0, _PROOF, vector)


def upsert(target: IndexTarget, rows: Sequence[VectorRow], *, deadline: float) -> None:
    """Write rows, replacing those of the same id. `deadline` is a moment of time.monotonic().

    Raises DimensionMismatch for a vector of another dimension than the target's.
    """
    # The same id twice in one call: some servers keep both, some refuse.
    data = list({row.id: _as_data(target, row) for row in rows}.values())
    timeout = min(settings.MILVUS_WRITE_TIMEOUT_SECONDS, deadline - time.monotonic())
    _on_loaded(target, lambda client, seconds: client.upsert(target.physical_name, data, timeout=seconds), timeout)


def finish_writing(target: IndexTarget) -> None:
    """Seal what was written, on milvus-lite: its unsealed rows are slow to search. A server does this by itself and
    limits how often it may be asked."""
    deadline = milvus.Deadline(settings.MILVUS_WRITE_TIMEOUT_SECONDS)
    version = milvus.call(lambda client, seconds: client.get_server_version(timeout=seconds), deadline)
    if "lite" in version:
        milvus.call(lambda client, seconds: client.flush(target.physical_name, timeout=seconds), deadline)


def remove_builds(target: IndexTarget, *, tenant_id: int, document_id: int, builds: Sequence[str]) -> None:
    """Remove the rows of exactly these builds of a document."""
    if not builds:
        return
    where = _of_builds(tenant_id, document_id, builds)
    _on_loaded(
        target,
        lambda client, seconds: client.delete(target.physical_name, filter=where, timeout=seconds),
        settings.MILVUS_WRITE_TIMEOUT_SECONDS,
        missing={},
    )


def count_build(target: IndexTarget, *, tenant_id: int, document_id: int, build: str) -> int:
    """Return how many rows of a build the target holds."""
    where = _of_builds(tenant_id, document_id, [build])
    counted = _on_loaded(
        target,
        lambda client, seconds: client.query(
            target.physical_name,
            filter=where,
            output_fields=["count(*)"],
            consistency_level="Strong",
            timeout=seconds,
        ),
        settings.MILVUS_WRITE_TIMEOUT_SECONDS,
        missing=[{"count(*)": 0}],
    )
    return int(counted[0]["count(*)"])


def held_builds(target: IndexTarget, where: Where, *, timeout: float) -> list[str]:
    """Return the build of each row that `where` lets a search see, at most _MOST_READ; none without a collection."""
    rows = _on_loaded(
        target,
        lambda client, seconds: client.query(
            target.physical_name,
            filter=where.expression,
            output_fields=["build"],
            limit=_MOST_READ,
            consistency_level="Strong",
            timeout=seconds,
        ),
        timeout,
        missing=[],
    )
    return [row["build"] for row in rows]


def drop_collection(target: IndexTarget) -> None:
    """Drop the target's physical collection, if it is there."""
    deadline = milvus.Deadline(settings.MILVUS_WRITE_TIMEOUT_SECONDS)
    milvus.call(lambda client, seconds: client.drop_collection(target.physical_name, timeout=seconds), deadline)


def ping() -> None:
    """Ask the server something. Raises Unavailable when it does not answer."""
    deadline = milvus.Deadline(settings.MILVUS_TIMEOUT_SECONDS)
    milvus.call(lambda client, seconds: client.list_collections(timeout=seconds), deadline)


@dataclass(frozen=True)
class FoundByWords:
    """What a search by words found, without the question's vector: that may still be in the making."""

    target: IndexTarget
    rows: Sequence[dict[str, Any]]
    vectors: Sequence[Vector]

    def hits(self, vector: Vector) -> list[Hit]:
        """Return each with its cosine with `vector`. Raises DimensionMismatch as dense_search does."""
        _check_dimension(self.target, vector)
        if not self.rows:
            return []
        matrix = np.stack(self.vectors)
        # A vector of zeros has no direction.
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = matrix @ vector / (np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector))
        # milvus-lite gives BM25 as a negative distance.
        return [
            _hit(row, cosine=float(cosine), score=abs(float(row["distance"])))
            for row, cosine in zip(self.rows, cosines, strict=True)
        ]


def dense_search(target: IndexTarget, vector: Vector, where: Where, *, limit: int, timeout: float) -> list[Hit]:
    """Return the chunks nearest to `vector`, nearest first; none when the collection does not exist.

    Raises DimensionMismatch when the vector is not of the target's dimension.
    """
    _check_dimension(target, vector)
    found = _search(target, _DENSE, vector.tolist(), where, limit, timeout)
    return [_hit(row, cosine=float(row["distance"]), score=float(row["distance"])) for row in found]


def keyword_search(target: IndexTarget, text: str, where: Where, *, limit: int, timeout: float) -> FoundByWords:
    """Return the chunks that share words with `text`, by BM25, best first."""
    asked = words.folded(text)
    if not any(character.isalnum() for character in asked):
        return FoundByWords(target, [], [])
    rows = _search(target, _KEYWORD, asked, where, limit, timeout)
    of_rows = [np.asarray(row["entity"]["dense"], dtype=np.float32) for row in rows]
    for vector in of_rows:
        _check_dimension(target, vector)
    return FoundByWords(target, rows, of_rows)


# --- Rows, filters ---
def _as_data(target: IndexTarget, row: VectorRow) -> dict[str, Any]:
    _check_dimension(target, row.vector)
    return {
        "id": row.id,
        "tenant": row.tenant,
        "store": row.store,
        "document": row.document,
        "version": row.version,
        "build": _fitting(row.build, _WORD_BYTES),
        "position": row.position,
        "collection": _fitting(row.collection, _WORD_BYTES),
        "source_type": _fitting(row.source_type, _WORD_BYTES),
        "audience": _fitting(row.audience, _WORD_BYTES),
        "entity": hashed(row.entity_ref),
        "tags": [hashed(tag) for tag in row.tags],
        "updated_at": row.updated_at,
        "text": _fitting(words.folded(row.text), _TEXT_BYTES),
        "dense": row.vector,
    }


def _fitting(text: str, size: int) -> str:
    """Return `text` cut to `size` bytes of UTF-8: a server counts bytes, milvus-lite characters."""
    return text.encode()[:size].decode(errors="ignore")


def _of_builds(tenant_id: int, document_id: int, builds: Sequence[str]) -> str:
    for build in builds:
        if not _BUILD.fullmatch(build):
            raise ValueError(f"not a build: {build!r}")
    listed = ", ".join(f'"{build}"' for build in builds)
    return f"tenant == {tenant_id:d} and document == {document_id:d} and build in [{listed}]"


def _check_dimension(target: IndexTarget, vector: Vector) -> None:
    if vector.shape != (target.dimension,):
        raise _wrong_dimension(target, vector.shape[-1] if vector.ndim else 0)


def _wrong_dimension(target: IndexTarget, found: int) -> DimensionMismatch:
    return DimensionMismatch(
        "向量维度与索引不符 / A vector has another dimension than its index.",
        collection=target.collection,
        index_dimension=target.dimension,
        found_dimension=found,
    )


def _create(client: MilvusClient, target: IndexTarget, timeout: float) -> None:
    schema = MilvusClient.create_schema(auto_id=False)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=200)
    schema.add_field("tenant", DataType.INT64, is_partition_key=True)
    for number in ("store", "document", "version", "position", "entity", "updated_at"):
        schema.add_field(number, DataType.INT64)
    for word in ("build", "collection", "source_type", "audience"):
        schema.add_field(word, DataType.VARCHAR, max_length=_WORD_BYTES)
    schema.add_field("tags", DataType.ARRAY, element_type=DataType.INT64, max_capacity=_MAX_TAGS)
    jieba = {"tokenizer": "jieba"}
    schema.add_field("text", DataType.VARCHAR, max_length=_TEXT_BYTES, enable_analyzer=True, analyzer_params=jieba)
    schema.add_field("dense", DataType.FLOAT_VECTOR, dim=target.dimension)
    schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
    bm25 = Function(
        name="bm25", function_type=FunctionType.BM25, input_field_names=["text"], output_field_names=["sparse"]
    )
    schema.add_function(bm25)
    if not client.has_collection(target.physical_name, timeout=timeout):
        client.create_collection(target.physical_name, schema=schema, consistency_level="Strong", timeout=timeout)
    indexes = client.prepare_index_params()
    for field, values in _INDEXES.items():
        indexes.add_index(field, **values)
    client.create_index(target.physical_name, indexes, timeout=timeout)
    client.load_collection(target.physical_name, timeout=timeout)


# --- Searching ---
@dataclass(frozen=True)
class _Leg:
    field: str
    metric: str
    output: tuple[str, ...]


_WHICH = ("document", "version", "build", "position")
_DENSE = _Leg("dense", "COSINE", _WHICH)
_KEYWORD = _Leg("sparse", "BM25", (*_WHICH, "dense"))


def _search(
    target: IndexTarget, leg: _Leg, query: Any, where: Where, limit: int, timeout: float
) -> list[dict[str, Any]]:
    def ask(client: MilvusClient, seconds: float) -> Any:
        return client.search(
            target.physical_name,
            data=[query],
            anns_field=leg.field,
            filter=where.expression,
            limit=limit,
            output_fields=list(leg.output),
            search_params={"metric_type": leg.metric},
            timeout=seconds,
        )

    with _SEARCH_SECONDS.labels(leg.field).time():
        return list(_on_loaded(target, ask, timeout, missing=[[]])[0])


def _hit(row: dict[str, Any], *, cosine: float, score: float) -> Hit:
    entity = row["entity"]
    return Hit(
        document_id=entity["document"],
        version=entity["version"],
        build=entity["build"],
        position=entity["position"],
        # A broken vector is near nothing.
        cosine=cosine if math.isfinite(cosine) else -1.0,
        score=score if math.isfinite(score) else -1.0,
    )


# --- Calling ---
def _on_loaded(target: IndexTarget, ask: milvus.Ask, timeout: float, *, missing: Any = None) -> Any:
    """Run one call on a collection that a restarted server may not have loaded, or may not have: then `missing`.

    All that this takes is done within `timeout`. Raises DimensionMismatch when the physical collection is of another
    dimension than the target's row says.
    """
    deadline = milvus.Deadline(timeout)
    try:
        return milvus.call(ask, deadline)
    except Unavailable as failure:
        code = milvus.answer_code(failure)
        if code is None:
            raise
        if not _exists(target, deadline):
            if missing is None:
                raise
            return missing
        _check_physical(target, deadline)
        if code not in (milvus.NO_COLLECTION, milvus.NOT_LOADED):
            raise
    milvus.call(lambda client, seconds: client.load_collection(target.physical_name, timeout=seconds), deadline)
    return milvus.call(ask, deadline)


def _exists(target: IndexTarget, deadline: milvus.Deadline) -> bool:
    return bool(
        milvus.call(lambda client, seconds: client.has_collection(target.physical_name, timeout=seconds), deadline)
    )


def _check_physical(target: IndexTarget, deadline: milvus.Deadline) -> None:
    described = milvus.call(
        lambda client, seconds: client.describe_collection(target.physical_name, timeout=seconds), deadline
    )
    held = next(int(field["params"]["dim"]) for field in described["fields"] if field["name"] == "dense")
    if held != target.dimension:
        raise _wrong_dimension(target, held)
