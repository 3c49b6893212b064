"""Running a tool call: on the list, permitted, well formed, within its deadline, and on record.

Whatever happens becomes a tool message, so that every call has its answer in the history. What a tool found goes
to the model as JSON: text of documents is a string in it and can open or close nothing.
"""

import json
import logging
import time
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from agents import transcript
from agents.models import AgentRun, InvocationStatus, ToolInvocation
from agents.replies import ToolCall
from agents.tools import TOOLS, Found, Tool
from knowledge.results import Passage
from knowledge.snippets import snippet
from zhifu import credentials, errors, faults
from zhifu.scope import Scope
from zhifu.transactions import run_statement

logger = logging.getLogger(__name__)

# Of one passage; a model that needs more reads the document.
_LONGEST_SNIPPET = 400


@dataclass(frozen=True)
class ToolMessage:
    """A call's answer. `passages` is what was shown, for the checks; the model sees `content` alone."""

    call_id: str
    content: dict[str, Any]
    passages: tuple[dict[str, Any], ...] = ()
    degradation_reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the message for AgentRun.messages."""
        message: dict[str, Any] = {
            "role": "tool",
            "tool_call_id": self.call_id,
            "content": json.dumps(self.content, ensure_ascii=False),
        }
        if self.passages:
            message["passages"] = list(self.passages)
        if self.degradation_reason:
            message["degradation_reason"] = self.degradation_reason
        return message


class _Refused(errors.Failure):
    """The call is not run."""


def execute(run: AgentRun, scope: Scope, call: ToolCall, *, first_number: int, deadline: float) -> ToolMessage:
    """Run one call and return its message; passages are numbered from `first_number`.

    `deadline` is a moment of time.monotonic(). Raises nothing that the model or a tool caused.
    """
    started = time.monotonic()
    # On record before it starts: whoever takes this run over knows that it may have run.
    invocation, is_new = ToolInvocation.objects.get_or_create(
        run=run, call_id=call.id, defaults={"tool": call.name, "arguments": call.arguments}
    )
    status, code = InvocationStatus.REFUSED, ""
    try:
        tool, arguments, caller = _admit(run, scope, call, is_repeated=not is_new)
        status = InvocationStatus.FAILED
        faults.point("agents.before_tool")
        found = tool.run(caller, arguments, deadline)
        faults.point("agents.after_tool")
        message = _found_message(call, found, first_number)
        status = InvocationStatus.OK
    except errors.Failure as failure:
        code, message = failure.code, _error_message(call, failure.code, failure.message)
    except Exception:
        logger.exception("tool broke", extra={"run": run.pk, "tool": call.name})
        code, message = "INTERNAL", _error_message(call, "INTERNAL", "工具出错了 / The tool broke.")
    run_statement(
        ToolInvocation.objects.filter(pk=invocation.pk).update,
        status=status,
        error_code=code,
        duration_ms=round((time.monotonic() - started) * 1000),
    )
    return message


def _admit(run: AgentRun, scope: Scope, call: ToolCall, *, is_repeated: bool) -> tuple[Tool, BaseModel, Scope]:
    """Return the tool, its arguments and the caller as the database has them now. Raises errors.Failure."""
    tool = TOOLS.get(call.name)
    if tool is None:
        raise _Refused(f"There is no such tool; there are: {', '.join(TOOLS)}.", code="UNKNOWN_TOOL")
    if call.error:
        raise _Refused(call.error, code="BAD_ARGUMENTS")
    if is_repeated and not tool.reads_only:
        raise _Refused("It was started before and may have taken effect; do not repeat it.", code="OUTCOME_UNKNOWN")
    if transcript.was_answered(run.messages, call):
        raise _Refused("You already have the result of this very call; answer from it.", code="REPEATED_CALL")
    caller = credentials.reread(scope)
    caller.require(tool.permission)
    try:
        return tool, tool.arguments.model_validate(call.arguments), caller
    except ValidationError as error:
        raise _Refused(_complaints(error), code="BAD_ARGUMENTS") from error


def _complaints(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors()[:5])


def _error_message(call: ToolCall, code: str, text: str) -> ToolMessage:
    return ToolMessage(call.id, {"error": code, "message": text})


def _found_message(call: ToolCall, found: Found, first_number: int) -> ToolMessage:
    shown = [
        _shown(f"K{number}", passage, found.query) for number, passage in enumerate(found.passages, start=first_number)
    ]
    content = {
        "results": [_slim(values, passage.score) for values, passage in zip(shown, found.passages, strict=True)],
        "total_candidates": found.total,
        "truncated": found.truncated,
        "degraded": bool(found.degradation_reason),
        "degradation_reason": found.degradation_reason,
    }
    return ToolMessage(call.id, content, tuple(shown), found.degradation_reason)


def _shown(marker: str, passage: Passage, query: str) -> dict[str, Any]:
    """Return what is kept of a passage: exactly the text that the model sees, and where it is from."""
    return {
        "marker": marker,
        "document_id": passage.document_id,
        "source_id": str(passage.source_id),
        "version": passage.version,
        "build": passage.build,
        "position": passage.position,
        "title": passage.title,
        "text": snippet(passage.text, query, _LONGEST_SNIPPET) if query else passage.text,
        "updated_at": passage.updated_at.isoformat(),
    }


def _slim(shown: dict[str, Any], score: float | None) -> dict[str, Any]:
    """Return what the model sees of a passage."""
    return {
        "marker": shown["marker"],
        "source_id": shown["source_id"],
        "version": shown["version"],
        "title": shown["title"],
        "snippet": shown["text"],
        "score": None if score is None else round(score, 3),
        "updated_at": shown["updated_at"],
    }
