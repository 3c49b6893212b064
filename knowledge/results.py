"""What a search gives back, inside the product: frozen, with text and versions from MySQL."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class ScoreKind(StrEnum):
    COSINE = "cosine"
    RERANKER = "reranker"


class Rerank(StrEnum):
    """Whether a reranker had the last word on the order. FAILED: it could not be asked, the fused order stands."""

    OFF = "off"
    APPLIED = "applied"
    FAILED = "failed"


class DegradationReason(StrEnum):
    MILVUS_UNAVAILABLE = "milvus_unavailable"
    EMBEDDING_UNAVAILABLE = "embedding_unavailable"


@dataclass(frozen=True)
class Passage:
    """A chunk of a version that was live when it was verified.

    `document_id` is the row's id (for locks and joins), `source_id` the document's public id. `score` is in
    0..1, null when degraded. `updated_at` is the version's live_from, UTC.
    """

    document_id: int
    source_id: UUID
    version: int
    build: str
    position: int
    title: str
    text: str
    collection: str
    tags: tuple[str, ...]
    updated_at: datetime
    score: float | None = None
    score_kind: ScoreKind | None = None

    @property
    def version_key(self) -> tuple[int, int, str]:
        """What `queries.live_among` compares."""
        return self.document_id, self.version, self.build


@dataclass(frozen=True)
class SearchResult:
    """Passages, best first. `total_candidates` counts what the indexes proposed before verification, each chunk
    once; `truncated` says that more would have qualified than were asked for."""

    query: str
    passages: tuple[Passage, ...]
    searched_collections: tuple[str, ...]
    total_candidates: int = 0
    truncated: bool = False
    degraded: bool = False
    degradation_reason: DegradationReason | None = None
    rerank: Rerank = Rerank.OFF
