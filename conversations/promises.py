"""The promises as queries: each check yields what contradicts it, nothing when it is kept.

P1 no stale answer, P2 no leak, P3 consent is the switch (`memory_promises`), P4 nothing lost and nothing twice, P6 what
was spent is recorded, P7 MySQL is the truth and Milvus agrees with it. They only read. A busy system may be checked:
what is read later is never expected to be as old as what was read before it.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery

from agents.models import AgentRun
from config.models import UsagePurpose, UsageRecord, UsageStatus
from conversations import history, memory_promises
from conversations.models import Conversation, Message, MessageRole, MessageSource
from conversations.violations import Check, Violation, rows_that
from knowledge import vectors
from knowledge.models import (
    Audience,
    DocumentVersion,
    IndexedVersion,
    IndexJob,
    IndexTarget,
    KnowledgeDocument,
    VersionStatus,
)
from memory.models import MemoryJob
from zhifu.batches import batches
from zhifu.jobs import OPEN_STATUSES, JobStatus, LeasedJob, grace, job_models
from zhifu.models import Member, StoreKey
from zhifu.transactions import database_now

# A commit looks at validity and then reads the clock for `committed_at`; a busy machine may pause in between.
_MOMENT = timedelta(seconds=5)


# --- P1 ---
def answers_from_what_was_not_live() -> Iterator[Violation]:
    """Every passage cited or shown by a committed answer was live and valid when it was committed."""
    for runs in batches(AgentRun.objects.filter(status=JobStatus.COMPLETED).select_related("answer")):
        yield from _not_live_in(runs)


def _not_live_in(runs: list[AgentRun]) -> Iterator[Violation]:
    cited = _cited_versions(runs)
    used = [(run, *key) for run in runs for key in _shown_versions(run) | cited.get(run.answer_id, set())]
    versions = _versions_of(document for _run, document, _version in used)
    for run, document, version in used:
        row = versions.get((document, version))
        if run.answer is None or row is None or not _was_live(row, run.answer):
            yield Violation(f"used document {document} version {version}, which was not live", f"AgentRun {run.pk}")


def _shown_versions(run: AgentRun) -> set[tuple[int, int]]:
    return {(document, version) for document, version, _build in history.shown_passages(run.messages)}


def _cited_versions(runs: list[AgentRun]) -> dict[int | None, set[tuple[int, int]]]:
    cited: dict[int | None, set[tuple[int, int]]] = {}
    sources = MessageSource.objects.filter(message__in=[run.answer_id for run in runs if run.answer_id])
    for message, document, version in sources.values_list("message_id", "document_id", "version"):
        cited.setdefault(message, set()).add((document, version))
    return cited


def _versions_of(documents: Iterable[int]) -> dict[tuple[int, int], DocumentVersion]:
    rows = DocumentVersion.objects.filter(document_id__in=set(documents)).select_related("document")
    return {(row.document_id, row.version): row for row in rows.defer("source_text")}


def _was_live(version: DocumentVersion, answer: Message) -> bool:
    at = answer.committed_at
    if version.live_from is None or version.live_from > at or (version.effective_from or at) > at:
        return False
    if version.expires_at is not None and version.expires_at <= at - _MOMENT:
        return False
    return version.live_until is None or version.live_until >= at


def live_pointers_that_contradict_their_version() -> Iterator[Violation]:
    """What a document points to is there, PUBLISHED and not ended; nothing else of it is."""
    pointed = DocumentVersion.objects.filter(document=OuterRef("pk"), version=OuterRef("live_version"))
    yield from rows_that(
        "points to a version that is not there",
        KnowledgeDocument.objects.filter(~Exists(pointed), live_version__isnull=False),
    )
    live = DocumentVersion.objects.filter(document__live_version=F("version"))
    yield from rows_that(
        "is pointed to as live and is not PUBLISHED and running",
        live.exclude(status=VersionStatus.PUBLISHED, live_from__isnull=False, live_until=None),
    )
    others = DocumentVersion.objects.exclude(document__live_version=F("version")) | DocumentVersion.objects.filter(
        document__live_version=None
    )
    yield from rows_that("is PUBLISHED and nothing points to it", others.filter(status=VersionStatus.PUBLISHED))


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
            Member.stores.through.objects.exclude(store__tenant_id=F("member__tenant_id")),
        ),
        ("store of another tenant", StoreKey.objects.exclude(store__tenant_id=F("tenant_id"))),
        (
            "answer in another conversation",
            AgentRun.objects.filter(answer__isnull=False).exclude(answer__conversation_id=F("conversation_id")),
        ),
        (
            "repeats a run of another conversation",
            AgentRun.objects.filter(retry_of__isnull=False).exclude(retry_of__conversation_id=F("conversation_id")),
        ),
        ("version of another document", IndexJob.objects.exclude(document_version__document_id=F("document_id"))),
        ("usage of another tenant's run", _usage_of_runs().exclude(run_tenant=F("tenant_id"))),
    ]
    for what, rows in crossing:
        yield from rows_that(what, rows)


def _usage_of_runs() -> QuerySet[Any, Any]:
    """Return the usage of runs, each with the tenant of its run."""
    run = AgentRun.objects.filter(pk=OuterRef("subject_id"))
    usage: QuerySet[Any, Any] = UsageRecord.objects.filter(Exists(run), purpose=UsagePurpose.ANSWER)
    with_tenant: QuerySet[Any, Any] = usage.annotate(run_tenant=Subquery(run.values("tenant_id")[:1]))
    return with_tenant


def passages_shown_to_others() -> Iterator[Violation]:
    """No run was shown a passage of another store, or one that is for staff."""
    for runs in batches(AgentRun.objects.all()):
        shown = [(run, *key) for run in runs for key in _shown_versions(run)]
        versions = _versions_of(document for _run, document, _version in shown)
        for run, document, version in shown:
            row = versions.get((document, version))
            if row is None or (row.document.tenant_id, row.document.store_id) != (run.tenant_id, run.store_id):
                yield Violation(f"was shown document {document} of another store", f"AgentRun {run.pk}")
            elif row.audience != Audience.CUSTOMER:
                yield Violation(f"was shown document {document}, which is for staff", f"AgentRun {run.pk}")


# --- P4 ---
def jobs_that_do_not_settle() -> Iterator[Violation]:
    """Every job is done, failed with a reason, cancelled, or under way. In a queue that moves a job may wait long, as
    long as the sweeper knows of it."""
    for model in job_models():
        rows, now = model._base_manager, database_now()
        before = now - grace()
        dead = Q(status=JobStatus.RUNNING) & (Q(lease_until=None) | Q(lease_until__lt=before))
        yield from rows_that("was left by its worker and nobody takes it", rows.filter(dead))
        waiting = rows.filter(status=JobStatus.QUEUED, run_after__lt=before)
        if rows.filter(Q(started_at__gte=before) | Q(status=JobStatus.RUNNING, lease_until__gte=now)).exists():
            waiting = waiting.filter(Q(hinted_at=None) | Q(hinted_at__lt=before))
        yield from rows_that("waits and nobody takes it", waiting)
        yield from rows_that("failed without saying why", rows.filter(status=JobStatus.FAILED, error_code=""))


def open_markers_that_contradict_their_job() -> Iterator[Violation]:
    """The unique column that allows one job is set exactly while it is open (of memory: runs), to what it is about."""
    marked: list[tuple[type[LeasedJob], str, str, Q]] = [
        (IndexJob, "open_document", "document_id", Q(status__in=OPEN_STATUSES)),
        (AgentRun, "active_conversation", "conversation_id", Q(status__in=OPEN_STATUSES)),
        (MemoryJob, "running_customer", "customer_id", Q(status=JobStatus.RUNNING)),
    ]
    for model, marker, subject, is_open in marked:
        is_marked = Q(**{f"{marker}__isnull": False})
        rows = model._base_manager.filter((is_open & ~is_marked) | (~is_open & is_marked))
        yield from rows_that(f"is open and not marked by {marker}, or the reverse", rows)
        others = model._base_manager.filter(is_marked).exclude(**{f"{marker}_id": F(subject)})
        yield from rows_that(f"has the {marker} of another", others)


def messages_without_outcome() -> Iterator[Violation]:
    """Every customer message has a run, or waits behind an open one; none has two answers, and none is missing."""
    asked = Message.objects.filter(role=MessageRole.CUSTOMER)
    lost = asked.filter(runs=None, committed_at__lt=database_now() - grace()).exclude(
        conversation__active_run__isnull=False
    )
    yield from rows_that("has no run and none is under way", lost)
    yield from rows_that("waits for a run and has one", asked.filter(runs__isnull=False, waiting_since__isnull=False))
    twice = asked.annotate(answers=Count("runs__answer")).filter(answers__gt=1)
    yield from rows_that("has more than one answer", twice)
    yield from rows_that("is an answer of no run", Message.objects.filter(role=MessageRole.ASSISTANT, answered_by=None))
    swapped = AgentRun.objects.exclude(trigger__role=MessageRole.CUSTOMER) | AgentRun.objects.filter(
        answer__role=MessageRole.CUSTOMER
    )
    yield from rows_that("answers no customer, or with a customer's words", swapped)
    unanswered = AgentRun.objects.filter(status=JobStatus.COMPLETED, answer=None)
    yield from rows_that("is completed without an answer", unanswered)
    unfinished = AgentRun.objects.filter(answer__isnull=False).exclude(status=JobStatus.COMPLETED)
    yield from rows_that("has an answer and is not completed", unfinished)
    numbered = Conversation.objects.annotate(said=Count("messages")).exclude(said=F("message_sequence"))
    yield from rows_that("has given numbers to more or fewer messages than it has", numbered)


# --- P6 ---
def model_calls_without_usage() -> Iterator[Violation]:
    """Each model reply kept in a run has its usage record, and none stays open."""
    for runs in batches(AgentRun.objects.only("messages")):
        # Counted after the replies were read: a call is on record before its reply is.
        usage = UsageRecord.objects.filter(purpose=UsagePurpose.ANSWER, subject_id__in=[run.pk for run in runs])
        counts: dict[int, int] = dict(usage.order_by().values_list("subject_id").annotate(calls=Count("id")))
        for run in runs:
            replies, recorded = _replies_of(run), counts.get(run.pk, 0)
            if replies > recorded:
                yield Violation(f"{replies} model replies, {recorded} usage records", f"AgentRun {run.pk}")
    stale = UsageRecord.objects.filter(status=UsageStatus.OPEN, created_at__lt=database_now() - grace())
    yield from rows_that("was never settled", stale)


def _replies_of(run: AgentRun) -> int:
    """Count the assistant messages after the question: those before it are history."""
    replies = 0
    for message in run.messages:
        if message["role"] == "user" and "note" not in message:
            replies = 0
        elif message["role"] == "assistant":
            replies += 1
    return replies


# --- P7 ---
def live_versions_missing_in_the_index() -> Iterator[Violation]:
    """Every live version is complete in the active target, by record and by count of its vectors."""
    live = DocumentVersion.objects.filter(document__live_version=F("version")).select_related("document")
    for versions in batches(live.defer("source_text").annotate(size=Count("chunks"))):
        for version in versions:
            missing = _missing_in_index(version)
            # What went out of force while it was looked for may be gone.
            if missing and _is_in_force(version.document):
                yield Violation(missing, f"DocumentVersion {version.pk}")


def versions_filtered_by_other_tags() -> Iterator[Violation]:
    """The tags a version is filtered by are those it shows."""
    for versions in batches(DocumentVersion.objects.only("tags").prefetch_related("tag_rows")):
        for version in versions:
            if sorted(version.tags) != sorted(row.tag for row in version.tag_rows.all()):
                yield Violation("shows other tags than it is filtered by", f"DocumentVersion {version.pk}")


def _missing_in_index(version: Any) -> str:
    """Return what the active target lacks of a live version, annotated with its `size`; nothing when it is whole."""
    document = version.document
    target = IndexTarget.objects.filter(active=version.collection).first()
    if target is None:
        return "is live and its collection has no active target"
    recorded = IndexedVersion.objects.filter(
        target=target, document=document, version=version.version, build=document.live_build
    ).first()
    if recorded is None:
        return "is live and not recorded as indexed"
    held = vectors.count_build(target, tenant_id=document.tenant_id, document_id=document.pk, build=document.live_build)
    if not version.size == recorded.chunks == held:
        return f"has {version.size} chunks, its record says {recorded.chunks}, the index holds {held}"
    return ""


def _is_in_force(document: KnowledgeDocument) -> bool:
    return KnowledgeDocument.objects.filter(pk=document.pk, live_build=document.live_build).exists()


_CHECKS = (
    Check("P1", "answers use only what was live at commit", answers_from_what_was_not_live),
    Check("P1", "live pointers and versions agree", live_pointers_that_contradict_their_version),
    Check("P2", "no row points into another tenant or store", rows_that_cross_tenants),
    Check("P2", "no passage was shown to whom it is not for", passages_shown_to_others),
    *memory_promises.CHECKS,
    Check("P4", "every job settles", jobs_that_do_not_settle),
    Check("P4", "one open job where one is allowed", open_markers_that_contradict_their_job),
    Check("P4", "one answer or one visible failure per message", messages_without_outcome),
    Check("P6", "every model call is recorded and settled", model_calls_without_usage),
    Check("P7", "the index holds every live version", live_versions_missing_in_the_index),
    Check("P7", "a version is filtered by the tags it shows", versions_filtered_by_other_tags),
)
CHECKS = tuple(sorted(_CHECKS, key=lambda check: check.promise))
