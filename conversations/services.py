"""What a customer may ask for: a conversation, an answer, and to stop waiting for one.

Each is one short transaction that locks the conversation first; the work itself is a row and a hint.
"""

from uuid import UUID

from agents.models import AgentRun
from conversations import journal
from conversations.models import Conversation, ConversationStatus, Message
from memory import jobs
from zhifu import audit
from zhifu.errors import Conflict, Invalid, NotFound
from zhifu.jobs import JobStatus
from zhifu.scope import Scope
from zhifu.transactions import commit, database_now

MAX_TEXT = 2000
_WRITE = "conversation:write"


def create_conversation(*, scope: Scope) -> Conversation:
    """Return a new conversation of the customer with the store of their token."""
    with audit.recorded(scope, "conversation.create", "conversation") as entry:
        scope.require(_WRITE)
        if not scope.is_customer or scope.tenant_id is None or scope.store_id is None:
            raise NotFound
        conversation: Conversation = Conversation.objects.create(
            tenant_id=scope.tenant_id, store_id=scope.store_id, customer_id=scope.actor_id
        )
        entry.object_id = str(conversation.public_id)
    return conversation


def accept_message(
    *, scope: Scope, conversation_id: UUID, text: str, client_message_id: str | None = None
) -> tuple[Message, AgentRun | None]:
    """Store what the customer says and return it with its run: None while an earlier message is being answered.

    The same client_message_id with the same text is the same message, with the newest of its runs. Raises Invalid,
    NotFound, and Conflict for another text under that id or a closed conversation.
    """
    with audit.recorded(scope, "conversation.accept_message", "conversation", str(conversation_id)):
        scope.require(_WRITE)
        _check_text(text)
        return commit(_accept, scope, conversation_id, text, client_message_id)


def cancel_run(*, scope: Scope, run_id: UUID) -> AgentRun:
    """Cancel an open run and return it; a cancelled one is returned as it is.

    The message stays unanswered and the next waiting one is taken up. Raises NotFound, and Conflict for a run that
    has already completed or failed.
    """
    with audit.recorded(scope, "conversation.cancel_run", "run", str(run_id)):
        scope.require(_WRITE)
        return commit(_cancel, scope, run_id)


def _check_text(text: str) -> None:
    if not text.strip():
        raise Invalid("消息不能为空 / The message is empty.")
    if len(text) > MAX_TEXT:
        raise Invalid(f"消息最多 {MAX_TEXT} 字 / A message has at most {MAX_TEXT} characters.")


def _accept(
    scope: Scope, conversation_id: UUID, text: str, client_message_id: str | None
) -> tuple[Message, AgentRun | None]:
    conversation = Conversation.objects.in_scope(scope).select_for_update().filter(public_id=conversation_id).first()
    if conversation is None:
        raise NotFound
    if client_message_id is not None:
        sent_before = Message.objects.filter(conversation=conversation, client_message_id=client_message_id).first()
        if sent_before is not None:
            return _same_message(sent_before, text)
    if conversation.status != ConversationStatus.OPEN:
        raise Conflict("会话已结束，请新建一个 / This conversation is closed; start a new one.")
    with journal.opened(conversation, database_now()) as book:
        message = book.add_question(text, client_message_id)
        run = book.start_next_run()
        jobs.enqueue(
            tenant_id=conversation.tenant_id,
            customer_id=conversation.customer_id,
            message_id=message.pk,
            now=book.now,
        )
    return message, run if run is not None and run.trigger_id == message.pk else None


def _same_message(sent_before: Message, text: str) -> tuple[Message, AgentRun | None]:
    if sent_before.text != text:
        raise Conflict(
            "这个 client_message_id 已用于另一条消息 / This client_message_id was used for another message.",
            message_id=str(sent_before.public_id),
        )
    return sent_before, sent_before.runs.order_by("-pk").first()


def _cancel(scope: Scope, run_id: UUID) -> AgentRun:
    found = AgentRun.objects.in_scope(scope).filter(public_id=run_id).only("pk", "conversation_id").first()
    if found is None:
        raise NotFound
    conversation = Conversation.objects.select_for_update().get(pk=found.conversation_id)
    run: AgentRun = AgentRun.objects.select_for_update().get(pk=found.pk)
    if run.status == JobStatus.CANCELLED:
        return run
    if not run.is_open:
        raise Conflict("这次回答已经结束 / This run has already ended.", run_status=run.status)
    with journal.opened(conversation, database_now()) as book:
        book.end_run(run, JobStatus.CANCELLED, code="CANCELLED", message="客户已取消 / Cancelled by the customer.")
        book.start_next_run()
    run.refresh_from_db()
    return run
