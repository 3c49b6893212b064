"""bge-m3 and its reranker through FlagEmbedding, on small models of the same shape."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from pytest_django.fixtures import Settings

from knowledge import bge
from knowledge.bge import BgeM3, BgeReranker
from knowledge.encoders import Kind
from tests.knowledge import tiny_models
from zhifu.errors import Broken, Unavailable

TEXTS = ["键盘怎么清洁？", "How do I clean the keyboard?", "退货政策：七天无理由。" * 20, "😀", " "]


class TinyM3(BgeM3):
    dimension = 32


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_models.save_embedder(folder / bge.M3.name / bge.M3.commit)
    tiny_models.save_reranker(folder / bge.RERANKER.name / bge.RERANKER.commit)
    return folder


@pytest.fixture
def encoder(models: Path, settings: Settings) -> BgeM3:
    settings.MODELS_PATH = models
    return TinyM3()


@pytest.fixture
def reranker(models: Path, settings: Settings) -> BgeReranker:
    settings.MODELS_PATH = models
    return BgeReranker()


def test_vectors_are_those_of_flag_embedding_in_the_order_of_the_texts(encoder: BgeM3) -> None:
    from FlagEmbedding import BGEM3FlagModel

    theirs = BGEM3FlagModel(str(bge.M3.folder), devices="cpu", use_fp16=False).encode(TEXTS, max_length=8192)
    ours = encoder.encode(TEXTS, Kind.PASSAGE)
    assert ours.shape == (len(TEXTS), 32)
    assert ours.dtype == np.float32
    assert np.abs(ours - theirs["dense_vecs"]).max() < 1e-3
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-4)
    # Texts that differ are told apart: equal vectors would make the comparison above say nothing.
    assert np.abs(ours[0] - ours[1]).max() > 0.1


def test_a_vector_does_not_depend_on_what_is_encoded_beside_it(encoder: BgeM3) -> None:
    together = encoder.encode(TEXTS, Kind.QUERY)
    alone = np.concatenate([encoder.encode([text], Kind.QUERY) for text in TEXTS])
    assert np.abs(together - alone).max() < 1e-4


def test_no_text_no_vector(encoder: BgeM3) -> None:
    assert encoder.encode([], Kind.PASSAGE).shape == (0, 32)


def test_of_a_text_longer_than_the_model_reads_the_beginning_counts_and_is_counted(
    encoder: BgeM3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "max_tokens", 512)
    before = bge.TRUNCATED.labels("bge-m3")._value.get()
    long = "x" * 900
    assert encoder.count_tokens(long) > encoder.max_tokens
    vectors = encoder.encode([long, long + "y", "short"], Kind.PASSAGE)
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-4
    assert bge.TRUNCATED.labels("bge-m3")._value.get() == before + 2


def test_the_revision_says_commit_and_precision(encoder: BgeM3, settings: Settings) -> None:
    assert encoder.revision == f"{bge.M3.commit[:16]}-fp32"
    settings.MODEL_DEVICE = "cuda:0"
    assert encoder.revision == f"{bge.M3.commit[:16]}-fp16"


def test_an_error_of_the_model_is_not_hidden(encoder: BgeM3, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __call__(self, *_: object, **__: object) -> object:
            raise RuntimeError("CUDA error: device-side assert triggered")

    encoder.encode(["键盘"], Kind.QUERY)
    monkeypatch.setattr(encoder._loaded, "model", Failing())
    with pytest.raises(RuntimeError, match="device-side assert"):
        encoder.encode(["键盘"], Kind.QUERY)


def test_without_its_files_it_says_what_brings_them(settings: Settings, tmp_path: Path) -> None:
    settings.MODELS_PATH = tmp_path
    for model in (TinyM3().encode, lambda texts, _: BgeReranker().scores("q", texts, time.monotonic() + 5)):
        with pytest.raises(Broken) as refused:
            model(["键盘"], Kind.QUERY)
        assert str(tmp_path) in refused.value.message
        assert "fetch_models bge-" in refused.value.message


def test_without_the_library_it_says_what_to_install(encoder: BgeM3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "FlagEmbedding", None)
    with pytest.raises(Broken, match=r"requirements\.txt"):
        encoder.encode(["键盘"], Kind.QUERY)


def test_scores_are_those_of_flag_embedding_normalised(reranker: BgeReranker) -> None:
    from FlagEmbedding import FlagReranker

    library = FlagReranker(str(bge.RERANKER.folder), devices="cpu", use_fp16=False)
    theirs = library.compute_score([("键盘怎么清洁", text) for text in TEXTS], normalize=True, max_length=1024)
    ours = reranker.scores("键盘怎么清洁", TEXTS, time.monotonic() + 10)
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert all(0 <= score <= 1 for score in ours)
    assert max(ours) - min(ours) > 0.01


def test_a_question_longer_than_a_pair_may_be_is_judged_all_the_same(reranker: BgeReranker) -> None:
    question = "x" * 2000
    assert len(reranker._library().tokenizer(question)["input_ids"]) > bge._PAIR_TOKENS
    before = bge.TRUNCATED.labels(bge.RERANKER.name)._value.get()
    (score,) = reranker.scores(question, ["y" * 500], time.monotonic() + 10)
    assert 0 <= score <= 1
    assert bge.TRUNCATED.labels(bge.RERANKER.name)._value.get() == before + 1


def test_no_passage_no_score(reranker: BgeReranker) -> None:
    assert reranker.scores("q", [], time.monotonic() + 5) == []


def test_many_threads_get_their_own_scores_and_who_has_no_time_is_told(reranker: BgeReranker) -> None:
    alone = {text: reranker.scores("键盘", [text], time.monotonic() + 10)[0] for text in TEXTS}
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(reranker.scores, "键盘", [text], time.monotonic() + 30) for text in TEXTS * 8]
        for text, future in zip(TEXTS * 8, asked, strict=True):
            assert future.result()[0] == pytest.approx(alone[text], abs=1e-4)
    with reranker._owned, pytest.raises(Unavailable):
        reranker.scores("键盘", TEXTS, time.monotonic() + 0.05)
