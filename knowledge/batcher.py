"""The Batcher: one thread owns a model, callers wait for their vectors.

A batch is built the moment the model is free, no timer: the waiting texts of one kind, sorted by length and filled
to a token budget. Queries overtake passages. Waiting is bounded and ends at each caller's deadline.
"""

import logging
import threading
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Counter, Histogram

from knowledge.encoders import Encoder, Kind
from zhifu.errors import Unavailable

logger = logging.getLogger(__name__)

# Texts that may wait, of each kind. More queries could not be answered within their deadline anyway.
CAPACITY = {Kind.QUERY: 200, Kind.PASSAGE: 2000}

WAITED = Histogram(
    "zhifu_embedding_waited_seconds",
    "How long a text waited until the model took it.",
    ["model", "kind"],
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 30, 60),
)
BATCH = Histogram(
    "zhifu_embedding_batch_texts",
    "Texts that the model took in one go.",
    ["model", "kind"],
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
)
SECONDS = Histogram("zhifu_embedding_seconds", "How long the model took for a batch.", ["model", "kind"])
TOKENS = Counter("zhifu_embedding_tokens", "Tokens that the model read.", ["model"])
PADDING = Counter("zhifu_embedding_padding_tokens", "Tokens of padding that it read beside them.", ["model"])


@dataclass(eq=False)
class _Request:
    """The texts of one call, and their vectors as they come."""

    deadline: float
    missing: int
    vectors: list[NDArray[np.float32] | None]
    failure: Exception | None = None
    cancelled: bool = False
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def is_over(self) -> bool:
        return self.cancelled or self.failure is not None or time.monotonic() >= self.deadline


@dataclass(eq=False)
class _Text:
    request: _Request
    index: int
    text: str
    asked: float = field(default_factory=time.monotonic)
    # Counted by the thread that owns the model, once.
    tokens: int | None = None


class Batcher:
    """Encodes for many callers with one model. Its thread starts with the first call and lives with the process."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._waiting: dict[Kind, list[_Text]] = {Kind.QUERY: [], Kind.PASSAGE: []}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def encode(self, texts: list[str], kind: Kind, deadline: float) -> list[NDArray[np.float32]]:
        """Return the vectors of `texts` in their order.

        Raises Unavailable: EMBEDDING_OVERLOADED at once when too many texts wait, EMBEDDING_TIMEOUT at `deadline`
        (a moment of time.monotonic()), EMBEDDING_UNAVAILABLE when the model failed.
        """
        request = _Request(deadline=deadline, missing=len(texts), vectors=[None] * len(texts))
        self._put(kind, [_Text(request, index, text) for index, text in enumerate(texts)])
        if not request.done.wait(max(0.0, deadline - time.monotonic())):
            request.cancelled = True
            raise Unavailable("嵌入超时，请稍后再试 / Embedding took too long; try again.", code="EMBEDDING_TIMEOUT")
        if request.failure is not None:
            raise request.failure
        return [vector for vector in request.vectors if vector is not None]

    def _put(self, kind: Kind, texts: list[_Text]) -> None:
        with self._changed:
            if len(self._waiting[kind]) + len(texts) > CAPACITY[kind]:
                raise Unavailable(
                    "嵌入请求过多，请稍后再试 / Too many texts wait to be embedded; try again shortly.",
                    code="EMBEDDING_OVERLOADED",
                )
            self._waiting[kind].extend(texts)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"encoder-{self._encoder.model}", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            kind, waiting = self._wait()
            try:
                batch = self._choose(waiting)
            except Exception:
                # A model that cannot even count fails whoever came first, when it is asked to encode.
                logger.exception("encoder failed", extra={"model": self._encoder.model})
                batch = waiting[:1]
            self._remove(kind, batch)
            if batch:
                self._count(batch, kind)
                self._encode(batch, kind)

    def _wait(self) -> tuple[Kind, list[_Text]]:
        """Return the texts somebody waits for, queries before passages; those nobody waits for any more are dropped."""
        with self._changed:
            while not any(self._waiting.values()):
                self._changed.wait()
            kind = Kind.QUERY if self._waiting[Kind.QUERY] else Kind.PASSAGE
            self._waiting[kind] = [text for text in self._waiting[kind] if not text.request.is_over]
            return kind, list(self._waiting[kind])

    def _choose(self, waiting: list[_Text]) -> list[_Text]:
        """Return who came first, and others of about its length as far as the token budget goes."""
        if not waiting:
            return []
        first, *others = waiting
        batch, left = [first], self._encoder.batch_tokens - self._tokens(first)
        for text in sorted(others, key=lambda text: abs(len(text.text) - len(first.text))):
            if left <= 0:
                break
            left -= self._tokens(text)
            if left >= 0:
                batch.append(text)
        return sorted(batch, key=lambda text: len(text.text))

    def _tokens(self, text: _Text) -> int:
        if text.tokens is None:
            text.tokens = min(self._encoder.count_tokens(text.text), self._encoder.max_tokens)
        return text.tokens

    def _remove(self, kind: Kind, batch: list[_Text]) -> None:
        with self._changed:
            taken = set(batch)
            self._waiting[kind] = [text for text in self._waiting[kind] if text not in taken]

    def _count(self, batch: list[_Text], kind: Kind) -> None:
        """Tell the metrics what a batch is made of."""
        model, now = self._encoder.model, time.monotonic()
        BATCH.labels(model, kind).observe(len(batch))
        for text in batch:
            WAITED.labels(model, kind).observe(now - text.asked)
        # A text that the model cannot count has none.
        counted = [text.tokens or 0 for text in batch]
        TOKENS.labels(model).inc(sum(counted))
        PADDING.labels(model).inc(len(counted) * max(counted) - sum(counted))

    def _encode(self, batch: list[_Text], kind: Kind) -> None:
        try:
            with SECONDS.labels(self._encoder.model, kind).time():
                vectors = self._encoder.encode([text.text for text in batch], kind)
        except Exception:
            logger.exception("encoder failed", extra={"model": self._encoder.model, "texts": len(batch)})
            self._fail(batch, kind)
            return
        if len(vectors) != len(batch):
            logger.error("encoder lost texts", extra={"model": self._encoder.model, "texts": len(batch)})
            self._fail(batch, kind)
            return
        for text, vector in zip(batch, vectors, strict=True):
            _deliver(text, vector)

    def _fail(self, batch: list[_Text], kind: Kind) -> None:
        """Encode a failed batch one by one: a text that breaks the model fails its own request alone."""
        if len(batch) > 1:
            for text in batch:
                self._encode([text], kind)
            return
        request = batch[0].request
        request.failure = Unavailable(
            "嵌入模型暂不可用 / The embedding model is not available.", code="EMBEDDING_UNAVAILABLE"
        )
        request.done.set()


def _deliver(text: _Text, vector: NDArray[np.float32]) -> None:
    request = text.request
    request.vectors[text.index] = vector
    request.missing -= 1
    if not request.missing:
        request.done.set()
