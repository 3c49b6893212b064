"""P3 as queries: without consent nothing is held, after a decision nothing older is, and no content of the store is
without a row that answers for it. Also what of P2, P4 and P6 concerns memory."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet, Subquery

from agents.models import AgentRun
from config.models import UsagePurpose, UsageRecord
from conversations.violations import Check, Violation, rows_that
from memory import store, verifying
from memory.models import EventKind, FieldOrigin, JobOutcome, MemoryEvent, MemoryJob, MemoryProfile, PendingErasure
from memory.verifying import Kind
from zhifu.batches import batches
from zhifu.jobs import JobStatus
from zhifu.models import Customer

# After these nothing of before may be left; a change keeps the fields it does not name.
_FORGETTING = (EventKind.CONSENTED, EventKind.WITHDRAWN, EventKind.CLEARED)


# --- P3 ---
def memory_without_consent() -> Iterator[Violation]:
    """Every customer has a profile; without consent it points to nothing and nothing explains a value."""
    yield from rows_that("has no memory profile", Customer.objects.filter(memory_profile=None))
    silent = MemoryProfile.objects.filter(consent=False)
    yield from rows_that("does not consent and points to content", silent.exclude(value_key=""))
    yield from rows_that("is kept of a customer who does not consent", FieldOrigin.objects.filter(profile__in=silent))


def memory_older_than_a_decision() -> Iterator[Violation]:
    """What explains a value is of the profile's customer, and not said before its last decision to forget."""
    pointing = MemoryProfile.objects.exclude(value_key="")
    yield from rows_that("points to content without an end", pointing.filter(value_expires_at=None))
    origins = FieldOrigin.objects.all()
    others = origins.filter(job__isnull=False).exclude(
        job__customer_id=F("profile__customer_id"), job__message_id=F("message_id"), job__status=JobStatus.COMPLETED
    )
    yield from rows_that("is explained by a job of another customer, or one that did not complete", others)
    forgot = MemoryEvent.objects.filter(profile=OuterRef("profile"), kind__in=_FORGETTING).order_by("-id")
    old = origins.annotate(since=Subquery(forgot.values("epoch")[:1])).filter(since__gt=F("job__epoch"))
    yield from rows_that("is explained by a message of an earlier epoch", old)
    written = MemoryEvent.objects.filter(kind=EventKind.EXTRACTED).exclude(epoch=F("job__epoch"))
    yield from rows_that("was written by a job of another epoch", written)


def store_and_rows_that_disagree() -> Iterator[Violation]:
    """Every content of the store is pointed to or pending, nothing is both, pointers fit, and what is to go goes."""
    both = PendingErasure.objects.filter(Exists(MemoryProfile.objects.filter(value_key=OuterRef("key"))))
    yield from rows_that("is to be erased and pointed to", both)
    try:
        for difference in verifying.differences():
            if difference.kind is not Kind.GONE:
                yield Violation(difference.kind, difference.where)
    except store.MemoryUnavailable:
        yield Violation("does not answer: what it holds cannot be checked", "the memory store")


def memory_in_what_is_kept() -> Iterator[Violation]:
    """No run keeps the prompt that memory is part of."""
    for runs in batches(AgentRun.objects.only("messages")):
        for run in runs:
            if any(message["role"] == "system" for message in run.messages):
                yield Violation("keeps a system prompt", f"agents.AgentRun {run.pk}")


# --- P2 ---
def memory_that_crosses_customers() -> Iterator[Violation]:
    """Every reference stays with its tenant and its customer."""
    usage = UsageRecord.objects.filter(purpose=UsagePurpose.EXTRACTION)
    tenant_of_job = MemoryJob.objects.filter(pk=OuterRef("subject_id")).values("tenant_id")[:1]
    crossing: list[tuple[str, QuerySet[Any, Any]]] = [
        ("profile of another tenant's customer", MemoryProfile.objects.exclude(customer__tenant_id=F("tenant_id"))),
        (
            "job beside its message",
            MemoryJob.objects.exclude(
                tenant_id=F("message__conversation__tenant_id"), customer_id=F("message__conversation__customer_id")
            ),
        ),
        (
            "event of another customer's job",
            MemoryEvent.objects.filter(job__isnull=False).exclude(job__customer_id=F("profile__customer_id")),
        ),
        (
            "event of another customer's run",
            MemoryEvent.objects.filter(run__isnull=False).exclude(run__customer_id=F("profile__customer_id")),
        ),
        (
            "usage of another tenant's memory job",
            usage.annotate(job_tenant=Subquery(tenant_of_job)).exclude(job_tenant=F("tenant_id")),
        ),
    ]
    for what, rows in crossing:
        yield from rows_that(what, rows)


# --- P4, P6 ---
def extractions_without_outcome() -> Iterator[Violation]:
    """A completed extraction says whether it stored something; what it stored is on record; and it was paid for."""
    completed = MemoryJob.objects.filter(status=JobStatus.COMPLETED)
    yield from rows_that("is completed and does not say with what", completed.filter(outcome=""))
    yield from rows_that(
        "has an outcome and is not completed", MemoryJob.objects.exclude(status=JobStatus.COMPLETED).exclude(outcome="")
    )
    events = MemoryEvent.objects.filter(job=OuterRef("pk"), kind=EventKind.EXTRACTED)
    stored = completed.filter(outcome=JobOutcome.STORED)
    yield from rows_that("stored something that is not on record", stored.exclude(Exists(events)))
    paid = UsageRecord.objects.filter(purpose=UsagePurpose.EXTRACTION, subject_id=OuterRef("pk"))
    yield from rows_that("is completed without a recorded model call", completed.exclude(Exists(paid)))


CHECKS = (
    Check("P2", "no memory belongs to another customer", memory_that_crosses_customers),
    Check("P3", "without consent nothing is held", memory_without_consent),
    Check("P3", "nothing older than the customer's last decision", memory_older_than_a_decision),
    Check("P3", "the memory store holds what rows answer for", store_and_rows_that_disagree),
    Check("P3", "no run keeps what it was told of a customer", memory_in_what_is_kept),
    Check("P6", "every extraction says how it ended, and was paid for", extractions_without_outcome),
)
