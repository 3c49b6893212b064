"""Two customers of two merchants, everybody who works for them, and the books that are kept beside the product.

A worker is stopped at a fault point and, while it stands there, others act: that is all the concurrency there is, and
it can be repeated. Whatever a worker has brought into force goes into the books before anybody else acts.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import cache, partial
from typing import Any
from unittest import mock

from django.conf import settings
from rest_framework.test import APIClient

from agents.models import AgentRun
from config import providers
from config.model_reply import ModelReply, RawCall
from config.models import UsagePurpose
from conversations import turns
from conversations.models import Message
from memory import content, extracting, extraction
from memory.models import EventKind, JobOutcome, MemoryEvent, MemoryJob
from tests.conversations.talking import CONVERSATIONS
from tests.factories import Shop, make_customer, make_member, make_store, make_tenant
from tests.memory import surroundings
from tests.memory.books import (
    INSIDE_POINTS,
    JOB_POINTS,
    LEASE,
    READ_POINTS,
    RUN_POINTS,
    JobBook,
    Plan,
    RunBook,
    Worker,
    row_of,
)
from tests.memory.reference import Memory, Said
from tests.memory.remembering import MEMORY, profile_of
from tests.memory.surroundings import WISHES, Clock, CuttableRedis, Line, LogReader
from zhifu import customer_tokens, faults, sweeping
from zhifu.jobs import OPEN_STATUSES, JobStatus, LeasedJob

SMALL_TALK = "键盘怎么清洁？"
_TOLD = re.compile(r"^- (response_style|language|contact_channel): ([\w-]+)（", re.MULTILINE)


class World:
    def __init__(self, with_langmem: bool = False) -> None:
        self.broken: list[str] = []
        self.clock = Clock()
        self.log = LogReader()
        CuttableRedis.line = Line.UP
        surroundings.lose(surroundings.contents())
        self.shops = (_shop(), _shop())
        self.memories = (Memory(), Memory())
        self.conversations: dict[tuple[int, int], str] = {}
        self.said: list[Said] = []
        self.jobs: dict[int, JobBook] = {}
        self.runs: dict[int, RunBook] = {}
        self.calls: Counter[tuple[str, int]] = Counter()
        self.workers: list[Worker] = []
        # What the store has ever held, and which of it came back from an old copy and was not looked for since.
        self.seen: dict[str, str] = {}
        self.restored: set[str] = set()
        self._stack = ExitStack()
        for point in (*JOB_POINTS, *READ_POINTS, *RUN_POINTS, *INSIDE_POINTS):
            self._stack.enter_context(faults.at(point, partial(self._stand_at, point)))
        self._stack.enter_context(mock.patch.object(providers, "complete", self._reply))
        if not with_langmem:
            self._stack.enter_context(mock.patch.object(extraction, "stated_wishes", _ask_once))

    def end(self) -> None:
        self._stack.close()
        self.log.stop()
        CuttableRedis.line = Line.UP
        surroundings.lose(surroundings.contents())
        self.clock.run()

    def hold(self, kept: object, promise: str, **facts: object) -> None:
        """Note a promise that is broken; raising here could be swallowed by what is under test."""
        if not kept:
            self.broken.append(f"{promise} {facts or ''}")

    # --- customers ---
    def request(self, customer: int, method: str, url: str, body: dict[str, Any] | None = None) -> Any:
        shop = self.shops[customer]
        token = customer_tokens.mint(shop.customer.public_id, shop.store.public_id)
        return getattr(_client(), method)(url, body, HTTP_AUTHORIZATION=f"Bearer {token}")

    def decide(self, customer: int, consent: bool | None = None) -> None:
        """Clear (None), allow or forbid."""
        self.clock.move()
        memory = self.memories[customer]
        if consent is None:
            answer = self.request(customer, "post", f"{MEMORY}/clear", {"expected_revision": memory.revision})
        else:
            body = {"enabled": consent, "expected_revision": memory.revision}
            answer = self.request(customer, "put", f"{MEMORY}/consent", body)
        self.hold(answer.status_code == 200, "a decision needs nothing but the revision", answer=answer.content)
        memory.decide(consent)

    def change(self, customer: int, changes: dict[str, str | None], plan: Plan | None = None) -> None:
        self.clock.move()
        memory = self.memories[customer]
        consent, revision = memory.consent, memory.revision
        body = changes | {"expected_revision": revision}
        answers: list[Any] = []
        self.work(Worker(customer, plan=plan), lambda: answers.append(self.request(customer, "patch", MEMORY, body)))
        status = answers[0].status_code if answers else 0
        if self._changes(customer) > memory.changes:
            self.hold(consent and memory.revision == revision, "a change wants consent and its revision")
            memory.change(changes, self.clock.now)
            return
        refused = not consent or memory.revision != revision
        self.hold(status != 200, "a change that is accepted is made")
        self.hold(status != 409 or refused, "a change is refused with a reason")

    def look(self, customer: int, plan: Plan | None = None) -> Any:
        """Read the memory over HTTP, and return the answer."""
        answers: list[Any] = []
        self.work(Worker(customer, plan=plan), lambda: answers.append(self.request(customer, "get", MEMORY)))
        return answers[0]

    def say(self, customer: int, text: str, which: int = 0) -> int | None:
        """Say something in one of two conversations, and return the job that is to read it, if there is one."""
        self.clock.move()
        memory = self.memories[customer]
        url = f"{CONVERSATIONS}/{self._conversation(customer, which)}/messages"
        answer = self.request(customer, "post", url, {"text": text})
        self.hold(answer.status_code == 202, "a message is accepted", answer=answer.content)
        message = Message.objects.get(public_id=answer.json()["message"]["id"])
        said = Said(len(self.said) + 1, message.pk, customer, text, memory.epoch, self.clock.now)
        self.said.append(said)
        job = MemoryJob.objects.filter(message=message).first()
        self.hold((job is not None) == memory.consent, "a message is queued exactly with consent")
        if job is None:
            return None
        self.jobs[job.pk] = JobBook(said)
        return job.pk

    # --- workers ---
    def work(self, worker: Worker, deed: Callable[[], Any]) -> None:
        """Have `worker` do its deed until it is done or dead, and keep the books."""
        self.workers.append(worker)
        try:
            deed()
        except faults.Killed:
            pass
        finally:
            self.workers.pop()
        self.keep_books()

    def read(self, job_id: int, plan: Plan | None = None, *, understands: bool = True) -> None:
        """Be the memory worker that gets this job's hint when it is due."""
        self._wait_for(MemoryJob.objects.get(pk=job_id))
        self.deliver(job_id, plan, understands=understands)

    def deliver(self, job_id: int, plan: Plan | None = None, *, understands: bool = True) -> None:
        """Be the memory worker that gets this job's hint, whether it is due or not."""
        worker = Worker(self.jobs[job_id].said.customer, job_id, plan, understands)
        self.work(worker, partial(extracting.run_extraction, job_id))

    def hint_again(self, which: int) -> None:
        """Have the hint of some job delivered once more, whatever has become of it."""
        for job_id in list(self.jobs)[which:][:1]:
            self.deliver(job_id)

    def answer(self, run_id: int, plan: Plan | None = None) -> None:
        """Be the agents' worker that gets this run's hint when it is due."""
        run = AgentRun.objects.get(pk=run_id)
        self._wait_for(run)
        self.work(Worker(self._customer(run.customer_id), run_id, plan), partial(turns.run_turn, run_id))

    def answer_all(self, customer: int) -> None:
        for _ in range(50):
            runs = self.open_runs(customer)
            if not runs:
                return
            self.answer(runs[0])
        self.hold(False, "a conversation comes to rest")

    def erase(self, plan: Plan | None = None) -> None:
        """Be the maintenance worker, as far as keys go."""
        self.clock.move()
        self.work(Worker(0, plan=plan), content.erase_pending)

    def sweep(self) -> None:
        """Be the sweeper. What it hints at is done when a worker comes by."""
        self.clock.move(timedelta(seconds=settings.SWEEP_SECONDS + 1))
        self.work(Worker(0), sweeping.run)

    def scan(self) -> None:
        """Be the nightly scan of the store."""
        self.clock.move()
        if CuttableRedis.line == Line.UP:
            self.work(Worker(0), content.erase_orphans)
            self.restored.clear()

    def open_runs(self, customer: int) -> list[int]:
        runs = AgentRun.objects.filter(customer=self.shops[customer].customer, status__in=OPEN_STATUSES)
        return list(runs.order_by("pk").values_list("pk", flat=True))

    def open_jobs(self, customer: int) -> list[int]:
        return [pk for pk, book in self.jobs.items() if book.settled is None and book.said.customer == customer]

    def restore(self, which: int) -> None:
        """Have the store set up anew with something that it held once and that was erased."""
        spared = surroundings.holding() | {profile_of(shop).value_key for shop in self.shops}
        gone = [key for key in self.seen if key not in spared]
        if gone:
            key = gone[which % len(gone)]
            surroundings.put_back(key, self.seen[key], settings.MEMORY_STORED)
            self.restored.add(key)

    def lose_everything(self) -> None:
        surroundings.lose(surroundings.contents())
        for memory in self.memories:
            memory.lost = True

    def lose_content(self, customer: int) -> None:
        surroundings.lose([profile_of(self.shops[customer]).value_key])
        self.memories[customer].lost = True

    # --- while a worker stands at a fault point ---
    def _stand_at(self, point: str) -> None:
        worker = self.workers[-1]
        self._note_arrival(point, worker)
        if worker.plan is not None and worker.plan[0] == point:
            acts, worker.plan = worker.plan[1], None
            for act in acts:
                self.keep_books()
                self.act(act, worker)

    def _note_arrival(self, point: str, worker: Worker) -> None:
        memory = self.memories[worker.customer]
        if point == "memory.after_claim":
            worker.attempt = MemoryJob.objects.values_list("attempts", flat=True).get(pk=worker.pk)
        elif point == "agents.after_claim":
            self.runs.setdefault(worker.pk, RunBook(worker.customer))
        elif point == "agents.after_recall":
            worker.readable = memory.readable(self.clock.now) if CuttableRedis.line == Line.UP else {}
            worker.snapshot = memory.snapshot()
        elif point == "agents.before_model":
            same = memory.snapshot() == worker.snapshot
            self.hold(same, "nothing is asked with a memory that has moved", run=worker.pk)
        elif point == "agents.in_commit":
            self.runs[worker.pk].committed_under = memory.snapshot()

    def act(self, act: str, worker: Worker) -> None:
        customer = worker.customer
        acts: dict[str, Callable[[], Any]] = {
            "kill": faults.kill,
            "clear": partial(self.decide, customer),
            "withdraw": partial(self.decide, customer, False),
            "change": partial(self.change, customer, {"language": "yue"}),
            "return": partial(self._withdraw_and_return, customer),
            "neighbour": partial(self.decide, 1 - customer),
            "takeover": partial(self._take_over, worker, understands=True),
            "other_takeover": partial(self._take_over, worker, understands=False),
            "sweep": self._sweep_late,
            "sweep_then_die": partial(self._sweep_then_die, worker),
            "turn": partial(self._talk, customer, None),
            "open_turn": partial(self._talk, customer, ("agents.before_commit", ("kill",))),
            "lose": partial(self.lose_content, customer),
            "cut": partial(setattr, CuttableRedis, "line", Line.CUT),
            "deafen": partial(setattr, CuttableRedis, "line", Line.DEAF),
            "mend": partial(setattr, CuttableRedis, "line", Line.UP),
        }
        acts[act]()

    def _withdraw_and_return(self, customer: int) -> None:
        self.decide(customer, False)
        self.decide(customer, True)

    def _take_over(self, worker: Worker, *, understands: bool) -> None:
        """The worker stalls for longer than its lease; another one does its work."""
        self.clock.move(LEASE)
        if worker.pk in self.jobs and worker.attempt:
            self.deliver(worker.pk, understands=understands)
        elif worker.pk:
            self.work(Worker(worker.customer, worker.pk), partial(turns.run_turn, worker.pk))

    def _sweep_late(self) -> None:
        """The worker stalls for longer than anything may be staged, and the sweeper comes by."""
        self.clock.move(LEASE)
        self.erase()

    def _sweep_then_die(self, worker: Worker) -> None:
        """The sweeper comes by, the worker writes all the same, and dies before it can do anything about that."""
        self._sweep_late()
        worker.plan = ("memory.after_write", ("kill",))

    def _talk(self, customer: int, plan: Plan | None) -> None:
        self.say(customer, SMALL_TALK, which=1)
        for run in self.open_runs(customer)[-1:]:
            self.answer(run, plan)

    # --- the model ---
    def _reply(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], deadline: float) -> ModelReply:
        worker = self.workers[-1]
        if worker.attempt:
            return self._state_wishes(worker)
        self.calls[UsagePurpose.ANSWER, worker.pk] += 1
        told = dict(_TOLD.findall(messages[0]["content"]))
        self.hold(told == worker.readable, "a prompt says what may be read", told=told, readable=worker.readable)
        text = f"这是第 {sum(self.calls.values())} 次回答。"
        self.runs[worker.pk].replies[text] = worker.snapshot
        return ModelReply(text)

    def _state_wishes(self, worker: Worker) -> ModelReply:
        self.calls[UsagePurpose.EXTRACTION, worker.pk] += 1
        book = self.jobs[worker.pk]
        book.stated[worker.attempt] = WISHES[book.said.text] if worker.understands else {}
        stated = surroundings.stated(book.said.text) if worker.understands else {}
        return ModelReply("", [RawCall("call00001", "StatedWishes", json.dumps(stated))])

    # --- the books ---
    def keep_books(self) -> None:
        """Enter what has ended since."""
        open_ones = [pk for pk, book in self.jobs.items() if book.settled is None]
        for job in MemoryJob.objects.filter(pk__in=open_ones).exclude(status__in=OPEN_STATUSES):
            self._enter_job(job)
        ended = [pk for pk, book in self.runs.items() if book.settled is not None]
        for run in AgentRun.objects.exclude(pk__in=ended).select_related("answer"):
            book = self.runs.setdefault(run.pk, RunBook(self._customer(run.customer_id)))
            if not run.is_open:
                self._enter_run(run, book)

    def _enter_job(self, job: MemoryJob) -> None:
        book = self.jobs[job.pk]
        book.settled = row_of(job)
        memory = self.memories[book.said.customer]
        current = memory.consent and memory.epoch == book.said.epoch
        if job.status == JobStatus.COMPLETED:
            self.hold(current, "a job of an older epoch never ends COMPLETED", job=job.pk)
            stored = memory.understand(book.said, book.stated[job.attempts], self.clock.now)
            outcome = JobOutcome.STORED if stored else JobOutcome.NOTHING
            self.hold(job.outcome == outcome, "a completed job says what it did", job=job.pk, outcome=job.outcome)
        elif job.status == JobStatus.CANCELLED:
            self.hold(not current, "a job is cancelled only after a decision", job=job.pk, code=job.error_code)
        self.hold(job.status == JobStatus.COMPLETED or job.error_code, "a job that did not complete says why")

    def _enter_run(self, run: AgentRun, book: RunBook) -> None:
        book.settled = row_of(run)
        if run.answer is not None:
            under = book.replies[run.answer.text]
            same = under == book.committed_under
            self.hold(same, "an answer is committed under the memory it was written with", run=run.pk)
        else:
            self.hold(run.error_code, "a run without an answer says why", run=run.pk)

    # --- small things ---
    def _conversation(self, customer: int, which: int) -> str:
        if (customer, which) not in self.conversations:
            self.conversations[customer, which] = self.request(customer, "post", CONVERSATIONS, {}).json()["id"]
        return self.conversations[customer, which]

    def _changes(self, customer: int) -> int:
        profile = profile_of(self.shops[customer])
        return MemoryEvent.objects.filter(profile=profile, kind=EventKind.CHANGED).count()

    def _customer(self, customer_id: int) -> int:
        return [shop.customer.pk for shop in self.shops].index(customer_id)

    def _wait_for(self, row: LeasedJob) -> None:
        """Let the time pass until a row may be claimed."""
        self.clock.move()
        self.clock.move_to(row.run_after if row.status == JobStatus.QUEUED else row.lease_until)


def _shop() -> Shop:
    """A merchant whose customer has the same name as every other's."""
    tenant = make_tenant()
    return Shop(tenant, make_store(tenant), make_member(tenant), make_customer(tenant, "same name"))


@cache
def _client() -> APIClient:
    # One for all: each loads the middleware afresh.
    return APIClient()


def _ask_once(message: str, ask: extraction.Ask) -> dict[str, Any]:
    """Stand for langmem: ask once, and believe the call."""
    reply = ask([{"role": "user", "content": message}], [])
    stated: dict[str, Any] = json.loads(reply.tool_calls[0].arguments)
    return stated
