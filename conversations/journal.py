"""What is written about a conversation while its row is locked: messages, events, and which run comes next.

Both sequences are taken from the locked row, so a reader that asks for "after n" misses nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from agents.loop import Answer
from agents.models import AgentRun
from conversations.models import Conversation, ConversationEvent, EventKind, Message, MessageRole, MessageSource
from memory import jobs
from zhifu.errors import LeaseLost
from zhifu.jobs import JobStatus

_ENDINGS = {
    JobStatus.COMPLETED: EventKind.RUN_COMPLETED,
    JobStatus.FAILED: EventKind.RUN_FAILED,
    JobStatus.CANCELLED: EventKind.RUN_CANCELLED,
}


@contextmanager
def opened(conversation: Conversation, now: datetime) -> Iterator["Journal"]:
    """Yield the journal of a conversation whose row the caller has locked; its events are written at the end.

    `now` is the database's clock, read after the last lock of the transaction.
    """
    journal = Journal(conversation, now)
    yield journal
    journal.write_events()


class Journal:
    def __init__(self, conversation: Conversation, now: datetime) -> None:
        self.conversation = conversation
        self.now = now
        self._events: list[ConversationEvent] = []

    def add_question(self, text: str, client_message_id: str | None) -> Message:
        """Insert a customer's message; it waits until `start_next_run` comes to it."""
        return self._add_message(
            role=MessageRole.CUSTOMER, text=text, client_message_id=client_message_id, waiting_since=self.now
        )

    def add_answer(self, answer: Answer) -> Message:
        """Insert an answer with its sources, whose documents the caller has locked."""
        message = self._add_message(
            role=MessageRole.ASSISTANT,
            text=answer.text,
            degraded=answer.degraded,
            degradation_reason=answer.degradation_reason or "",
        )
        MessageSource.objects.bulk_create(
            MessageSource(
                message=message,
                number=source.number,
                document_id=source.document_id,
                version=source.version,
                position=source.position,
                quote=source.quote,
                support=source.support,
            )
            for source in answer.sources
        )
        return message

    def start_next_run(self) -> AgentRun | None:
        """Start the run of the oldest message that waits for one, unless a run is active."""
        if AgentRun.objects.filter(active_conversation=self.conversation).exists():
            return None
        waiting = Message.objects.filter(conversation=self.conversation, waiting_since__isnull=False)
        trigger = waiting.order_by("sequence").first()
        if trigger is None:
            return None
        Message.objects.filter(pk=trigger.pk).update(waiting_since=None)
        return self.start_run(trigger)

    def start_run(self, trigger: Message, retry_of: AgentRun | None = None) -> AgentRun:
        """Start a run for `trigger`; the conversation has no active one."""
        run: AgentRun = AgentRun.objects.create(
            tenant_id=self.conversation.tenant_id,
            store_id=self.conversation.store_id,
            customer_id=self.conversation.customer_id,
            conversation=self.conversation,
            active_conversation=self.conversation,
            trigger=trigger,
            retry_of=retry_of,
            run_after=self.now,
            created_at=self.now,
        )
        self._add_run_event(EventKind.RUN_STARTED, run)
        run.hint()
        return run

    def end_run(self, run: AgentRun, status: JobStatus, *, code: str = "", message: str = "", **values: Any) -> None:
        """End `run`, which must still be as the caller holds it. Raises LeaseLost when it is not."""
        held = AgentRun.objects.filter(pk=run.pk, status=run.status, lease_token=run.lease_token)
        changed = held.update(
            status=status,
            active_conversation=None,
            lease_until=None,
            finished_at=self.now,
            error_code=code,
            error_message=message[:500],
            **values,
        )
        if changed != 1:
            raise LeaseLost(f"run {run.pk}")
        self._add_run_event(_ENDINGS[status], run, code=code)
        jobs.start_waiting(run.customer_id, self.now)

    def write_events(self) -> None:
        """Write the events and give back the numbers that were taken."""
        ConversationEvent.objects.bulk_create(self._events)
        self.conversation.save(update_fields=["message_sequence", "event_sequence"])

    def _add_message(self, **values: Any) -> Message:
        self.conversation.message_sequence += 1
        message: Message = Message.objects.create(
            conversation=self.conversation,
            sequence=self.conversation.message_sequence,
            committed_at=self.now,
            **values,
        )
        self._add_event(
            EventKind.MESSAGE, message_id=str(message.public_id), sequence=message.sequence, role=message.role
        )
        return message

    def _add_run_event(self, kind: EventKind, run: AgentRun, **data: Any) -> None:
        self._add_event(kind, run_id=str(run.public_id), message_id=str(run.trigger.public_id), **data)

    def _add_event(self, kind: EventKind, **data: Any) -> None:
        self.conversation.event_sequence += 1
        self._events.append(
            ConversationEvent(
                conversation=self.conversation,
                sequence=self.conversation.event_sequence,
                kind=kind,
                data=data,
                created_at=self.now,
            )
        )
