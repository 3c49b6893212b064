"""Embedding within a deadline: order, overtaking, bounds, and what a model may do wrong."""

import threading
import time

import numpy as np
import pytest
from prometheus_client import REGISTRY
from pytest_django.fixtures import Settings

from knowledge import batcher, embedding
from knowledge.batcher import Batcher
from knowledge.encoders import Kind, get_encoder
from tests.fakes import HashingEncoder
from zhifu.errors import Broken, DimensionMismatch, Unavailable


class GatedEncoder(HashingEncoder):
    """Waits at the first batch until the test lets it go, and remembers its batches."""

    batch_tokens = 10

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.started = threading.Event()
        self.batches: list[list[str]] = []

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        self.batches.append(texts)
        self.started.set()
        assert self.gate.wait(10)
        return super().encode(texts, kind)


class BrokenEncoder(HashingEncoder):
    """Fails for some texts."""

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        if any("poison" in text for text in texts):
            raise RuntimeError("CUDA error: device-side assert")
        return super().encode(texts, kind)


class ShortEncoder(HashingEncoder):
    model = "short"

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        return super().encode(texts, kind)[:, :-1]


class ZeroEncoder(HashingEncoder):
    model = "zero"

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        return super().encode(texts, kind) * (0.0 if texts == ["zero"] else np.nan)


class UncountableEncoder(HashingEncoder):
    """Its weights cannot be loaded."""

    def count_tokens(self, text: str) -> int:
        raise OSError("no weights")

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        raise OSError("no weights")


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


def in_thread(work) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def wait_for(condition) -> None:
    deadline = soon(5)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_vectors_come_back_in_the_order_of_the_texts_whatever_their_lengths() -> None:
    texts = [f"{'字' * (index * 7 % 11)}{index}" for index in range(40)]
    found = embedding.embed(texts, Kind.PASSAGE, model="hashing", deadline=soon())
    assert found.shape == (40, 64)
    assert found.dtype == np.float32
    assert np.array_equal(found, HashingEncoder().encode(texts, Kind.PASSAGE))


def test_no_texts_give_no_vectors() -> None:
    assert embedding.embed([], Kind.PASSAGE, model="hashing", deadline=soon()).shape == (0, 64)


def test_an_unknown_encoder_is_an_error_and_not_an_outage() -> None:
    with pytest.raises(Broken):
        embedding.embed(["a"], Kind.QUERY, model="unknown", deadline=soon())


def test_a_query_overtakes_waiting_passages_and_short_texts_share_a_batch() -> None:
    encoder = GatedEncoder()
    one = Batcher(encoder)
    threads = [in_thread(lambda: one.encode(["first passage"], Kind.PASSAGE, soon()))]
    assert encoder.started.wait(5)
    threads.append(in_thread(lambda: one.encode(["ab", "a long passage text", "cd"], Kind.PASSAGE, soon())))
    wait_for(lambda: len(one._waiting[Kind.PASSAGE]) == 3)
    threads.append(in_thread(lambda: one.encode(["query"], Kind.QUERY, soon())))
    wait_for(lambda: len(one._waiting[Kind.QUERY]) == 1)
    encoder.gate.set()
    for thread in threads:
        thread.join(5)
    assert encoder.batches == [["first passage"], ["query"], ["ab", "cd"], ["a long passage text"]]


class MeasuredEncoder(GatedEncoder):
    model = "measured"


