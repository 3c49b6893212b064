"""A turn: claim a run, let the agent answer, and commit the answer only if nothing it stands on has moved.

Whatever ends a run locks the conversation first and starts the next one, so every accepted message is settled:
by one answer, or by one failure the customer can see.
"""

import logging

from django.conf import settings

import knowledge.queries
import memory.queries
from agents import loop
from agents.loop import Answer
from agents.models import AgentRun
from conversations import history, journal
from conversations.models import Conversation, Message
from memory import recalling
from memory.queries import Snapshot
from zhifu import credentials, errors, faults
from zhifu.jobs import JobStatus, holds
from zhifu.scope import Scope
from zhifu.transactions import commit, database_now

logger = logging.getLogger(__name__)

# How often one question is asked afresh because knowledge or memory changed; then the failure is shown instead.
MAX_FRESH_RUNS = 3
_OUT_OF_ORDER = "暂时无法回答 / No answer can be given at the moment."


class Moved(errors.Failure):
    """What the answer rests on has changed: the question is asked afresh."""


class KnowledgeChanged(Moved):
    """Something shown to the model is no longer what is published."""

    code = "KNOWLEDGE_CHANGED"

    def __init__(self) -> None:
        super().__init__("资料在回答时更新了 / The published material changed while this was being answered.")


class MemoryChanged(Moved):
    """The customer's memory is no longer the one the answer was written with."""

    code = "MEMORY_CHANGED"

    def __init__(self) -> None:
        super().__init__("客户的记忆在回答时变了 / The customer's memory changed while this was being answered.")


class GivenUp(errors.Failure):
    """The run has ended several workers, or they it."""

    code = "ATTEMPTS_EXHAUSTED"

    def __init__(self) -> None:
        super().__init__("多次尝试仍未能回答，请重新提问 / Several attempts gave no answer; please ask again.")


class ScopeEnded(errors.Failure):
    """The customer, the store or the merchant is no longer served."""

    code = "SCOPE_ENDED"

    def __init__(self) -> None:
        super().__init__("客户、店铺或商家已停用，未作答 / Customer, store or merchant is no longer served.")


def run_turn(run_id: int) -> None:
    """Work on a run until it is answered, failed, cancelled or put back; nothing is done with one that is not due."""
    run = AgentRun.claim(run_id)
    if run is None:
        return
    faults.point("agents.after_claim")
    try:
        _settle(run)
    except errors.LeaseLost:
        logger.info("run lost to another worker or cancelled", extra={"run": run.pk})


def start_waiting() -> int:
    """Start the run of every message that waits although its conversation has none active; return how many.

    Nothing in the product leaves such a message behind; the sweeper looks all the same.
    """
    waiting = Message.objects.filter(waiting_since__isnull=False, conversation__active_run=None)
    conversations = waiting.order_by("conversation_id").values_list("conversation_id", flat=True).distinct()[:1000]
    return sum(commit(_start_next, conversation_id) for conversation_id in list(conversations))


def _start_next(conversation_id: int) -> bool:
    conversation = Conversation.objects.select_for_update().get(pk=conversation_id)
    with journal.opened(conversation, database_now()) as book:
        return book.start_next_run() is not None


def _settle(run: AgentRun) -> None:
    if run.attempts > settings.MAX_ATTEMPTS:
        commit(_end, run, JobStatus.FAILED, GivenUp())
        return
    try:
        _answer(run)
    except errors.Failure as failure:
        _settle_failure(run, failure)
    except errors.LeaseLost:
        raise
    except Exception:
        logger.exception("turn broke", extra={"run": run.pk})
        _settle_failure(run, errors.Unavailable(_OUT_OF_ORDER, code="INTERNAL"))


