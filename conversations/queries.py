"""Doors to a customer's conversations, and what the customer sees behind them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Prefetch, QuerySet

from agents.models import AgentRun
from conversations.models import Conversation, Message, MessageSource
from knowledge import references
from knowledge.models import DocumentVersion
from zhifu.errors import NotFound
from zhifu.scope import Scope


@dataclass(frozen=True)
class SourceRef:
    """A passage an answer cites; `updated_at` is when its version went live, the token is signed for this reader."""

    source_id: UUID
    version: int
    updated_at: datetime | None
    title: str
    quote: str
    support: str
    reference_token: str


@dataclass(frozen=True)
class AnswerView:
    text: str
    degraded: bool
    degradation_reason: str
    source_refs: tuple[SourceRef, ...]
    # Chinese law wants the label with every answer.
    generated_by: str = "ai"


@dataclass(frozen=True)
class MessageView:
    """A message; a customer's with its newest run (None while it waits), an assistant's with its answer."""

    message: Message
    run: AgentRun | None
    answer: AnswerView | None
    in_reply_to: UUID | None


@dataclass(frozen=True)
class RunView:
    run: AgentRun
    answer: AnswerView | None
    retried_by: UUID | None


def conversations(scope: Scope) -> QuerySet[Conversation]:
    """Return the conversations the caller may see."""
    return Conversation.objects.in_scope(scope)


def get_conversation(scope: Scope, public_id: UUID) -> Conversation:
    """Return a conversation of the caller. Raises NotFound for any other."""
    conversation: Conversation | None = conversations(scope).filter(public_id=public_id).first()
    if conversation is None:
        raise NotFound
    return conversation


def get_run(scope: Scope, public_id: UUID) -> RunView:
    """Return a run with its answer and the run that repeats it. Raises NotFound for one that is not the caller's."""
    runs = AgentRun.objects.in_scope(scope).filter(public_id=public_id).defer("messages", "retried_by__messages")
    run = runs.select_related("conversation", "trigger", "answer", "retried_by").first()
    if run is None:
        raise NotFound
    answers = _answers(scope, [run.answer] if run.answer else [])
    retry: AgentRun | None = getattr(run, "retried_by", None)
    return RunView(run, answers.get(run.answer_id), retry.public_id if retry else None)


def messages_after(scope: Scope, conversation: Conversation, after: int, limit: int) -> list[MessageView]:
    """Return up to `limit` messages that follow the sequence number `after`, in order, as the customer sees them."""
    runs = AgentRun.objects.defer("messages").order_by("pk")
    messages = list(
        conversation.messages.filter(sequence__gt=after)
        .select_related("answered_by__trigger")
        .defer("answered_by__messages")
        .prefetch_related(Prefetch("runs", runs))
        .order_by("sequence")[:limit]
    )
    answers = _answers(scope, [message for message in messages if message.is_answer])
    return [_view(message, answers.get(message.pk)) for message in messages]


def _view(message: Message, answer: AnswerView | None) -> MessageView:
    if answer is None:
        runs = list(message.runs.all())
        return MessageView(message, runs[-1] if runs else None, None, None)
    return MessageView(message, None, answer, message.answered_by.trigger.public_id)


def _answers(scope: Scope, messages: Iterable[Message]) -> dict[int | None, AnswerView]:
    """Return the answers of these assistant messages by message id, in two queries however many there are."""
    answers = {message.pk: message for message in messages}
    sources = list(MessageSource.objects.filter(message__in=answers).select_related("document"))
    versions = _versions(sources)
    refs: dict[int, list[SourceRef]] = {pk: [] for pk in answers}
    for source in sources:
        version = versions[source.document_id, source.version]
        refs[source.message_id].append(
            SourceRef(
                source_id=source.document.public_id,
                version=source.version,
                updated_at=version.live_from,
                title=version.title,
                quote=source.quote,
                support=source.support,
                reference_token=references.mint(scope, source.document.public_id),
            )
        )
    return {
        pk: AnswerView(answer.text, answer.degraded, answer.degradation_reason, tuple(refs[pk]))
        for pk, answer in answers.items()
    }


def _versions(sources: Iterable[MessageSource]) -> dict[tuple[int, int], DocumentVersion]:
    documents = {source.document_id for source in sources}
    numbers = {source.version for source in sources}
    versions = DocumentVersion.objects.filter(document__in=documents, version__in=numbers).defer("source_text")
    return {(version.document_id, version.version): version for version in versions}