def test_the_metrics_say_what_the_batches_were_made_of() -> None:
    def value(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(f"zhifu_embedding_{name}", {"model": "measured", **labels}) or 0.0

    encoder = MeasuredEncoder()
    one = Batcher(encoder)
    threads = [in_thread(lambda: one.encode(["first"], Kind.PASSAGE, soon()))]
    assert encoder.started.wait(5)
    threads.append(in_thread(lambda: one.encode(["abcd", "efgh", "ij"], Kind.PASSAGE, soon())))
    wait_for(lambda: len(one._waiting[Kind.PASSAGE]) == 3)
    time.sleep(0.05)
    encoder.gate.set()
    for thread in threads:
        thread.join(5)
    assert encoder.batches == [["first"], ["ij", "abcd", "efgh"]]
    assert value("batch_texts_count", kind="passage") == 2
    assert value("batch_texts_sum", kind="passage") == 4
    assert value("waited_seconds_count", kind="passage") == 4
    assert value("waited_seconds_sum", kind="passage") >= 3 * 0.05
    assert value("seconds_count", kind="passage") == 2
    # Characters are tokens here; the third text was filled up to four.
    assert value("tokens_total") == 5 + 4 + 4 + 2
    assert value("padding_tokens_total") == 2


def test_a_full_queue_refuses_at_once_and_queries_have_room_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(batcher.CAPACITY, Kind.PASSAGE, 2)
    encoder = GatedEncoder()
    one = Batcher(encoder)
    threads = [in_thread(lambda: one.encode(["first"], Kind.PASSAGE, soon()))]
    assert encoder.started.wait(5)
    threads.append(in_thread(lambda: one.encode(["a", "b"], Kind.PASSAGE, soon())))
    wait_for(lambda: len(one._waiting[Kind.PASSAGE]) == 2)
    before = time.monotonic()
    with pytest.raises(Unavailable) as refused:
        one.encode(["c"], Kind.PASSAGE, soon())
    assert refused.value.code == "EMBEDDING_OVERLOADED"
    assert time.monotonic() - before < 1
    threads.append(in_thread(lambda: one.encode(["q"], Kind.QUERY, soon())))
    encoder.gate.set()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def test_a_caller_leaves_at_its_deadline_and_its_texts_are_skipped() -> None:
    encoder = GatedEncoder()
    one = Batcher(encoder)
    thread = in_thread(lambda: one.encode(["first"], Kind.QUERY, soon()))
    assert encoder.started.wait(5)
    before = time.monotonic()
    with pytest.raises(Unavailable) as late:
        one.encode(["nobody waits for this"], Kind.QUERY, soon(0.1))
    assert late.value.code == "EMBEDDING_TIMEOUT"
    assert time.monotonic() - before < 2
    encoder.gate.set()
    thread.join(5)
    one.encode(["last"], Kind.QUERY, soon())
    assert encoder.batches == [["first"], ["last"]]


def test_a_text_that_breaks_the_model_fails_alone() -> None:
    one = Batcher(BrokenEncoder())
    outcomes: dict[str, object] = {}

    def ask(text: str) -> None:
        try:
            outcomes[text] = one.encode([text], Kind.PASSAGE, soon())
        except Unavailable as failure:
            outcomes[text] = failure.code

    threads = [in_thread(lambda text=text: ask(text)) for text in ("good", "poison", "also good")]
    for thread in threads:
        thread.join(5)
    assert outcomes.pop("poison") == "EMBEDDING_UNAVAILABLE"
    assert all(isinstance(found, list) for found in outcomes.values())
    assert set(outcomes) == {"good", "also good"}


def test_a_model_that_cannot_be_loaded_fails_each_call_at_once() -> None:
    one = Batcher(UncountableEncoder())
    for _ in range(2):
        before = time.monotonic()
        with pytest.raises(Unavailable) as failed:
            one.encode(["a", "b"], Kind.PASSAGE, soon())
        assert failed.value.code == "EMBEDDING_UNAVAILABLE"
        assert time.monotonic() - before < 2


def test_a_vector_of_another_length_is_a_mismatch(settings: Settings) -> None:
    settings.ENCODERS = {**settings.ENCODERS, "short": f"{__name__}.ShortEncoder"}
    with pytest.raises(DimensionMismatch) as mismatch:
        embedding.embed(["a"], Kind.PASSAGE, model="short", deadline=soon())
    assert mismatch.value.code == "EMBEDDING_DIMENSION_MISMATCH"


@pytest.mark.parametrize("text", ["zero", "not a number"])
def test_a_vector_that_is_zero_or_not_finite_is_never_returned(settings: Settings, text: str) -> None:
    settings.ENCODERS = {**settings.ENCODERS, "zero": f"{__name__}.ZeroEncoder"}
    with pytest.raises(Unavailable):
        embedding.embed([text], Kind.PASSAGE, model="zero", deadline=soon())


# --- Queries are remembered ---
class CountedEncoder(HashingEncoder):
    """Counts what it is asked; another revision is another vector space."""

    model = "counted"
    asked: list[str] = []  # of all instances: a process makes its own

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        CountedEncoder.asked += texts
        if any("poison" in text for text in texts):
            raise RuntimeError("CUDA error")
        return super().encode(texts, kind) * (-1 if self.revision == "2" else 1)


class NextEncoder(CountedEncoder):
    model = "next"


@pytest.fixture
def counted(settings: Settings) -> list[str]:
    """The texts that the two counting encoders were asked for."""
    names = ("counted", "next")
    paths = (f"{__name__}.CountedEncoder", f"{__name__}.NextEncoder")
    settings.ENCODERS = {**settings.ENCODERS, **dict(zip(names, paths, strict=True))}
    embedding._remembered.clear()
    CountedEncoder.asked = []
    return CountedEncoder.asked


def test_a_query_is_embedded_once_for_each_model_and_text(counted: list[str]) -> None:
    first = embedding.embed_query("怎么退货", model="counted", deadline=soon())
    assert embedding.embed_query("怎么退货", model="counted", deadline=soon()) is first
    assert counted == ["怎么退货"]
    embedding.embed_query("怎么退货？", model="counted", deadline=soon())
    embedding.embed_query("怎么退货", model="next", deadline=soon())
    assert counted == ["怎么退货", "怎么退货？", "怎么退货"]


def test_another_revision_of_a_model_is_asked_again(counted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = embedding.embed_query("怎么退货", model="counted", deadline=soon())
    monkeypatch.setattr(get_encoder("counted"), "revision", "2", raising=False)
    second = embedding.embed_query("怎么退货", model="counted", deadline=soon())
    assert len(counted) == 2
    assert np.allclose(first, -second)


def test_a_failure_is_not_remembered_and_a_remembered_vector_cannot_be_changed(counted: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(Unavailable):
            embedding.embed_query("poison", model="counted", deadline=soon())
    assert len(counted) == 2
    vector = embedding.embed_query("怎么退货", model="counted", deadline=soon())
    with pytest.raises(ValueError, match="read-only"):
        vector *= 2


def test_only_so_many_queries_are_remembered_the_last_ones(counted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "_REMEMBERED", 2)
    for text in ("一", "二", "一", "三"):
        embedding.embed_query(text, model="counted", deadline=soon())
    assert [text for _model, _revision, text in embedding._remembered] == ["一", "三"]


def test_eight_threads_get_their_own_vectors() -> None:
    encoder = get_encoder("hashing")
    wrong: list[str] = []

    def ask(name: str) -> None:
        for index in range(30):
            text = f"{name} {index} {'x' * (index % 5)}"
            found = embedding.embed([text, name], Kind.PASSAGE, model="hashing", deadline=soon())
            if not np.array_equal(found, encoder.encode([text, name], Kind.PASSAGE)):
                wrong.append(text)

    threads = [in_thread(lambda name=f"thread {number}": ask(name)) for number in range(8)]
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert wrong == []
