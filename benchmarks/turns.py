"""What the platform itself takes per turn when the model takes nothing: `make benchmarks`.

A turn is accepting a message, claiming the run, two model calls (the built-in model, whose time is taken out), one
search, checks before and after each, and the locked commit. The bare part is the one search a turn cannot do without.
"""

import argparse
import time
from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import AgentRun
from benchmarks import filling, setting
from config import offline
from conversations import services, turns
from knowledge import retrieval
from tests.factories import Shop
from zhifu.jobs import JobStatus


class ModelTime:
    """Takes the time spent in the built-in model out of the platform's."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._complete = offline.complete
        offline.complete = self

    def __call__(self, *args: object) -> object:
        started = time.perf_counter()
        try:
            return self._complete(*args)
        finally:
            self.seconds += time.perf_counter() - started


def turn(shop: Shop, model: ModelTime) -> tuple[float, float]:
    """Answer one question; return the seconds for accepting it and for the turn, the model's taken out."""
    conversation = services.create_conversation(scope=shop.customer_scope)
    question = setting.questions(1, seed=time.perf_counter_ns())[0]
    started = time.perf_counter()
    _message, run = services.accept_message(
        scope=shop.customer_scope, conversation_id=conversation.public_id, text=question
    )
    accepted = time.perf_counter() - started
    thought, started = model.seconds, time.perf_counter()
    turns.run_turn(run.pk)
    whole = time.perf_counter() - started - (model.seconds - thought)
    assert AgentRun.objects.get(pk=run.pk).status == JobStatus.COMPLETED
    return accepted, whole


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--chunks", type=int, default=400)
    options.add_argument("--turns", type=int, default=200)
    chosen = options.parse_args()
    with setting.database():
        shop = filling.shop_with_chunks(chosen.chunks)
        model = ModelTime()
        for _ in range(5):
            turn(shop, model)
        measured = [turn(shop, model) for _ in range(chosen.turns)]
        search = setting.timed(searcher(shop), setting.questions(chosen.turns, seed=3), callers=1)
        with CaptureQueriesContext(connection) as queries:
            turn(shop, model)
        report(measured, search, len(queries))


def searcher(shop: Shop) -> Callable[[str], object]:
    scope = shop.customer_scope
    return lambda question: retrieval.search(scope, question)


def report(measured: list[tuple[float, float]], search: list[float], queries: int) -> None:
    print(f"{'':<28} {'p50':>7} {'p95':>7}   ms")
    rows = {
        "accept a message": [accepted for accepted, _turn in measured],
        "a turn without the model": [whole for _accepted, whole in measured],
        "  of it one bare search": search,
    }
    for name, seconds in rows.items():
        p50, p95 = setting.percentiles(seconds)
        print(f"{name:<28} {p50:>7.1f} {p95:>7.1f}")
    print(f"{queries} queries from creating the conversation to the committed answer")


if __name__ == "__main__":
    main()
