"""Milvus killed, hung, unloaded and emptied while callers ask, and back each time: `make outages`.

The callers ask a gunicorn with two processes over HTTP, each half a second after its last answer: all together about
thirty times a second. A phase counts what was answered in it. Exit status 1 when a bound is broken. The encoder is the
tests' hashing one.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from benchmarks import setting
from tests.factories import Shop, make_shop
from tests.processes.outage import Crowd, Milvus, Phase, publish_again, publish_documents
from tests.processes.system import System

MOST_MILLISECONDS = 300
MOST_SECONDS_TO_RECOVER = 15
AWAY = {"killed", "hung"}
BACK = {"killed: back", "hung: back", "emptied: published again"}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--callers", type=int, default=16)
    options.add_argument("--documents", type=int, default=24)
    options.add_argument("--pause", type=float, default=0.5, help="seconds between an answer and the next question")
    options.add_argument("--away", type=float, default=30, help="seconds that Milvus is killed, and that it hangs")
    chosen = options.parse_args()
    with setting.database(), tempfile.TemporaryDirectory() as folder:
        system, milvus = System(Path(folder)), Milvus(Path(folder))
        try:
            milvus.start()
            settings.MILVUS_URL = milvus.url
            shop = make_shop()
            publish_documents(shop, chosen.documents)
            system.start_broker()
            system.start_web(workers=2, ZHIFU_TEST_MILVUS_URL=milvus.url)
            with Crowd(system.url, shop, chosen.callers, chosen.documents, pause=chosen.pause) as crowd:
                phases = list(play(crowd, milvus, shop, chosen.away))
        finally:
            system.stop()
            milvus.stop()
    return report(phases, chosen.callers)


def play(crowd: Crowd, milvus: Milvus, shop: Shop, away: float) -> Iterator[Phase]:
    within = MOST_SECONDS_TO_RECOVER
    yield crowd.phase("warming up", lambda: None, 3)
    yield crowd.phase("healthy", lambda: None, 10)
    yield crowd.phase("killed", milvus.kill, away)
    yield crowd.recovery("killed: back", milvus.start, 5, within=within)
    yield crowd.phase("hung", milvus.hang, away)
    yield crowd.recovery("hung: back", milvus.go_on, 5, within=within)
    yield crowd.phase("unloaded", milvus.release_all, 5)
    yield crowd.phase("emptied", milvus.come_back_empty, 10)
    yield crowd.recovery("emptied: published again", lambda: publish_again(shop), 5, within=within)


def report(phases: list[Phase], callers: int) -> int:
    """Print a line for each phase and what is broken; return the exit status."""
    print(f"{callers} callers; p95 open: of those that began after the first marked answer; ms, and seconds")
    print(
        f"{'phase':<25} {'asked':>6} {'errors':>6} {'marked':>7} {'wrong':>6} {'p50':>6} {'p95':>6} {'p95 open':>8}"
        f" {'marked after':>12} {'normal after':>12} {'all normal':>10}"
    )
    for phase in phases[1:]:
        is_back = phase.name in BACK
        print(
            f"{phase.name:<25} {len(phase.told):>6} {phase.errors:>6} {len(phase.degraded) / len(phase.told):>7.1%}"
            f" {phase.unmarked_wrong:>6} {phase.milliseconds(50):>6.0f} {phase.milliseconds(95):>6.0f}"
            f" {phase.milliseconds_once_open(95) if phase.degraded else 0:>8.0f}"
            f" {_seconds(phase.first_degraded if not is_back else None):>12}"
            f" {_seconds(phase.first_normal if is_back else None):>12}"
            f" {_seconds(phase.all_normal if is_back else None):>10}"
        )
    broken = [fault for phase in phases for fault in faults(phase)]
    for fault in broken:
        print(f"BROKEN: {fault}")
    return 1 if broken else 0


def faults(phase: Phase) -> Iterator[str]:
    """Say which bounds a phase broke."""
    if phase.errors:
        yield f"{phase.name}: {phase.errors} requests got no answer"
    if phase.unmarked_wrong:
        yield f"{phase.name}: {phase.unmarked_wrong} answers were wrong and not marked"
    if phase.reasons - {"milvus_unavailable"}:
        yield f"{phase.name}: marked with other reasons: {sorted(phase.reasons)}"
    if phase.name in AWAY and not phase.milliseconds_once_open(95) <= MOST_MILLISECONDS:
        yield f"{phase.name}: p95 of {phase.milliseconds_once_open(95):.0f} ms once the breaker is open"
    if phase.name in BACK and (phase.first_normal is None or phase.all_normal > MOST_SECONDS_TO_RECOVER):
        yield f"{phase.name}: not all normal within {MOST_SECONDS_TO_RECOVER} s"
    if phase.name in {"healthy", "unloaded"} and phase.degraded:
        yield f"{phase.name}: {len(phase.degraded)} answers were marked"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


if __name__ == "__main__":
    sys.exit(main())
