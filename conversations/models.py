"""Conversations, their messages and sources, and the events a client follows."""

from uuid import uuid4

from django.db import models
from django.utils.translation import gettext_lazy as _

from agents.citations import Support
from knowledge.models import KnowledgeDocument
from zhifu.models import Customer, Store, Tenant
from zhifu.scope import ScopedQuerySet
from zhifu.transactions import database_now


class ConversationStatus(models.TextChoices):
    OPEN = "OPEN", _("进行中")
    CLOSED = "CLOSED", _("已结束")


class MessageRole(models.TextChoices):
    CUSTOMER = "customer", _("客户")
    ASSISTANT = "assistant", _("智能助手")


class ConversationQuerySet(ScopedQuerySet):
    customer_path = "customer_id"


class Conversation(models.Model):
    """One customer's talk with one store. Every commit about it locks this row first."""

    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    store = models.ForeignKey(Store, models.PROTECT, related_name="conversations", verbose_name=_("店铺"))
    customer = models.ForeignKey(Customer, models.PROTECT, related_name="conversations", verbose_name=_("客户"))
    status = models.CharField(
        _("状态"), max_length=16, choices=ConversationStatus.choices, default=ConversationStatus.OPEN
    )
    # The last numbers given out; both are taken under this row's lock.
    message_sequence = models.PositiveIntegerField(default=0, editable=False)
    event_sequence = models.PositiveIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(default=database_now, editable=False)

    objects = ConversationQuerySet.as_manager()

    class Meta:
        verbose_name = _("会话")
        verbose_name_plural = _("会话")
        ordering = ["-id"]

    def __str__(self) -> str:
        return str(self.public_id)


class MessageQuerySet(ScopedQuerySet):
    tenant_path = "conversation__tenant_id"
    store_path = "conversation__store_id"
    customer_path = "conversation__customer_id"


class Message(models.Model):
    """What was said. Assistant messages exist only as committed answers."""

    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    conversation = models.ForeignKey(Conversation, models.PROTECT, related_name="messages")
    sequence = models.PositiveIntegerField()
    role = models.CharField(_("角色"), max_length=16, choices=MessageRole.choices)
    text = models.TextField(_("内容"))
    # The client's own id of a message, so that sending it again is the same message. Null: it gave none.
    client_message_id = models.CharField(max_length=64, null=True, editable=False)  # noqa: DJ001  # unique only where set
    # Of an answer: whether some of what it stands on was found without the vector store.
    degraded = models.BooleanField(default=False)
    degradation_reason = models.CharField(max_length=64, blank=True)
    committed_at = models.DateTimeField(_("时间"), default=database_now, editable=False)
    # Of a customer's message: since when it waits for its run. Null once it has one.
    waiting_since = models.DateTimeField(null=True, editable=False)

    objects = MessageQuerySet.as_manager()

    class Meta:
        verbose_name = _("消息")
        verbose_name_plural = _("消息")
        ordering = ["conversation_id", "sequence"]
        constraints = [
            models.UniqueConstraint(fields=["conversation", "sequence"], name="message_sequence"),
            models.UniqueConstraint(fields=["conversation", "client_message_id"], name="message_client_id"),
        ]
        indexes = [
            # The sweeper: conversations in which a message waits and no run is active.
            models.Index(fields=["waiting_since"], name="message_waiting"),
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id}:{self.sequence}"

    @property
    def is_answer(self) -> bool:
        return self.role == MessageRole.ASSISTANT


class MessageSource(models.Model):
    """A passage an answer cites: which version, where, and the words it stands on."""

    message = models.ForeignKey(Message, models.PROTECT, related_name="sources")
    number = models.PositiveIntegerField()
    document = models.ForeignKey(KnowledgeDocument, models.PROTECT, related_name="+")
    version = models.PositiveIntegerField()
    position = models.PositiveIntegerField()
    quote = models.TextField()
    support = models.CharField(max_length=16, choices=Support.choices)

    class Meta:
        ordering = ["message_id", "number"]
        constraints = [models.UniqueConstraint(fields=["message", "number"], name="source_number_per_message")]

    def __str__(self) -> str:
        return f"{self.message_id} [{self.number}]"


class EventKind(models.TextChoices):
    MESSAGE = "message"
    RUN_STARTED = "run.started"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"


class ConversationEvent(models.Model):
    """What happened in a conversation, in order: ids and states, never text."""

    conversation = models.ForeignKey(Conversation, models.PROTECT, related_name="events")
    sequence = models.PositiveIntegerField()
    kind = models.CharField(max_length=32, choices=EventKind.choices)
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=database_now, editable=False)

    class Meta:
        ordering = ["conversation_id", "sequence"]
        constraints = [models.UniqueConstraint(fields=["conversation", "sequence"], name="event_sequence")]

    def __str__(self) -> str:
        return f"{self.conversation_id}:{self.sequence} {self.kind}"
