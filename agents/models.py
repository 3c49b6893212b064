"""A run: one attempt at answering one customer message; and every tool call it made."""

from uuid import uuid4

from django.db import models
from django.utils.translation import gettext_lazy as _

from zhifu.jobs import LeasedJob
from zhifu.models import Customer, Store, Tenant
from zhifu.scope import ScopedQuerySet
from zhifu.transactions import database_now


class AgentRunQuerySet(ScopedQuerySet):
    customer_path = "customer_id"


class AgentRun(LeasedJob):
    """`messages` is the talk with the model as OpenAI chat-completion dicts, without the system prompt; tool
    messages also carry `passages`, what was shown, which is not sent to the model in that form."""

    task_name = "conversations.run_turn"

    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    store = models.ForeignKey(Store, models.PROTECT, related_name="+")
    customer = models.ForeignKey(Customer, models.PROTECT, related_name="+", verbose_name=_("客户"))
    conversation = models.ForeignKey("conversations.Conversation", models.PROTECT, related_name="runs")
    # The conversation while this run is open, else null: one active run per conversation.
    active_conversation = models.OneToOneField(
        "conversations.Conversation", models.PROTECT, null=True, related_name="active_run", editable=False
    )
    trigger = models.ForeignKey("conversations.Message", models.PROTECT, related_name="runs")
    answer = models.OneToOneField("conversations.Message", models.PROTECT, null=True, related_name="answered_by")
    # The run this one repeats because knowledge or memory changed under it.
    retry_of = models.OneToOneField("self", models.PROTECT, null=True, related_name="retried_by")
    messages = models.JSONField(default=list)
    # Under which memory the messages came about (memory.queries.Snapshot): where it lies, nothing of it. Null: none.
    memory_snapshot = models.JSONField(null=True)
    # What this run went on without, as a code: MEMORY_UNAVAILABLE.
    warning_code = models.CharField(max_length=64, blank=True)
    steps = models.PositiveIntegerField(default=0)

    objects = AgentRunQuerySet.as_manager()

    class Meta:
        verbose_name = _("智能体运行")
        verbose_name_plural = _("智能体运行")
        ordering = ["-id"]
        indexes = [
            # The sweeper: what is due, what is dead.
            models.Index(fields=["status", "run_after"], name="agent_run_due"),
        ]

    def __str__(self) -> str:
        return f"#{self.pk}"


class InvocationStatus(models.TextChoices):
    STARTED = "STARTED"
    OK = "OK"
    REFUSED = "REFUSED"
    FAILED = "FAILED"


class ToolInvocation(models.Model):
    """One tool call: inserted before the tool starts, so that a takeover knows it may have run."""

    run = models.ForeignKey(AgentRun, models.PROTECT, related_name="invocations")
    call_id = models.CharField(max_length=64)
    tool = models.CharField(max_length=64)
    arguments = models.JSONField(default=dict)
    status = models.CharField(max_length=16, choices=InvocationStatus.choices, default=InvocationStatus.STARTED)
    error_code = models.CharField(max_length=64, blank=True)
    duration_ms = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(default=database_now, editable=False)

    class Meta:
        verbose_name = _("工具调用")
        verbose_name_plural = _("工具调用")
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["run", "call_id"], name="call_once_per_run")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.tool}"
