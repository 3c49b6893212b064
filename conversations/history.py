"""What the model is told of the talk so far, and which passages that rests on."""

import re
from collections.abc import Iterable
from typing import Any

from agents.models import AgentRun
from conversations.models import Message, MessageRole
from knowledge import queries
from knowledge.queries import PassageKey
from zhifu.jobs import JobStatus

# A few exchanges back is what a question can refer to; more only costs tokens.
MAX_EXCHANGES = 10
MAX_CHARACTERS = 6000
_OUTDATED = "（这条回答依据的资料已更新，内容略去。/ Left out: what this answer stood on has changed since.）"
# The numbers under which an answer showed its sources; in a later prompt they would point nowhere.
_DISPLAY_MARKER = re.compile(r"\[\d{1,3}\]")

Exchange = tuple[Message, AgentRun | None]


def shown_passages(messages: Iterable[dict[str, Any]]) -> set[PassageKey]:
    """Return (document id, version, build) of every passage shown in these messages, or that they rest on."""
    shown: set[PassageKey] = set()
    for message in messages:
        for passage in message.get("passages", ()):
            shown.add((passage["document_id"], passage["version"], passage["build"]))
        for document_id, version, build in message.get("rests_on", ()):
            shown.add((document_id, version, build))
    return shown


def opening_messages(run: AgentRun) -> list[dict[str, Any]]:
    """Return the messages a run starts from: the newest earlier questions with their answers, then its own question.

    An earlier answer is knowledge shown to the model: it says what it rests on, and its text is left out once any
    of that is no longer live.
    """
    exchanges = _earlier_exchanges(run)
    shown = {answered.pk: shown_passages(answered.messages) for _, answered in exchanges if answered is not None}
    live = queries.live_among(set[PassageKey]().union(*shown.values()))
    messages: list[dict[str, Any]] = []
    for question, answered in exchanges:
        messages.append({"role": "user", "content": question.text})
        if answered is not None and answered.answer is not None:
            rests_on = shown[answered.pk]
            messages.append(_answer_message(answered.answer, rests_on) if rests_on <= live else _outdated_message())
    return [*messages, {"role": "user", "content": run.trigger.text}]


def _earlier_exchanges(run: AgentRun) -> list[Exchange]:
    """Return earlier questions, each with the run that answered it, oldest first, within the bounds."""
    questions = Message.objects.filter(
        conversation_id=run.conversation_id, role=MessageRole.CUSTOMER, sequence__lt=run.trigger.sequence
    ).order_by("-sequence")[:MAX_EXCHANGES]
    answered = AgentRun.objects.filter(trigger__in=[question.pk for question in questions], status=JobStatus.COMPLETED)
    run_of = {earlier.trigger_id: earlier for earlier in answered.select_related("answer")}
    exchanges: list[Exchange] = []
    characters = 0
    for question in questions:
        earlier = run_of.get(question.pk)
        characters += len(question.text) + (len(earlier.answer.text) if earlier and earlier.answer else 0)
        if characters > MAX_CHARACTERS:
            break
        exchanges.append((question, earlier))
    return exchanges[::-1]


def _answer_message(answer: Message, rests_on: set[PassageKey]) -> dict[str, Any]:
    text = _DISPLAY_MARKER.sub("", answer.text)
    return {"role": "assistant", "content": text, "rests_on": [list(key) for key in sorted(rests_on)]}


def _outdated_message() -> dict[str, Any]:
    return {"role": "assistant", "content": _OUTDATED}
