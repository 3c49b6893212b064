"""The promises as queries: each check yields what contradicts it, nothing when it is kept.

P1 no stale answer, P2 no leak, P4 nothing lost and nothing twice, P6 what was spent is recorded, P7 MySQL is
the truth and Milvus agrees with it. They only read; a busy system may be checked.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, F, Q, QuerySet

from agents.models import AgentRun
from config.models import UsageRecord, UsageStatus
from conversations import history
from conversations.models import Conversation, Message, MessageRole, MessageSource
from knowledge import vectors
from knowledge.models import (
    DocumentVersion,
    IndexedVersion,
    IndexJob,
    IndexTarget,
    KnowledgeDocument,
    TargetStatus,
    VersionStatus,
)
from zhifu.jobs import OPEN_STATUSES, JobStatus, LeasedJob, job_models
from zhifu.models import Member, StoreKey
from zhifu.transactions import database_now

_BATCH = 500


@dataclass(frozen=True)
class Violation:
    what: str
    row: str


@dataclass(frozen=True)
class Check:
    promise: str
    question: str
    find: Callable[[], Iterator[Violation]]


def _grace() -> timedelta:
    """How long something may be under way before it counts as lost: a lease, and a few rounds of the sweeper."""
    return timedelta(seconds=settings.LEASE_SECONDS + 4 * settings.SWEEP_SECONDS)


def _rows(what: str, rows: QuerySet[Any, Any]) -> Iterator[Violation]:
    for pk in rows.order_by("pk").values_list("pk", flat=True).iterator(chunk_size=_BATCH):
        yield Violation(what, f"{rows.model._meta.label} {pk}")


# --- P1 ---
def answers_from_what_was_not_live() -> Iterator[Violation]:
    """Every passage cited or shown by a committed answer was live when it was committed."""
    answered = AgentRun.objects.filter(status=JobStatus.COMPLETED).select_related("answer").order_by("pk")
    batch: list[AgentRun] = []
    for run in answered.iterator(chunk_size=_BATCH):
        batch.append(run)
        if len(batch) == _BATCH:
            yield from _not_live_in(batch)
            batch = []
    yield from _not_live_in(batch)


def _not_live_in(runs: list[AgentRun]) -> Iterator[Violation]:
    used = [(run, *key) for run in runs for key in _used_versions(run)]
    versions = {
        (row.document_id, row.version): row
        for row in DocumentVersion.objects.filter(document_id__in={document for _run, document, _v in used}).only(
            "document_id", "version", "live_from", "live_until"
        )
    }
    for run, document, version in used:
        row = versions.get((document, version))
        if run.answer is None or row is None or not _was_live(row, run.answer):
            yield Violation(f"used document {document} version {version}, which was not live", f"AgentRun {run.pk}")


def _used_versions(run: AgentRun) -> set[tuple[int, int]]:
    shown = {(document_id, version) for document_id, version, _build in history.shown_passages(run.messages)}
    if run.answer is None:
        return shown
    return shown | set(run.answer.sources.values_list("document_id", "version"))


def _was_live(version: DocumentVersion, answer: Message) -> bool:
    if version.live_from is None or version.live_from > answer.committed_at:
        return False
    return version.live_until is None or version.live_until >= answer.committed_at


def live_pointers_that_contradict_their_version() -> Iterator[Violation]:
    """What a document points to is PUBLISHED and not ended; nothing else of it is."""
    live = DocumentVersion.objects.filter(document__live_version=F("version"))
    yield from _rows(
        "is pointed to as live and is not PUBLISHED and running",
        live.exclude(status=VersionStatus.PUBLISHED, live_from__isnull=False, live_until=None),
    )
    others = DocumentVersion.objects.exclude(document__live_version=F("version")) | DocumentVersion.objects.filter(
        document__live_version=None
    )
    yield from _rows("is PUBLISHED and nothing points to it", others.filter(status=VersionStatus.PUBLISHED))


# --- P2 ---
def rows_that_cross_tenants() -> Iterator[Violation]:
    """Every reference stays inside its tenant and, where it has one, its store."""
    crossing: list[tuple[str, QuerySet[Any, Any]]] = [
        ("store of another tenant", KnowledgeDocument.objects.exclude(store__tenant_id=F("tenant_id"))),
        ("store of another tenant", Conversation.objects.exclude(store__tenant_id=F("tenant_id"))),
        ("customer of another tenant", Conversation.objects.exclude(customer__tenant_id=F("tenant_id"))),
        (
            "run beside its conversation",
            AgentRun.objects.exclude(
                tenant_id=F("conversation__tenant_id"),
                store_id=F("conversation__store_id"),
                customer_id=F("conversation__customer_id"),
                trigger__conversation_id=F("conversation_id"),
            ),
        ),
        (
            "source of another store",
            MessageSource.objects.exclude(
                document__tenant_id=F("message__conversation__tenant_id"),
                document__store_id=F("message__conversation__store_id"),
            ),
        ),
        (
            "limited to a store of another tenant",
            Member.objects.filter(stores__isnull=False).exclude(stores__tenant_id=F("tenant_id")),
        ),
        ("store of another tenant", StoreKey.objects.exclude(store__tenant_id=F("tenant_id"))),
    ]
    for what, rows in crossing:
        yield from _rows(what, rows)


def passages_shown_across_stores() -> Iterator[Violation]:
    """No run was shown a passage of another store."""
    home: dict[int, tuple[int, int]] = {}
    for run in AgentRun.objects.order_by("pk").iterator(chunk_size=_BATCH):
        shown = {document_id for document_id, _version, _build in history.shown_passages(run.messages)}
        unknown = shown - home.keys()
        if unknown:
            rows = KnowledgeDocument.objects.filter(pk__in=unknown).values_list("pk", "tenant_id", "store_id")
            home |= {pk: (tenant, store) for pk, tenant, store in rows}
        for document in shown:
            if home.get(document) != (run.tenant_id, run.store_id):
                yield Violation(f"was shown document {document} of another store", f"AgentRun {run.pk}")


# --- P4 ---
def jobs_that_do_not_settle() -> Iterator[Violation]:
    """Every job is done, failed with a reason, cancelled, or has moved within the grace."""
    for model in job_models():
        yield from _rows("waits and nobody takes it", model._base_manager.filter(_overdue()))
        yield from _rows(
            "failed without saying why", model._base_manager.filter(status=JobStatus.FAILED, error_code="")
        )


def _overdue() -> Q:
    before = database_now() - _grace()
    return Q(status=JobStatus.QUEUED, run_after__lt=before) | Q(status=JobStatus.RUNNING, lease_until__lt=before)


def open_markers_that_contradict_their_job() -> Iterator[Violation]:
    """The unique column that allows one open job is set exactly while the job is open."""
    pairs: list[tuple[type[LeasedJob], str]] = [(IndexJob, "open_document"), (AgentRun, "active_conversation")]
    for model, marker in pairs:
        is_open = Q(status__in=OPEN_STATUSES)
        is_marked = Q(**{f"{marker}__isnull": False})
        rows = model._base_manager.filter((is_open & ~is_marked) | (~is_open & is_marked))
        yield from _rows(f"is open and not marked by {marker}, or the reverse", rows)


def messages_without_outcome() -> Iterator[Violation]:
    """Every customer message has a run, or waits behind an open one; none has two answers."""
    asked = Message.objects.filter(role=MessageRole.CUSTOMER)
    lost = asked.filter(runs=None, committed_at__lt=database_now() - _grace()).exclude(
        conversation__active_run__isnull=False
    )
    yield from _rows("has no run and none is under way", lost)
    twice = asked.annotate(answers=Count("runs__answer")).filter(answers__gt=1)
    yield from _rows("has more than one answer", twice)
    yield from _rows("is an answer of no run", Message.objects.filter(role=MessageRole.ASSISTANT, answered_by=None))
    unanswered = AgentRun.objects.filter(status=JobStatus.COMPLETED, answer=None)
    yield from _rows("is completed without an answer", unanswered)


# --- P6 ---
def model_calls_without_usage() -> Iterator[Violation]:
    """Each model reply kept in a run has its usage record, and none stays open."""
    counts: dict[int, int] = {}
    for row in UsageRecord.objects.values("subject_id").annotate(calls=Count("id")).iterator(chunk_size=_BATCH):
        counts[row["subject_id"]] = row["calls"]
    for pk, messages, trigger in AgentRun.objects.values_list("pk", "messages", "trigger_id").iterator(
        chunk_size=_BATCH
    ):
        replies = _replies_of_this_run(messages)
        if replies > counts.get(pk, 0):
            yield Violation(f"{replies} model replies, {counts.get(pk, 0)} usage records ({trigger})", f"AgentRun {pk}")
    stale = UsageRecord.objects.filter(status=UsageStatus.OPEN, created_at__lt=database_now() - _grace())
    yield from _rows("was never settled", stale)


def _replies_of_this_run(messages: list[dict[str, Any]]) -> int:
    """Count the assistant messages after the last customer message: those before it are history."""
    replies = 0
    for message in messages:
        if message["role"] == "user":
            replies = 0
        elif message["role"] == "assistant":
            replies += 1
    return replies


# --- P7 ---
def live_versions_missing_in_the_index() -> Iterator[Violation]:
    """Every live version is complete in the active target, by record and by count of its vectors."""
    targets = {target.collection: target for target in IndexTarget.objects.filter(status=TargetStatus.ACTIVE)}
    live = DocumentVersion.objects.filter(document__live_version=F("version")).select_related("document")
    for version in live.annotate(size=Count("chunks")).order_by("pk").iterator(chunk_size=_BATCH):
        target = targets.get(version.collection)
        document = version.document
        if target is None:
            yield Violation("is live and its collection has no active target", f"DocumentVersion {version.pk}")
            continue
        recorded = IndexedVersion.objects.filter(
            target=target, document=document, version=version.version, build=document.live_build
        )
        if not recorded.exists():
            yield Violation("is live and not recorded as indexed", f"DocumentVersion {version.pk}")
        held = vectors.count_build(
            target, tenant_id=document.tenant_id, document_id=document.pk, build=document.live_build
        )
        if held != version.size:
            yield Violation(f"has {version.size} chunks, the index {held}", f"DocumentVersion {version.pk}")


CHECKS = (
    Check("P1", "answers use only what was live at commit", answers_from_what_was_not_live),
    Check("P1", "live pointers and versions agree", live_pointers_that_contradict_their_version),
    Check("P2", "no row points into another tenant or store", rows_that_cross_tenants),
    Check("P2", "no passage was shown across stores", passages_shown_across_stores),
    Check("P4", "every job settles", jobs_that_do_not_settle),
    Check("P4", "one open job where one is allowed", open_markers_that_contradict_their_job),
    Check("P4", "one answer or one visible failure per message", messages_without_outcome),
    Check("P6", "every model call is recorded and settled", model_calls_without_usage),
    Check("P7", "the index holds every live version", live_versions_missing_in_the_index),
)
