"""What was spent on models."""

from uuid import uuid4

from django.db import models
from django.utils.translation import gettext_lazy as _

from zhifu.models import Tenant
from zhifu.scope import ScopedQuerySet
from zhifu.transactions import database_now


class UsageStatus(models.TextChoices):
    OPEN = "OPEN"
    SETTLED = "SETTLED"
    ESTIMATED = "ESTIMATED"


class UsagePurpose(models.TextChoices):
    ANSWER = "answer"
    # Reading a customer's message for lasting wishes; the subject is the memory job.
    EXTRACTION = "extraction"
    # Measuring a model on labelled messages; there is no subject.
    EVALUATION = "evaluation"


class UsageRecordQuerySet(ScopedQuerySet):
    store_path = None


class UsageRecord(models.Model):
    """One call of a model: written OPEN before the call, settled after it, whatever became of the answer."""

    call_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    purpose = models.CharField(max_length=32, choices=UsagePurpose.choices)
    # The run or job the call was made for, by its id; no foreign key: usage outlives it.
    subject_id = models.BigIntegerField()
    endpoint = models.CharField(max_length=200)
    model = models.CharField(max_length=200)
    status = models.CharField(max_length=16, choices=UsageStatus.choices, default=UsageStatus.OPEN)
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    error_code = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(default=database_now, editable=False)
    settled_at = models.DateTimeField(null=True, editable=False)

    objects = UsageRecordQuerySet.as_manager()

    class Meta:
        verbose_name = _("模型用量")
        verbose_name_plural = _("模型用量")
        ordering = ["-id"]
        indexes = [
            # All calls of one run; and the sweeper's stale OPEN ones.
            models.Index(fields=["purpose", "subject_id"], name="usage_of_subject"),
            models.Index(fields=["status", "created_at"], name="usage_open"),
        ]

    def __str__(self) -> str:
        return f"{self.purpose} {self.subject_id}"


class TenantQuotaQuerySet(ScopedQuerySet):
    store_path = None
    platform_sees = True


class TenantQuota(models.Model):
    """What one tenant may use at once. Claims of background jobs lock this row."""

    tenant = models.OneToOneField(Tenant, models.PROTECT, related_name="quota", verbose_name=_("租户"))
    background_jobs = models.PositiveIntegerField(
        _("同时进行的后台任务"), default=4, help_text=_("例如记忆提取。其余的任务排队等待，不会丢失；0 表示暂停。")
    )
    created_at = models.DateTimeField(default=database_now, editable=False)

    objects = TenantQuotaQuerySet.as_manager()

    class Meta:
        verbose_name = _("租户额度")
        verbose_name_plural = _("租户额度")
        ordering = ["id"]

    def __str__(self) -> str:
        return str(self.tenant)
