"""The agent loop. Its state is AgentRun.messages alone: whoever takes a run over goes on from its last saved step."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from agents import citations, executor, prompts, replies, tools, transcript
from agents.citations import CitedSource
from agents.models import AgentRun
from config import gateway
from config.models import UsagePurpose
from memory.communication import Communication
from zhifu import errors, faults
from zhifu.scope import Scope

_NO_ANSWER = "模型没有给出可用的回答，请重新提问 / The model gave no usable answer; please ask again."
_NOT_BORNE_OUT = "没有得到与资料相符的回答，请重新提问 / No answer that its sources bear out; please ask again."
_TOO_MANY_STEPS = (
    "步骤过多，没有得到回答，请把问题说得具体些 / Too many steps without an answer; please be more specific."
)


class RunFailed(errors.Failure):
    """This run has no answer, and going on with it would not bring one."""


@dataclass(frozen=True)
class Answer:
    """What may be committed, provided that everything shown is still live. `degraded`: some of what was looked up
    in this run was found without the vector store."""

    text: str
    sources: tuple[CitedSource, ...]
    degraded: bool
    degradation_reason: str


def run_loop(run: AgentRun, scope: Scope, communication: Communication, checks: Callable[[], None]) -> Answer:
    """Bring the run to an answer, saving each step under its lease. `communication` goes into every request and is
    kept nowhere.

    `checks` raises when the run should stop; it is called at the start and after every model call and tool call, so
    that nothing slow begins or is kept without it.
    Raises RunFailed (STEP_LIMIT, CITATION_INVALID, MODEL_UNAVAILABLE), errors.LeaseLost, what `checks` raises, and
    errors.Unavailable or errors.Broken from the gateway.
    """
    checks()
    while True:
        pending = transcript.pending_calls(run.messages)
        if pending:
            _use_tool(run, scope, pending[0])
            checks()
        elif run.messages[-1]["role"] == "assistant":
            answer = _judge(run)
            if answer is not None:
                return answer
        elif run.steps >= settings.AGENT_MAX_STEPS:
            raise RunFailed(_TOO_MANY_STEPS, code="STEP_LIMIT")
        else:
            _think(run, scope, communication, checks)


def _think(run: AgentRun, scope: Scope, communication: Communication, checks: Callable[[], None]) -> None:
    faults.point("agents.before_model")
    raw = gateway.complete(
        tenant_id=run.tenant_id,
        purpose=UsagePurpose.ANSWER,
        subject_id=run.pk,
        messages=transcript.to_send(prompts.system_prompt(run.store.name, communication), run.messages),
        tools=tools.tool_schemas(scope),
        deadline=time.monotonic() + settings.CHAT_TIMEOUT_SECONDS,
    )
    faults.point("agents.after_model")
    checks()
    reply = replies.parse(raw, transcript.call_ids(run.messages))
    _append(run, reply.as_message(), steps=run.steps + 1)


def _use_tool(run: AgentRun, scope: Scope, call: replies.ToolCall) -> None:
    message = executor.execute(
        run,
        scope,
        call,
        first_number=len(transcript.shown_passages(run.messages)) + 1,
        deadline=time.monotonic() + settings.TOOL_DEADLINE_SECONDS,
    )
    _append(run, message.as_dict())


def _judge(run: AgentRun) -> Answer | None:
    """Return the answer in the last message; None when the model was told what is wrong with it, which happens
    once for each kind of fault. Raises RunFailed the second time."""
    checked = citations.check(run.messages[-1]["content"], transcript.shown_passages(run.messages))
    if checked.unsupported:
        note = prompts.unsupported_note(checked.unsupported)
        _tell_once(run, "unsupported", note, RunFailed(_NOT_BORNE_OUT, code="CITATION_INVALID"))
        return None
    if not checked.text:
        _tell_once(run, "empty", prompts.empty_note(), RunFailed(_NO_ANSWER, code="MODEL_UNAVAILABLE"))
        return None
    reason = transcript.degradation_reason(run.messages)
    return Answer(checked.text, checked.sources, degraded=bool(reason), degradation_reason=reason)


def _tell_once(run: AgentRun, kind: str, text: str, failure: RunFailed) -> None:
    if transcript.has_note(run.messages, kind):
        raise failure
    _append(run, {"role": "user", "content": text, "note": kind})


def _append(run: AgentRun, message: dict[str, Any], **values: Any) -> None:
    run.write_held(messages=[*run.messages, message], **values)
