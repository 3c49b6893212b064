"""What the platform knows about its own memory of a customer: consent, where the content lies, who set it, and the
jobs that read messages for it. The content itself is never in these tables."""

from uuid import uuid4

from django.db import models
from django.utils.translation import gettext_lazy as _

from zhifu.jobs import LeasedJob
from zhifu.models import Customer, Tenant
from zhifu.scope import ActorKind, ScopedQuerySet
from zhifu.transactions import database_now


class MemoryQuerySet(ScopedQuerySet):
    # The same customer at another store of the tenant is the same person, and is remembered as one.
    store_path = None
    customer_path = "customer_id"


class MemoryProfile(models.Model):
    """One per customer, made together with it. Every commit about a customer's memory locks this row.

    `epoch` grows with each decision of the customer (consent, change, clear): what was said before it can never be
    written again. `revision` grows with everything that changes what is readable.
    """

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    customer = models.OneToOneField(
        Customer, models.PROTECT, related_name="memory_profile", verbose_name=_("客户"), editable=False
    )
    consent = models.BooleanField(_("已授权"), default=False)
    epoch = models.PositiveBigIntegerField(_("代次"), default=0)
    revision = models.PositiveBigIntegerField(_("修订"), default=0)
    # Where the readable content lies in the store; empty: there is none.
    value_key = models.CharField(max_length=160, blank=True, editable=False)
    value_expires_at = models.DateTimeField(_("内容有效至"), null=True, editable=False)
    created_at = models.DateTimeField(default=database_now, editable=False)

    objects = MemoryQuerySet.as_manager()

    class Meta:
        verbose_name = _("客户记忆")
        verbose_name_plural = _("客户记忆")
        ordering = ["-id"]
        indexes = [
            # The scan of the store: which of these keys are pointed to.
            models.Index(fields=["value_key"], name="memory_value_key"),
        ]

    def __str__(self) -> str:
        return f"#{self.pk}"


class WaitsFor(models.TextChoices):
    RUN = "RUN", _("等待对话结束")
    JOB = "JOB", _("等待同一客户的任务")
    ALLOWANCE = "ALLOWANCE", _("等待后台额度")


class JobOutcome(models.TextChoices):
    """How a completed job ended: three states that must never look alike are STORED, NOTHING and FAILED."""

    STORED = "STORED", _("已记住")
    NOTHING = "NOTHING", _("没有可记的")


class MemoryJob(LeasedJob):
    """Reading one customer message for lasting wishes, under the epoch in which it was said."""

    task_name = "memory.run_extraction"

    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    customer = models.ForeignKey(Customer, models.PROTECT, related_name="+", verbose_name=_("客户"))
    # The customer while this job runs, else null: one running job per customer.
    running_customer = models.OneToOneField(Customer, models.PROTECT, null=True, related_name="+", editable=False)
    message = models.OneToOneField("conversations.Message", models.PROTECT, related_name="memory_job")
    epoch = models.PositiveBigIntegerField()
    # The profile's revision when the job was claimed; its commit wants the same one.
    revision = models.PositiveBigIntegerField(null=True, editable=False)
    waits_for = models.CharField(_("等待"), max_length=16, choices=WaitsFor.choices, blank=True)
    outcome = models.CharField(_("结果"), max_length=16, choices=JobOutcome.choices, blank=True)

    objects = MemoryQuerySet.as_manager()

    class Meta:
        verbose_name = _("记忆提取任务")
        verbose_name_plural = _("记忆提取任务")
        ordering = ["-id"]
        indexes = [
            # The sweeper: what is due, what is dead.
            models.Index(fields=["status", "run_after"], name="memory_job_due"),
            # What a customer's ended run or job, or a tenant's freed allowance, may start.
            models.Index(fields=["customer", "status"], name="memory_job_of_customer"),
            models.Index(fields=["tenant", "status", "waits_for"], name="memory_job_of_tenant"),
        ]

    def __str__(self) -> str:
        return f"#{self.pk}"


class Source(models.TextChoices):
    USER = "user", _("客户设置")
    EXTRACTION = "extraction", _("对话提取")


class FieldOrigin(models.Model):
    """Who set a field of the readable content, or withdrew it, and when: never the value.

    A withdrawn field keeps its row, so that an older message that is read later cannot bring the wish back.
    """

    profile = models.ForeignKey(MemoryProfile, models.CASCADE, related_name="origins")
    field = models.CharField(max_length=32)
    source = models.CharField(max_length=16, choices=Source.choices)
    message = models.ForeignKey("conversations.Message", models.PROTECT, null=True, related_name="+")
    job = models.ForeignKey(MemoryJob, models.PROTECT, null=True, related_name="+")
    confidence = models.FloatField()
    # When it was said: of an extraction, when the message was.
    stated_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("记忆字段来源")
        verbose_name_plural = _("记忆字段来源")
        ordering = ["profile_id", "field"]
        constraints = [models.UniqueConstraint(fields=["profile", "field"], name="one_origin_per_field")]

    def __str__(self) -> str:
        return f"{self.profile_id} {self.field}"


class EventKind(models.TextChoices):
    CONSENTED = "CONSENTED", _("授权")
    WITHDRAWN = "WITHDRAWN", _("撤回授权")
    CHANGED = "CHANGED", _("客户修改")
    CLEARED = "CLEARED", _("清空")
    EXTRACTED = "EXTRACTED", _("从对话记住")
    LOST = "LOST", _("内容丢失")
    PURGED = "PURGED", _("平台清除")


class MemoryEventQuerySet(ScopedQuerySet):
    tenant_path = "profile__tenant_id"
    store_path = None
    customer_path = "profile__customer_id"


class MemoryEvent(models.Model):
    """What happened to a customer's memory, in order: names of fields, never content or evidence."""

    profile = models.ForeignKey(MemoryProfile, models.PROTECT, related_name="events")
    epoch = models.PositiveBigIntegerField()
    revision = models.PositiveBigIntegerField()
    kind = models.CharField(_("事件"), max_length=16, choices=EventKind.choices)
    # Names of the fields it set or withdrew.
    fields = models.JSONField(default=list)
    job = models.ForeignKey(MemoryJob, models.PROTECT, null=True, related_name="+")
    # The run that noticed a loss. No constraint: the run's row may be locked by who waits for the profile.
    run = models.ForeignKey("agents.AgentRun", models.PROTECT, null=True, related_name="+", db_constraint=False)
    # Who asked for it; empty: nobody did.
    actor_kind = models.CharField(max_length=20, choices=ActorKind.choices, blank=True)
    actor_id = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(default=database_now, editable=False)

    objects = MemoryEventQuerySet.as_manager()

    class Meta:
        verbose_name = _("记忆事件")
        verbose_name_plural = _("记忆事件")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.profile_id} {self.kind}"


class PendingErasure(models.Model):
    """A key of the store whose bytes must go. Written before content is, so that no content is ever without either
    this row or a profile that points to it.

    `staged_until`: until then the key belongs to whoever is about to point a profile to it. Null: it is doomed.
    """

    key = models.CharField(max_length=160, unique=True)
    staged_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=database_now, editable=False)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"#{self.pk}"


class StoredContent(models.Model):
    """The table of the cache alias `memory` in the embedded default, which has no Redis. Read and written by
    Django's database cache alone; elsewhere it is empty."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "memory_content"

    def __str__(self) -> str:
        return self.cache_key
