"""`knowledge/default`: how a search is routed and judged. Until a release is active, the safe defaults below, with
what settings.KNOWLEDGE changes in them."""

import json
import logging
from functools import lru_cache
from typing import Any, Literal

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, ValidationError

logger = logging.getLogger(__name__)


class Route(BaseModel):
    """Where an intent searches, and how many passages of that collection may come back. Which collections there are,
    the search knows, and refuses any other."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    collection: str
    top_k: int = Field(ge=1, le=20)


_ROUTES = {
    "faq": Route(collection="faq", top_k=3),
    "product_inquiry": Route(collection="product", top_k=5),
    "policy_explain": Route(collection="policy", top_k=5),
}


class KnowledgeSettings(BaseModel):
    """`similarity_threshold` is for cosines, None: the encoder's own; `rerank_threshold` for a reranker's scores, None:
    the reranker's own. `milvus_timeout_seconds` is for all that one look asks of Milvus. `dense_weight`: what meaning
    counts against words in `convex`. `rerank` names a reranker; without one the fused order stands."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    collections: dict[str, Route] = Field(default_factory=lambda: dict(_ROUTES), min_length=1)
    similarity_threshold: float | None = Field(default=None, ge=0, le=1)
    fallback_enabled: bool = True
    milvus_timeout_seconds: float = Field(default=2.0, gt=0, le=8)
    fusion: Literal["rrf", "convex"] = "convex"
    dense_weight: float = Field(default=0.75, ge=0, le=1)
    rerank: str = Field(default="", max_length=64)
    rerank_threshold: float | None = Field(default=None, ge=0, le=1)


def knowledge_settings() -> KnowledgeSettings:
    """Return the values in force. A broken one falls back to its safe default, alone, and is logged, once."""
    return _read(json.dumps(settings.KNOWLEDGE, sort_keys=True, default=str))[0]


def problems() -> list[str]:
    """Return what is wrong with the values that this installation gives, a sentence each."""
    return _read(json.dumps(settings.KNOWLEDGE, sort_keys=True, default=str))[1]


@lru_cache(maxsize=16)
def _read(given: str) -> tuple[KnowledgeSettings, list[str]]:
    values = json.loads(given)
    if not isinstance(values, dict):
        return _defaults({}, ["it is no JSON object"])
    try:
        return KnowledgeSettings(**values), []
    except ValidationError as error:
        broken = {str(problem["loc"][0]): problem["msg"] for problem in error.errors()}
        known = ", ".join(KnowledgeSettings.model_fields)
        said = [
            f"{name}: {message}" if name in KnowledgeSettings.model_fields else f"{name}: unknown; known are {known}"
            for name, message in broken.items()
        ]
        return _defaults({name: value for name, value in values.items() if name not in broken}, said)


def _defaults(values: dict[str, Any], said: list[str]) -> tuple[KnowledgeSettings, list[str]]:
    logger.error("ZHIFU_KNOWLEDGE has broken values, their defaults are used", extra={"problems": said})
    return KnowledgeSettings(**values), said
