"""Memory as a state machine: two customers of two merchants decide, talk and are read, workers die, stall and overtake
each other at every fault point, the store goes away and loses things, days pass. After each step everything that may
be read is compared with a reference, and the store with the tables.

All in one thread, interleaved at fault points, under a clock that only the machine moves: the same choices always give
the same history.
"""

import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.test import override_settings
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.memory import promises
from tests.memory.books import CHANGE_POINTS, JOB_POINTS, LEASE, READ_POINTS, RUN_POINTS, Plan
from tests.memory.surroundings import WISHES, CuttableRedis, Line
from tests.memory.world import SMALL_TALK, World

_DECISIONS = ("clear", "withdraw", "change", "return", "neighbour")
_LINES = ("cut", "deafen", "mend")
_JOB_ACTS = ("kill", "takeover", "other_takeover", "sweep", "turn", "open_turn", *_DECISIONS, *_LINES)
_RUN_ACTS = ("kill", "takeover", "lose", *_DECISIONS, *_LINES)
_CHANGE_ACTS = ("kill", "sweep", "sweep_then_die", *_DECISIONS, *_LINES)
# What is most likely to hurt, so that it is tried often.
_SWEPT_THEN_DEAD: Plan = ("memory.before_write", ("sweep_then_die",))
_SORE_SPOTS: list[Plan] = [
    ("memory.after_model", ("clear",)),
    ("memory.before_write", ("sweep",)),
    _SWEPT_THEN_DEAD,
    ("memory.before_write", ("takeover",)),
    ("memory.after_write", ("kill",)),
    ("memory.after_write", ("sweep",)),
    ("memory.before_commit", ("clear",)),
    ("memory.before_commit", ("takeover",)),
    ("memory.before_commit", ("other_takeover",)),
    ("memory.before_commit", ("open_turn",)),
    ("memory.in_commit", ("kill",)),
]
_SORE_SPOTS_OF_RUNS: list[Plan] = [
    ("agents.after_recall", ("withdraw",)),
    ("agents.after_recall", ("clear",)),
    ("agents.before_commit", ("clear",)),
    ("agents.before_commit", ("change",)),
    ("agents.before_commit", ("kill",)),
    ("agents.in_commit", ("kill",)),
]
# What overtakes somebody who reads; the last two take what was found from under them.
_OVERTAKINGS: list[tuple[str, ...]] = [
    *((act,) for act in _DECISIONS),
    ("clear", "sweep"),
    ("change", "sweep"),
]
_VALUES = {
    "response_style": ("concise", "detailed", None),
    "language": ("zh-Hant", "yue", None),
    "contact_channel": ("wechat", "whatsapp", None),
}


def _plans(points: tuple[str, ...], acts: tuple[str, ...], sore_spots: list[Plan]) -> st.SearchStrategy[Any]:
    single: list[Plan] = [(point, (act,)) for point in points for act in acts]
    double = st.tuples(st.sampled_from(points), st.tuples(st.sampled_from(acts), st.sampled_from(acts)))
    return st.one_of(st.none(), st.sampled_from(sore_spots), st.sampled_from(single), double)


# The first customer is the one that most happens to.
customers = st.sampled_from((0, 0, 0, 1))
texts = st.sampled_from(list(WISHES))
settings_texts = st.sampled_from([text for text, wished in WISHES.items() if any(wished.values())])
# Each pair speaks of the same field.
_PAIRS = [(first, second) for first in WISHES for second in WISHES if first != second]
contradictions = st.sampled_from([pair for pair in _PAIRS if WISHES[pair[0]].keys() & WISHES[pair[1]].keys()])
job_plans = _plans(JOB_POINTS, _JOB_ACTS, _SORE_SPOTS)
run_plans = _plans(RUN_POINTS, _RUN_ACTS, _SORE_SPOTS_OF_RUNS)
change_plans = _plans(CHANGE_POINTS, _CHANGE_ACTS, [("memory.after_write", ("sweep",)), _SWEPT_THEN_DEAD])
overtakings = st.tuples(st.sampled_from(READ_POINTS), st.sampled_from(_OVERTAKINGS))
changes = st.dictionaries(st.sampled_from(list(_VALUES)), st.none(), min_size=1).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(_VALUES[name]) for name in names})
)
_indexes = st.integers(0, 20)


