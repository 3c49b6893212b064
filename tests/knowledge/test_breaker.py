"""The shared breaker: a dead address is asked now and then, a busy process suspects nobody."""

from uuid import uuid4

import pytest
from django.core.cache import cache

from knowledge import breaker
from knowledge.breaker import Overloaded
from zhifu.errors import Unavailable

REFUSAL = Unavailable("refused without asking")


class Milvus:
    """Counts how often it is asked; answers, or raises what it was told to."""

    def __init__(self) -> None:
        self.address = f"milvus-{uuid4()}"
        self.asked = 0
        self.failure: Unavailable | None = None

    def ask(self) -> str:
        return breaker.guarded(self.address, self._answer, REFUSAL)

    def _answer(self) -> str:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return "answer"


@pytest.fixture
def milvus() -> Milvus:
    return Milvus()


def test_after_a_failure_the_others_are_refused_without_asking(milvus: Milvus) -> None:
    milvus.failure = Unavailable("down")
    with pytest.raises(Unavailable, match="down"):
        milvus.ask()
    for _ in range(3):
        with pytest.raises(Unavailable, match="refused without asking"):
            milvus.ask()
    assert milvus.asked == 1


def test_one_success_ends_the_suspicion(milvus: Milvus) -> None:
    milvus.failure = Unavailable("down")
    with pytest.raises(Unavailable, match="down"):
        milvus.ask()
    milvus.failure = None
    cache.delete(f"trying:{milvus.address}")  # a few seconds later
    assert milvus.ask() == "answer"
    assert milvus.ask() == "answer"


def test_a_process_without_room_suspects_nobody(milvus: Milvus) -> None:
    milvus.failure = Overloaded("no thread was free")
    with pytest.raises(Overloaded):
        milvus.ask()
    milvus.failure = None
    assert milvus.ask() == "answer"
