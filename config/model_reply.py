"""What came back from a chat model, made of plain strings, whatever shape the host sent.

Hosts that call themselves OpenAI-compatible differ in every field. Here shapes are only made uniform; what the
content means (markup, thinking, repaired arguments) is judged by who asked.
"""

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

# Above any context window: a count beyond it is a broken host's.
_MOST_TOKENS = 100_000_000
# What hosts add around each message: role and separators.
_TOKENS_PER_MESSAGE = 4
_LONGEST_ARGUMENTS = 20_000
# "\"{...}\"" gets one level deeper each time a host renders the history again.
_MOST_ENCODINGS = 4
_FENCE = re.compile(r"^```[a-z]*\s*|\s*```$")


@dataclass(frozen=True)
class RawCall:
    """A tool call as the model wrote it; any of these may be empty."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ModelReply:
    """`content` and `tool_calls` of the first choice. `wants_reasoning_back`: the host sent a `reasoning_content`
    field and refuses a history without one; the thinking itself is not kept. `is_estimated`: the host did not say
    what it counted."""

    content: str
    tool_calls: list[RawCall] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    wants_reasoning_back: bool = False
    is_estimated: bool = False


class UnreadableArguments(ValueError):
    """The arguments of a call have no reading, or more than one; its text tells the model what to mend."""


class UnreadableReply(Exception):
    """The body holds no message at all: an error in a 200, no choices, or not even an object."""


def read_body(body: Any) -> ModelReply:
    """Return the reply in a chat-completion body. Raises UnreadableReply when there is none, and nothing else."""
    message = _first_message(_unwrapped(body))
    reply = ModelReply(
        content=_text(message.get("content")),
        tool_calls=_calls(message),
        wants_reasoning_back="reasoning_content" in message,
    )
    counts = _counts(_unwrapped(body).get("usage"))
    if counts is None:
        return replace(reply, output_tokens=estimate_reply(reply), is_estimated=True)
    return replace(reply, input_tokens=counts[0], output_tokens=counts[1])


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call as an object: out of a code fence, encoded more than once, with something after.

    Raises UnreadableArguments when there is not exactly one reading.
    """
    if len(text) > _LONGEST_ARGUMENTS:
        raise UnreadableArguments("The arguments are too long.")
    value: Any = text
    for _ in range(_MOST_ENCODINGS):
        if not isinstance(value, str):
            break
        value = _decoded(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableArguments("The arguments must be one JSON object.")
    return value


def estimate_tokens(text: str) -> int:
    """Return about how many tokens `text` is: one per East Asian character, else one per four characters."""
    wide = sum(1 for character in text if character >= "\u2e80")
    return wide + (len(text) - wide + 3) // 4


def estimate_reply(reply: ModelReply) -> int:
    return estimate_tokens(reply.content) + sum(
        estimate_tokens(call.name) + estimate_tokens(call.arguments) for call in reply.tool_calls
    )


def estimate_request(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> int:
    """Return about how many tokens a request is, with the few that hosts add around each message."""
    texts = (json.dumps(part, ensure_ascii=False) for part in [*messages, *tools])
    return sum(estimate_tokens(text) for text in texts) + _TOKENS_PER_MESSAGE * len(messages)


def clean_text(text: str) -> str:
    """Return `text` without what no database column takes: NUL and lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode("utf-8")


def _decoded(text: str) -> Any:
    text = _FENCE.sub("", text.strip())
    if not text:
        return None
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableArguments("The arguments are not valid JSON; send one complete JSON object.") from error
    if re.search(r"[{\[]", text[end:]):
        raise UnreadableArguments("There is more than one JSON value; send one JSON object per call.")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _unwrapped(body: Any) -> dict[str, Any]:
    """Return the body, out of the `{"data": {...}, "success": true}` that some gateways put around it."""
    if not isinstance(body, dict):
        raise UnreadableReply("not an object")
    inner = body.get("data")
    return inner if not body.get("choices") and isinstance(inner, dict) else body


def _first_message(body: dict[str, Any]) -> dict[str, Any]:
    choices = body.get("choices")
    if body.get("error") and not choices:
        raise UnreadableReply("an error in the body")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise UnreadableReply("no choices")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise UnreadableReply("no message")
    return message


def _text(content: Any) -> str:
    if isinstance(content, str):
        return clean_text(content)
    if not isinstance(content, list):
        return ""
    texts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
    return clean_text("".join(text for text in texts if isinstance(text, str)))


def _calls(message: dict[str, Any]) -> list[RawCall]:
    listed = message.get("tool_calls")
    if isinstance(listed, list) and listed:
        return [_call(item.get("id"), item.get("function")) for item in listed if isinstance(item, dict)]
    old_style = message.get("function_call")
    return [_call(None, old_style)] if isinstance(old_style, dict) else []


def _call(call_id: Any, function: Any) -> RawCall:
    function = function if isinstance(function, dict) else {}
    name, arguments = function.get("name"), function.get("arguments")
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return RawCall(
        id=clean_text(call_id) if isinstance(call_id, str) else "",
        name=clean_text(name) if isinstance(name, str) else "",
        arguments=clean_text(arguments),
    )


def _counts(usage: Any) -> tuple[int, int] | None:
    if not isinstance(usage, dict):
        return None
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
    if not all(type(count) is int and 0 <= count <= _MOST_TOKENS for count in counts):
        return None
    return counts[0] or 0, counts[1] or 0
