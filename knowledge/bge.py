"""bge-m3 and bge-reranker-v2-m3: the one home of FlagEmbedding and torch.

Both are read from a folder of this machine that `fetch_models` has filled; nothing here reaches a network.
FlagEmbedding loads them; its own encode is passed by, because it runs the first batch twice and hides the errors of
that (CUDA's too) behind ever smaller batches, until it fails for want of any.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from django.conf import settings
from numpy.typing import NDArray
from prometheus_client import Counter

from knowledge.encoders import Kind
from knowledge.model_files import Snapshot
from zhifu.errors import Broken, Unavailable

TRUNCATED = Counter("zhifu_model_truncated", "Texts of which a model read only the beginning.", ["model"])

M3 = Snapshot("bge-m3", "BAAI/bge-m3", "5617a9f61b028005a4858fdac845db406aefb181")
RERANKER = Snapshot("bge-reranker-v2-m3", "BAAI/bge-reranker-v2-m3", "953dc6f6f85a1b2dbfca4c34a2796e7dde08d41e")

# Tokens of a question and a passage together; a passage has 500 characters at most.
_PAIR_TOKENS = 1024


class BgeM3:
    """BAAI/bge-m3, dense vectors of 1,024 dimensions; in half precision on a GPU, in full on a CPU.

    The thresholds are those that its first installation was planned with, not measured by us: measure with
    `python -m benchmarks.threshold` on texts of your own.
    """

    model = M3.name
    dimension = 1024
    max_tokens = 8192
    batch_tokens = 16_384
    threshold = 0.6
    threshold_chinese = 0.6

    def __init__(self) -> None:
        self._loaded: Any = None

    @property
    def revision(self) -> str:
        """The commit, and the precision: the two do not give the same vectors."""
        return f"{M3.commit[:16]}-{_precision()}"

    def encode(self, texts: list[str], kind: Kind) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        library = self._library()
        inputs = _padded(library.tokenizer, self.model, self.max_tokens, texts)
        with _inference():
            dense = library.model(inputs.to(settings.MODEL_DEVICE), return_dense=True)["dense_vecs"]
        return np.asarray(dense.float().cpu().numpy(), dtype="<f4")

    def count_tokens(self, text: str) -> int:
        return len(self._library().tokenizer(text)["input_ids"])

    def _library(self) -> Any:
        if self._loaded is None:
            self._loaded = _load("BGEM3FlagModel", M3)
        return self._loaded


class BgeReranker:
    """BAAI/bge-reranker-v2-m3; scores of 0..1, the sigmoid of what it gives. One call at a time.

    The threshold is a guess: `evaluate_retrieval --compare` measures what the model is worth, and `rerank_threshold`
    sets another.
    """

    threshold = 0.1

    def __init__(self) -> None:
        self._loaded: Any = None
        self._owned = threading.Lock()

    def scores(self, query: str, texts: list[str], deadline: float) -> Sequence[float]:
        if not texts:
            return []
        # The tokenizer is not for several threads.
        if not self._owned.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise Unavailable("重排模型繁忙 / The reranker is busy.", code="RERANK_UNAVAILABLE")
        try:
            return self._scores(query, texts)
        finally:
            self._owned.release()

    def _scores(self, query: str, texts: list[str]) -> list[float]:
        library = self._library()
        inputs = _padded(library.tokenizer, RERANKER.name, _PAIR_TOKENS, [query] * len(texts), texts)
        with _inference():
            logits = library.model(**inputs.to(settings.MODEL_DEVICE)).logits
        return [float(score) for score in logits.view(-1).float().sigmoid().cpu()]

    def _library(self) -> Any:
        if self._loaded is None:
            self._loaded = _load("FlagReranker", RERANKER)
        return self._loaded


def _precision() -> str:
    return "fp16" if settings.MODEL_DEVICE.startswith("cuda") else "fp32"


def _load(kind: str, snapshot: Snapshot) -> Any:
    """Return what FlagEmbedding's class `kind` makes of the files of `snapshot`, with its model where it is to run."""
    library = getattr(_flag_embedding(), kind)
    is_half = _precision() == "fp16"
    made = library(str(snapshot.complete_folder()), devices=settings.MODEL_DEVICE, use_fp16=is_half)
    made.model.to(settings.MODEL_DEVICE)
    (made.model.half if is_half else made.model.float)()
    made.model.eval()
    return made


def _flag_embedding() -> Any:
    try:
        import FlagEmbedding
    except ImportError as error:
        raise Broken(
            "此环境未安装 FlagEmbedding，请安装 requirements.txt / FlagEmbedding is not installed here: "
            "pip install -r requirements.txt"
        ) from error
    return FlagEmbedding


def _inference() -> Any:
    import torch

    return torch.inference_mode()


def _padded(tokenizer: Any, name: str, most: int, *texts: list[str]) -> Any:
    """Return tensors of equal length. Of a text of more than `most` tokens the beginning is taken, and counted; of a
    pair the longer one gives way."""
    inputs = tokenizer(*texts, truncation="longest_first", max_length=most, padding=True, return_tensors="pt")
    full = int((inputs["attention_mask"].sum(dim=1) >= most).sum())
    if full:
        TRUNCATED.labels(name).inc(full)
    return inputs