class PromiseBroken(AssertionError):
    """One of the promises about memory does not hold."""


class MemoryMachine(RuleBasedStateMachine):
    with_langmem = False

    def __init__(self) -> None:
        super().__init__()
        # Each history begins with the same tables and leaves none of its rows.
        self._savepoint = transaction.savepoint()
        self.world = World(with_langmem=self.with_langmem)

    # --- customers ---
    @rule(customer=customers, consent=st.sampled_from((None, None, True, False)))
    def decide(self, customer: int, consent: bool | None) -> None:
        self.world.decide(customer, consent)

    @rule(customer=customers, wanted=changes, plan=change_plans)
    def change(self, customer: int, wanted: dict[str, str | None], plan: Plan | None) -> None:
        self.world.change(customer, wanted, plan)

    # --- what is said is answered, and read ---
    @rule(customer=customers, text=texts, plan=st.sampled_from(_SORE_SPOTS))
    def learn_at_a_sore_spot(self, customer: int, text: str, plan: Plan) -> None:
        self._learn(customer, text, plan)

    @rule(customer=customers, text=settings_texts)
    def learn_too_late_and_die(self, customer: int, text: str) -> None:
        self._learn(customer, text, _SWEPT_THEN_DEAD)

    @rule(customer=customers, text=texts, plan=job_plans)
    def learn(self, customer: int, text: str, plan: Plan | None) -> None:
        self._learn(customer, text, plan)

    @rule(customer=customers, first=texts, second=texts, plan=run_plans)
    def learn_in_reverse(self, customer: int, first: str, second: str, plan: Plan | None) -> None:
        """Two things are said, and the later one is read first."""
        self._learn_in_reverse(customer, first, second, plan)

    @rule(customer=customers, pair=contradictions)
    def contradict_oneself(self, customer: int, pair: tuple[str, str]) -> None:
        self._have_consent(customer)
        self._learn_in_reverse(customer, *pair, plan=None)

    @rule(customer=customers, text=settings_texts, by=st.sampled_from(("takeover", "other_takeover")))
    def learn_and_stall(self, customer: int, text: str, by: str) -> None:
        self._learn(customer, text, ("memory.before_commit", (by,)))

    @rule(customer=customers, text=texts, which=st.integers(0, 1), plan=run_plans)
    def talk(self, customer: int, text: str, which: int, plan: Plan | None) -> None:
        self.world.say(customer, text, which)
        for run in self.world.open_runs(customer)[:1]:
            self.world.answer(run, plan)

    @rule(customer=customers, died_at=st.sampled_from(("before", "after")), plan=st.one_of(run_plans, overtakings))
    def go_on_with_what_was_begun_without_consent(self, customer: int, died_at: str, plan: Plan | None) -> None:
        """A run is begun without consent, and gone on with when there is some; `plan` is what happens then."""
        self._come_back_to_a_run(customer, f"agents.{died_at}_model", plan)

    @rule(customer=customers, died_at=st.sampled_from(("before", "after")))
    def withdraw_what_a_run_begun_without_consent_recalls(self, customer: int, died_at: str) -> None:
        self._come_back_to_a_run(customer, f"agents.{died_at}_model", ("agents.after_recall", ("withdraw",)))

    @rule(customer=customers, plan=overtakings)
    def look_while_it_moves(self, customer: int, plan: Plan) -> None:
        """Somebody reads the memory over HTTP, and is overtaken on the way."""
        self._remember(customer)
        promises.check_reading(self.world, customer, self.world.look(customer, plan))

    @rule(customer=customers, plan=overtakings)
    def talk_while_it_moves(self, customer: int, plan: Plan) -> None:
        self._remember(customer)
        self.world.say(customer, SMALL_TALK)
        for run in self.world.open_runs(customer)[:1]:
            self.world.answer(run, plan)

    @rule(customer=customers, which=_indexes, plan=job_plans, understands=st.booleans())
    def read(self, customer: int, which: int, plan: Plan | None, understands: bool) -> None:
        jobs = self.world.open_jobs(customer)
        if jobs:
            self.world.answer_all(customer)
            self.world.read(jobs[which % len(jobs)], plan, understands=understands)

    # --- everybody else ---
    @rule(who=st.sampled_from(("eraser", "dying eraser", "sweeper", "scan", "same hint again")), which=_indexes)
    def maintain(self, who: str, which: int) -> None:
        deeds: dict[str, Callable[[], None]] = {
            "eraser": self.world.erase,
            "dying eraser": partial(self.world.erase, ("memory.after_erase", ("kill",))),
            "sweeper": self.world.sweep,
            "scan": self.world.scan,
            "same hint again": partial(self.world.hint_again, which),
        }
        deeds[who]()

    @rule(customer=customers, line=st.sampled_from((None, Line.UP, Line.CUT, Line.DEAF)))
    def disturb(self, customer: int, line: Line | None) -> None:
        """The store goes away, or comes back, or loses the content of a customer."""
        if line is None:
            self.world.lose_content(customer)
        else:
            CuttableRedis.line = line

    @rule(which=_indexes, empty=st.booleans())
    def restart(self, which: int, empty: bool) -> None:
        """The store is set up anew: empty, or with something that was erased."""
        CuttableRedis.line = Line.UP
        if empty:
            self.world.lose_everything()
        else:
            self.world.restore(which)

    @rule(which=_indexes)
    def bring_back_what_was_erased(self, which: int) -> None:
        """The store is set up anew with something that was erased, and looked through."""
        CuttableRedis.line = Line.UP
        self.world.erase()
        self.world.restore(which)
        self.world.scan()

    @rule(by=st.sampled_from((LEASE, timedelta(days=11), timedelta(days=31))))
    def wait(self, by: timedelta) -> None:
        self.world.clock.move(by)

    def _learn(self, customer: int, text: str, plan: Plan | None) -> None:
        """Say something that is heard, answered and read, with everything in order before."""
        self._have_consent(customer)
        job = self.world.say(customer, text)
        self.world.answer_all(customer)
        if job is not None:
            self.world.read(job, plan)

    def _learn_in_reverse(self, customer: int, first: str, second: str, plan: Plan | None) -> None:
        jobs = [self.world.say(customer, first), self.world.say(customer, second)]
        for run in self.world.open_runs(customer)[:1]:
            self.world.answer(run, plan)
        self.world.answer_all(customer)
        for job in reversed(jobs):
            if job is not None:
                self.world.read(job)

    def _have_consent(self, customer: int) -> None:
        CuttableRedis.line = Line.UP
        if not self.world.memories[customer].consent:
            self.world.decide(customer, True)

    def _remember(self, customer: int) -> None:
        """Have something to be read, with everything in order."""
        self._have_consent(customer)
        self.world.change(customer, {"language": "zh-Hant", "response_style": "concise"})

    def _come_back_to_a_run(self, customer: int, died_at: str, plan: Plan | None) -> None:
        self.world.answer_all(customer)
        if self.world.memories[customer].consent:
            self.world.decide(customer, False)
        self.world.say(customer, SMALL_TALK)
        for run in self.world.open_runs(customer)[:1]:
            self.world.answer(run, (died_at, ("kill",)))
            self._remember(customer)
            self.world.answer(run, plan)

    @invariant()
    def promises_are_kept(self) -> None:
        promises.check(self.world)
        self._raise_broken()

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                promises.come_to_rest(self.world)
                self._raise_broken()
        finally:
            self.world.end()
            transaction.savepoint_rollback(self._savepoint)

    def _raise_broken(self) -> None:
        if self.world.broken:
            raise PromiseBroken(self.world.broken[0])


class MemoryMachineWithLangmem(MemoryMachine):
    with_langmem = True


def search(machine: type[MemoryMachine], *, histories: int, steps: int, shrink: bool = False) -> None:
    """Look for a history that breaks a promise; the same ones each time. Raises PromiseBroken with the first."""
    store = settings.CACHES["memory"] | {"BACKEND": "tests.memory.surroundings.CuttableRedis"}
    with override_settings(
        CACHES=settings.CACHES | {"memory": store}, CHAT_MODEL="scripted", CHAT_BASE_URL="http://model.invalid"
    ):
        run_state_machine_as_test(
            machine,
            settings=hypothesis_settings(
                max_examples=histories,
                stateful_step_count=steps,
                derandomize=True,
                database=None,
                deadline=None,
                phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