def _answer(run: AgentRun) -> None:
    scope = credentials.customer_scope_by_id(run.customer_id, run.store_id)
    known = recalling.recall(run.customer_id, run.pk)
    if known.failure is not None:
        # It is noted, and gone on without.
        run.write_held(warning_code=known.failure.code)
    faults.point("agents.after_recall")
    if not run.messages:
        snapshot = None if known.snapshot is None else known.snapshot.as_dict()
        run.write_held(messages=history.opening_messages(run), memory_snapshot=snapshot)
    elif known.snapshot != _snapshot(run):
        # What was just read must not go into a request of this run, whatever the snapshot is by the next check.
        raise MemoryChanged
    answer = loop.run_loop(run, scope, known.communication, lambda: _check(run, scope))
    faults.point("agents.before_commit")
    commit(_commit_answer, run, scope, answer)
    faults.point("agents.after_commit")


def _check(run: AgentRun, scope: Scope) -> None:
    """Stop early what could not be committed: the conditions of the commit, read without locks."""
    run.renew()
    if memory.queries.snapshot(run.customer_id) != _snapshot(run):
        raise MemoryChanged
    if not knowledge.queries.still_live(history.shown_passages(run.messages)):
        raise KnowledgeChanged
    credentials.reread(scope)


def _snapshot(run: AgentRun) -> Snapshot | None:
    return Snapshot.from_dict(run.memory_snapshot)


def _commit_answer(run: AgentRun, scope: Scope, answer: Answer) -> None:
    conversation = _lock(run)
    if memory.queries.lock_snapshot(run.customer_id) != _snapshot(run):
        raise MemoryChanged
    if not knowledge.queries.lock_live(history.shown_passages(run.messages)):
        raise KnowledgeChanged
    credentials.reread(scope)
    with journal.opened(conversation, database_now()) as book:
        message = book.add_answer(answer)
        faults.point("agents.in_commit")
        book.end_run(run, JobStatus.COMPLETED, answer=message)
        book.start_next_run()


def _settle_failure(run: AgentRun, failure: errors.Failure) -> None:
    if isinstance(failure, Moved):
        commit(_ask_afresh, run, failure)
    elif isinstance(failure, errors.Unauthenticated):
        commit(_end, run, JobStatus.CANCELLED, ScopeEnded())
    elif isinstance(failure, errors.Unavailable) and run.attempts < settings.MAX_ATTEMPTS:
        run.retry_later(code=failure.code, message=failure.message, seconds=run.pause(failure))
    elif isinstance(failure, errors.Broken):
        # What is wrong with the installation is for the log; the customer can do nothing about it.
        logger.error("turn cannot work", extra={"run": run.pk, "code": failure.code}, exc_info=failure)
        commit(_end, run, JobStatus.FAILED, errors.Failure(_OUT_OF_ORDER, code=failure.code))
    else:
        commit(_end, run, JobStatus.FAILED, failure)


def _ask_afresh(run: AgentRun, failure: errors.Failure) -> None:
    """Fail `run` and start one more for the same question, unless it has been asked afresh often enough."""
    conversation = _lock(run)
    fresh_runs = AgentRun.objects.filter(trigger_id=run.trigger_id).count() - 1
    with journal.opened(conversation, database_now()) as book:
        book.end_run(run, JobStatus.FAILED, code=failure.code, message=failure.message)
        if fresh_runs < MAX_FRESH_RUNS:
            book.start_run(run.trigger, retry_of=run)
        else:
            book.start_next_run()


def _end(run: AgentRun, status: JobStatus, failure: errors.Failure) -> None:
    conversation = _lock(run)
    with journal.opened(conversation, database_now()) as book:
        book.end_run(run, status, code=failure.code, message=failure.message)
        book.start_next_run()


def _lock(run: AgentRun) -> Conversation:
    """Lock conversation and run, in this order. Raises LeaseLost when the run is no longer this worker's."""
    conversation: Conversation = Conversation.objects.select_for_update().get(pk=run.conversation_id)
    held = AgentRun.objects.select_for_update().only("status", "lease_token").get(pk=run.pk)
    if not holds(held, run.lease_token):
        raise errors.LeaseLost(f"run {run.pk}")
    return conversation
