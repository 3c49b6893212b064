"""How well a model reads wishes: the extraction as the memory worker does it, over labelled messages.

A wish is a field with its value, "withdrawn" being one; it is right when the message is labelled with just that.

- must-not kept empty = messages without a wish in which none was found / messages without a wish
- precision = wishes found that are right / wishes found
- recall = wishes found that are right / wishes labelled

each over the messages that were read. One whose extraction failed was not: it counts as a failure alone.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connections

from config import gateway
from config.model_reply import ModelReply, estimate_request
from config.models import UsagePurpose
from memory import evidence, extraction
from memory.communication import FIELDS, canonical
from memory.evidence import WITHDRAWN
from zhifu import errors

_KEYS = {"text", "variety", "kind", "wishes"}
# An endpoint that was there is given up when it misses so many messages one after the other.
_MOST_IN_A_ROW = 5
_NO_SUBJECT = 0


@dataclass(frozen=True)
class Message:
    """A labelled message. `wishes`: field -> value, or WITHDRAWN; empty: nothing may be remembered."""

    text: str
    variety: str
    kind: str
    wishes: dict[str, str]


@dataclass
class Spent:
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class Reading:
    """What was found in a message, or why it could not be read."""

    message: Message
    found: dict[str, str]
    spent: Spent
    failure: errors.Failure | None = None

    @property
    def right(self) -> set[str]:
        """The fields that were found as they are labelled."""
        return {name for name, value in self.found.items() if self.message.wishes.get(name) == value}


@dataclass(frozen=True)
class Tally:
    """Wishes, and the messages without one: `empty`, of which in `kept_empty` nothing was found."""

    labelled: int
    found: int
    right: int
    empty: int
    kept_empty: int

    @property
    def precision(self) -> float | None:
        return self.right / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        return self.right / self.labelled if self.labelled else None

    @property
    def must_not(self) -> float | None:
        return self.kept_empty / self.empty if self.empty else None


@dataclass(frozen=True)
class Report:
    readings: list[Reading]
    seconds: float

    @cached_property
    def read(self) -> list[Reading]:
        return [reading for reading in self.readings if reading.failure is None]

    @property
    def broken(self) -> list[Reading]:
        """The messages in which something was found, and nothing may be."""
        return [reading for reading in self.read if reading.found and not reading.message.wishes]

    @property
    def failures(self) -> dict[str, int]:
        """Code of the failure -> messages."""
        return dict(Counter(reading.failure.code for reading in self.readings if reading.failure is not None))

    @property
    def spent(self) -> Spent:
        each = [reading.spent for reading in self.readings]
        return Spent(*(sum(getattr(one, name) for one in each) for name in asdict(Spent())))

    def tallies(self) -> dict[str, Tally]:
        """Return name -> tally: of all, of each field, of each variety, of each kind."""
        tallies = {"all": _tally(self.read)}
        tallies |= {f"field {name}": _tally(self.read, [name]) for name in FIELDS}
        for group, key in (("variety", lambda one: one.message.variety), ("kind", lambda one: one.message.kind)):
            tallies |= {f"{group} {name}": _tally(members) for name, members in _grouped(self.read, key).items()}
        return tallies

    def as_dict(self) -> dict[str, Any]:
        tallies = {
            name: asdict(tally) | {"precision": tally.precision, "recall": tally.recall, "must_not": tally.must_not}
            for name, tally in self.tallies().items()
        }
        return {
            "model": settings.CHAT_MODEL,
            "messages": len(self.readings),
            "read": len(self.read),
            "failures": self.failures,
            "tallies": tallies,
            "spent": asdict(self.spent),
            "seconds": round(self.seconds, 1),
            "readings": [
                asdict(reading.message) | {"found": reading.found, "failure": reading.failure and reading.failure.code}
                for reading in self.readings
            ],
        }


def read_file(path: Path) -> list[Message]:
    """Return the labelled messages of a file, one JSON object a line. Raises errors.Invalid that names the line."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Invalid(f"文件读不了 / The file cannot be read: {path}") from error
    messages = [_message(line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    if not messages:
        raise errors.Invalid(f"文件里没有消息 / The file holds no messages: {path}")
    return messages


def evaluate(
    messages: list[Message], *, tenant_id: int, workers: int = 1, progress: Callable[[int], None] = lambda done: None
) -> Report:
    """Have the model read `messages`, so many at once, and return what it made of them; each call is on record.

    Raises the model's failure when the endpoint is not there, or is no longer.
    """
    started = time.monotonic()
    readings: list[Reading] = []
    missed = 0
    with _reader(tenant_id, workers) as read_all:
        for reading in read_all(messages):
            readings.append(reading)
            missed = missed + 1 if _is_away(reading) else 0
            if reading.failure is not None and missed in (len(readings), _MOST_IN_A_ROW):
                raise reading.failure
            progress(len(readings))
    return Report(readings, time.monotonic() - started)


def _is_away(reading: Reading) -> bool:
    return reading.failure is not None and reading.failure.code == "MODEL_UNAVAILABLE"


@contextmanager
def _reader(tenant_id: int, workers: int) -> Iterator[Callable[[list[Message]], Iterable[Reading]]]:
    """Give what reads messages in order; with one worker in this thread, and what was not begun is dropped at the
    end."""
    if workers == 1:
        yield lambda messages: (_read(tenant_id, message) for message in messages)
        return
    executor = ThreadPoolExecutor(workers)
    try:
        yield lambda messages: executor.map(lambda message: _read_in_thread(tenant_id, message), messages)
    finally:
        executor.shutdown(cancel_futures=True)


def _read_in_thread(tenant_id: int, message: Message) -> Reading:
    try:
        return _read(tenant_id, message)
    finally:
        connections.close_all()


def _read(tenant_id: int, message: Message) -> Reading:
    spent = Spent()

    def ask(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> ModelReply:
        spent.calls += 1
        reply = gateway.complete(
            tenant_id=tenant_id,
            purpose=UsagePurpose.EVALUATION,
            subject_id=_NO_SUBJECT,
            messages=messages,
            tools=tools,
            deadline=time.monotonic() + settings.CHAT_TIMEOUT_SECONDS,
        )
        spent.input_tokens += estimate_request(messages, tools) if reply.is_estimated else reply.input_tokens
        spent.output_tokens += reply.output_tokens
        return reply

    try:
        stated = extraction.stated_wishes(message.text, ask)
    except errors.Failure as failure:
        return Reading(message, {}, spent, failure)
    wishes = evidence.accepted(message.text, stated)
    return Reading(message, {wish.field: wish.value or WITHDRAWN for wish in wishes}, spent)


def _tally(readings: list[Reading], names: Iterable[str] = FIELDS) -> Tally:
    wanted = set(names)
    empty = [reading for reading in readings if not reading.message.wishes]
    return Tally(
        labelled=sum(len(wanted & reading.message.wishes.keys()) for reading in readings),
        found=sum(len(wanted & reading.found.keys()) for reading in readings),
        right=sum(len(wanted & reading.right) for reading in readings),
        empty=len(empty),
        kept_empty=sum(not wanted & reading.found.keys() for reading in empty),
    )


def _grouped(readings: list[Reading], key: Callable[[Reading], str]) -> dict[str, list[Reading]]:
    groups: dict[str, list[Reading]] = {}
    for reading in readings:
        groups.setdefault(key(reading), []).append(reading)
    return dict(sorted(groups.items()))


def _message(line: str, number: int) -> Message:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise _bad_line(number, "不是 JSON / it is no JSON") from error
    if not isinstance(row, dict) or set(row) != _KEYS:
        raise _bad_line(number, f"需要这些键 / it needs the keys: {', '.join(sorted(_KEYS))}")
    texts = (row["text"], row["variety"], row["kind"])
    if not all(isinstance(text, str) and text for text in texts) or not isinstance(row["wishes"], dict):
        raise _bad_line(number, "类型不对 / text, variety and kind are strings, wishes is an object")
    for name, value in row["wishes"].items():
        if name not in FIELDS or (value != WITHDRAWN and canonical(name, value) != value):
            raise _bad_line(number, f"没有这样的取值 / there is no such value: {name} = {value!r}")
    return Message(row["text"], row["variety"], row["kind"], row["wishes"])


def _bad_line(number: int, why: str) -> errors.Invalid:
    return errors.Invalid(f"第 {number} 行 / Line {number}: {why}.")
