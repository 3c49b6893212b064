"""Milvus goes away in every way while callers ask, and comes back: `benchmarks/outages.py` in short."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from tests.factories import Shop
from tests.processes.outage import Crowd, Milvus, Phase, publish_again, publish_documents
from tests.processes.system import System

pytestmark = [pytest.mark.processes, pytest.mark.faults, pytest.mark.timeout(300)]

DOCUMENTS = 8
CALLERS = 4
# Milvus' own timeout is 2 s: whoever waits less did not wait for it. The machine that runs the tests may be busy:
# `make outages` holds the product to 300 ms.
NOT_MILVUS_MILLISECONDS = 1500
RECOVERY_SECONDS = 15


@pytest.fixture
def milvus(tmp_path: Path, settings: Settings) -> Iterator[Milvus]:
    milvus = Milvus(tmp_path)
    milvus.start()
    settings.MILVUS_URL = milvus.url
    yield milvus
    milvus.stop()


@pytest.fixture
def crowd(system: System, milvus: Milvus, merchant: Shop) -> Iterator[Crowd]:
    """Callers of two web processes that share one breaker; every question has one right document."""
    publish_documents(merchant, DOCUMENTS)
    system.start_broker()
    system.start_web(workers=2, ZHIFU_TEST_MILVUS_URL=milvus.url)
    with Crowd(system.url, merchant, CALLERS, DOCUMENTS) as crowd:
        assert_normal(crowd.recovery("begin", lambda: None, 1, within=RECOVERY_SECONDS))
        yield crowd


def assert_marked_or_right(phase: Phase) -> None:
    assert phase.told
    assert phase.errors == 0, {one.status for one in phase.told}
    assert phase.unmarked_wrong == 0
    assert phase.reasons <= {"milvus_unavailable"}


def assert_away(phase: Phase) -> None:
    assert_marked_or_right(phase)
    assert phase.degraded
    assert phase.milliseconds_once_open(50) < NOT_MILVUS_MILLISECONDS


def assert_normal(phase: Phase) -> None:
    assert_marked_or_right(phase)
    assert phase.normal
    assert phase.all_normal <= RECOVERY_SECONDS


def test_a_milvus_that_is_killed_or_hangs_costs_its_callers_little_and_is_back_soon(
    crowd: Crowd, milvus: Milvus
) -> None:
    assert_away(crowd.phase("killed", milvus.kill, 4))
    assert_normal(crowd.recovery("back", milvus.start, 1, within=RECOVERY_SECONDS))
    assert_away(crowd.phase("hung", milvus.hang, 6))
    assert_normal(crowd.recovery("back", milvus.go_on, 1, within=RECOVERY_SECONDS))


def test_a_milvus_that_comes_back_empty_is_never_believed_until_all_is_published_again(
    crowd: Crowd, milvus: Milvus, merchant: Shop
) -> None:
    # A collection that somebody unloaded loads itself: nobody is told anything.
    unloaded = crowd.phase("unloaded", milvus.release_all, 1)
    assert_normal(unloaded)
    emptied = crowd.phase("emptied", milvus.come_back_empty, 3)
    assert_marked_or_right(emptied)
    assert emptied.degraded
    assert_normal(crowd.recovery("published again", lambda: publish_again(merchant), 1, within=RECOVERY_SECONDS))
