"""What a model wrote, made safe: one type, whatever dialect, thinking or broken arguments came.

Tool calls written as text are never run and never shown: only the structured field calls a tool. Arguments are
repaired where there is one reading; otherwise the call carries an error that the model can act on.
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agents import markup
from config.model_reply import ModelReply, RawCall, UnreadableArguments, clean_text, read_arguments

MAX_CALLS = 4
_LONGEST_TEXT = 20_000
# No tool takes more than a list in an object; MariaDB keeps JSON 31 levels deep.
_DEEPEST = 8

_KEEPABLE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class ToolCall:
    """One call to be executed. `error` says why its arguments could not be read; `arguments` is then empty."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Reply:
    """Either calls, with what was said beside them, or an answer; neither when all of it was markup."""

    text: str
    calls: tuple[ToolCall, ...]
    wants_reasoning_back: bool = False

    def as_message(self) -> dict[str, Any]:
        """Return the assistant message for the history: calls as every host accepts them back."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [_as_dict(call) for call in self.calls]
            message["call_errors"] = {call.id: call.error for call in self.calls if call.error}
        if self.wants_reasoning_back:
            message["reasoning_content"] = ""
        return message


def parse(reply: ModelReply, known_ids: Iterable[str]) -> Reply:
    """Return what the model said and asks for. Never raises.

    `known_ids` are the call ids this run has used: a missing, repeated or unusable id is replaced by one of ours.
    Equal calls appear once, and at most MAX_CALLS of them.
    """
    used = set(known_ids)
    calls: dict[str, ToolCall] = {}
    for raw in reply.tool_calls:
        call = _call(raw)
        key = json.dumps([call.name, call.arguments, call.error], sort_keys=True)
        if key in calls or len(calls) == MAX_CALLS:
            continue
        call_id = raw.id if _KEEPABLE_ID.fullmatch(raw.id) and raw.id not in used else _fresh_id(used)
        used.add(call_id)
        calls[key] = ToolCall(call_id, call.name, call.arguments, call.error)
    text = markup.visible_text(reply.content[:_LONGEST_TEXT])
    return Reply(text, tuple(calls.values()), reply.wants_reasoning_back)


def _call(raw: RawCall) -> ToolCall:
    name = _name(raw.name)
    try:
        return ToolCall("", name, _arguments(raw.arguments))
    except UnreadableArguments as error:
        return ToolCall("", name, error=str(error))


def _fresh_id(used: set[str]) -> str:
    """Return an unused id of nine letters and digits, which is all that some hosts accept."""
    number = len(used) + 1
    while f"call{number:05d}" in used:
        number += 1
    return f"call{number:05d}"


def _name(name: str) -> str:
    """Return the name without harmless decoration, in characters that can be sent back."""
    bare = name.strip().removeprefix("functions.")
    return _NOT_IN_NAMES.sub("-", bare)[:64] or "unnamed"


def _arguments(text: str) -> dict[str, Any]:
    """Return the arguments without markup. Raises UnreadableArguments when there is not exactly one reading."""
    return {_key(key): _cleaned(item, 1) for key, item in read_arguments(text).items()}


def _key(key: str) -> str:
    return clean_text(key).strip("\"' ")


def _cleaned(value: Any, depth: int) -> Any:
    """Return the value without markup. Raises UnreadableArguments for what is too deep or no number of JSON."""
    if depth > _DEEPEST:
        raise UnreadableArguments("The arguments are nested too deeply.")
    if isinstance(value, str):
        return markup.without_markup(clean_text(value)).strip()
    if isinstance(value, list):
        return [_cleaned(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_key(key): _cleaned(item, depth + 1) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise UnreadableArguments("A number in the arguments is out of range.")
    return value


def _as_dict(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
