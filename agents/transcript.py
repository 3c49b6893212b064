"""Reading AgentRun.messages: what is still to be done, what was shown, and what of it goes over the wire.

Messages are OpenAI chat-completion dicts. Besides the keys that are sent they may carry keys of our own:
`passages` and `degradation_reason` of tool messages, `call_errors` of calls whose arguments could not be read,
`note` of what the platform itself told the model.
"""

import json
from collections.abc import Iterable
from typing import Any

from agents.citations import ShownPassage
from agents.replies import ToolCall

Message = dict[str, Any]

_SENT_KEYS = ("role", "content", "tool_calls", "tool_call_id", "reasoning_content")
# Characters of one request: well inside small context windows, more than a turn normally needs.
_LONGEST_REQUEST = 40_000
# An assistant message without text is refused by many hosts.
_NOTHING_SAID = "…"


def pending_calls(messages: list[Message]) -> list[ToolCall]:
    """Return the calls of the last assistant message that have no tool message yet, in order."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message["role"] == "tool":
            answered.add(message["tool_call_id"])
            continue
        return [call for call in _calls_of(message) if call.id not in answered]
    return []


def call_ids(messages: Iterable[Message]) -> set[str]:
    """Return every call id used so far."""
    return {call["id"] for message in messages for call in message.get("tool_calls", ())}


def was_answered(messages: list[Message], call: ToolCall) -> bool:
    """Say whether an equal call of an earlier step has a result that is no error."""
    equal = {
        earlier.id
        for message in messages
        for earlier in _calls_of(message)
        if earlier.id != call.id and (earlier.name, earlier.arguments) == (call.name, call.arguments)
    }
    return any(
        message["role"] == "tool" and message["tool_call_id"] in equal and "error" not in json.loads(message["content"])
        for message in messages
    )


def shown_passages(messages: Iterable[Message]) -> list[ShownPassage]:
    """Return every passage shown in this run, in order of its marker."""
    return [ShownPassage.from_dict(passage) for message in messages for passage in message.get("passages", ())]


def degradation_reason(messages: Iterable[Message]) -> str:
    """Return why some result of this run was found without the vector store, or nothing."""
    return next((reason for message in messages if (reason := message.get("degradation_reason", ""))), "")


def has_note(messages: Iterable[Message], kind: str) -> bool:
    """Say whether the platform has already told the model this."""
    return any(message.get("note") == kind for message in messages)


def to_send(system_prompt: str, messages: list[Message]) -> list[Message]:
    """Return the request's messages: only keys that hosts know, the oldest left out when it grows too long.

    A call and its results stay or go together, and the question being answered always stays.
    """
    units = _units(messages)
    question = max(index for index, unit in enumerate(units) if _is_question(unit[0]))
    room = _LONGEST_REQUEST - len(system_prompt) - _length(units[question])
    kept = {question}
    for index in range(len(units) - 1, -1, -1):
        if index == question:
            continue
        room -= _length(units[index])
        if room < 0:
            break
        kept.add(index)
    sent = [_sent(message) for index, unit in enumerate(units) if index in kept for message in unit]
    return [{"role": "system", "content": system_prompt}, *sent]


def _units(messages: list[Message]) -> list[list[Message]]:
    units: list[list[Message]] = []
    for message in messages:
        if message["role"] == "tool" and units:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _is_question(message: Message) -> bool:
    return message["role"] == "user" and "note" not in message


def _length(unit: list[Message]) -> int:
    return sum(len(json.dumps(_sent(message), ensure_ascii=False)) for message in unit)


def _sent(message: Message) -> Message:
    sent = {key: message[key] for key in _SENT_KEYS if key in message}
    if sent["role"] == "assistant" and not sent["content"] and "tool_calls" not in sent:
        sent["content"] = _NOTHING_SAID
    return sent


def _calls_of(message: Message) -> list[ToolCall]:
    errors = message.get("call_errors", {})
    return [
        ToolCall(
            id=call["id"],
            name=call["function"]["name"],
            arguments=json.loads(call["function"]["arguments"]),
            error=errors.get(call["id"], ""),
        )
        for call in message.get("tool_calls", ())
    ]
