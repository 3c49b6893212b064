"""Embedding: `embed` turns texts into checked vectors of one model, within a deadline.

Route `inline`: a Batcher in this process.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from django.conf import settings
from numpy.typing import NDArray
from prometheus_client import Counter

from knowledge.batcher import Batcher
from knowledge.encoders import Kind, get_encoder
from zhifu.errors import DimensionMismatch, Unavailable

__all__ = ["Kind", "embed", "embed_query", "ping"]

_batchers: dict[tuple[int, str], Batcher] = {}
_making = threading.Lock()

QUERIES = Counter("zhifu_query_vectors", "Vectors of queries, by whether the model was asked.", ["outcome"])

# A vector of 384 dimensions is 1.5 KB.
_REMEMBERED = 1000
_remembered: OrderedDict[tuple[str, str, str], NDArray[np.float32]] = OrderedDict()
_remembering = threading.Lock()


def embed(texts: list[str], kind: Kind, *, model: str, deadline: float) -> NDArray[np.float32]:
    """Return the vectors of `texts`, shape (len(texts), dimension), in their order, by the encoder named `model`.

    `deadline` is a moment of time.monotonic(). Raises Unavailable (EMBEDDING_OVERLOADED, EMBEDDING_TIMEOUT,
    EMBEDDING_UNAVAILABLE) and DimensionMismatch; never returns a vector that is not finite or is zero.
    """
    encoder = get_encoder(model)
    if not texts:
        return np.empty((0, encoder.dimension), dtype=np.float32)
    return _checked(_batcher(model).encode(texts, kind, deadline), encoder.dimension)


def embed_query(text: str, *, model: str, deadline: float) -> NDArray[np.float32]:
    """Return the vector of one query, remembered in this process and not to be written to; raises as `embed`."""
    key = (model, get_encoder(model).revision, text)
    with _remembering:
        known = _remembered.get(key)
        if known is not None:
            _remembered.move_to_end(key)
            QUERIES.labels("remembered").inc()
            return known
    QUERIES.labels("embedded").inc()
    vector: NDArray[np.float32] = embed([text], Kind.QUERY, model=model, deadline=deadline)[0]
    vector.flags.writeable = False
    with _remembering:
        _remembered[key] = vector
        while len(_remembered) > _REMEMBERED:
            _remembered.popitem(last=False)
    return vector


def ping() -> None:
    """Embed a word with the encoder of new indexes. Raises what `embed` raises when that does not work."""
    embed(["ping"], Kind.QUERY, model=settings.ENCODER, deadline=time.monotonic() + settings.EMBED_DEADLINE_SECONDS)


def _batcher(model: str) -> Batcher:
    key = (os.getpid(), model)
    with _making:
        if key not in _batchers:
            _batchers[key] = Batcher(get_encoder(model))
        return _batchers[key]


def _checked(vectors: Sequence[NDArray[np.float32]], dimension: int) -> NDArray[np.float32]:
    if any(vector.shape != (dimension,) for vector in vectors):
        raise DimensionMismatch(
            "嵌入维度与模型不符 / The encoder gave vectors of another dimension than it states.", stated=dimension
        )
    found = np.stack([np.asarray(vector, dtype=np.float32) for vector in vectors])
    if not np.isfinite(found).all() or not np.linalg.norm(found, axis=1).all():
        raise Unavailable(
            "嵌入模型给出了无效向量 / The encoder gave a vector that is zero or not finite.",
            code="EMBEDDING_UNAVAILABLE",
        )
    return found
