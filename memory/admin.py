"""Screens of memory: consent, what happened, and which jobs read for it. Never what is remembered: no page asks the
store.

Who reads the audit trail may see them: they say who decided what and how jobs ended, which nobody needs in order to
answer a customer.
"""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db.models import Exists, F, Model, OuterRef, QuerySet, Sum
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from config.models import UsagePurpose, UsageRecord
from memory.models import FieldOrigin, MemoryEvent, MemoryJob, MemoryProfile, Source
from zhifu.tenant_admin import JOB_WORDS, ReadOnlyInline, TenantAdmin, choices_in_scope, labelled, link_to

AUDIT = ("audit:read",)
FIELD_WORDS = {"response_style": _("回复风格"), "language": _("回复语言"), "contact_channel": _("联系方式")}


def _with_message(rows: QuerySet[Any], request: HttpRequest) -> QuerySet[Any]:
    """Return `rows` with where their message stands, and whether the reader may open its conversation; its text is
    not read."""
    readable = choices_in_scope(_conversations(), request).filter(pk=OuterRef("message__conversation_id"))
    placed: QuerySet[Any] = rows.annotate(
        conversation_number=F("message__conversation_id"),
        message_number=F("message__sequence"),
        may_open=Exists(readable),
    )
    return placed


def _conversations() -> type[Model]:
    # An app to the right, by its name.
    return apps.get_model("conversations.Conversation")


def _message_of(row: Any) -> str:
    """Return which message a row of _with_message came from, as a link where the reader may follow it."""
    if row.message_number is None:
        return "-"
    words = f"会话 #{row.conversation_number} 第 {row.message_number} 条"
    return link_to(_conversations(), row.conversation_number, words) if row.may_open else words


class _WithMessage:
    """Mixed into a screen of rows that came from a message: the column `message_place`."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return _with_message(super().get_queryset(request), request)  # type: ignore[misc]  # of the admin it is mixed into

    @admin.display(description=_("消息"))
    def message_place(self, row: Any) -> str:
        return _message_of(row)


def _job_of(row: Any) -> str:
    return "-" if row.job_id is None else link_to(MemoryJob, row.job_id, f"#{row.job_id}")


class FieldOriginInline(_WithMessage, ReadOnlyInline):
    model = FieldOrigin
    verbose_name_plural = _("字段来源（没有内容）")
    fields = [
        labelled("field", _("字段"), FIELD_WORDS),
        labelled("source", _("来自"), dict(Source.choices)),
        "message_place",
        "job_number",
        labelled("confidence", _("可信度")),
        labelled("stated_at", _("说出时间")),
        labelled("withdrawn_at", _("收回时间")),
    ]
    ordering = ["field"]

    @admin.display(description=_("任务"))
    def job_number(self, origin: FieldOrigin) -> str:
        return _job_of(origin)


class MemoryEventInline(ReadOnlyInline):
    model = MemoryEvent
    verbose_name_plural = _("发生过的事")
    fields = [
        "kind",
        "field_names",
        "actor",
        "job_number",
        "run_number",
        labelled("epoch", _("代次")),
        labelled("revision", _("修订")),
        labelled("created_at", _("时间")),
    ]
    ordering = ["-id"]
    per_page = 50

    @admin.display(description=_("字段"))
    def field_names(self, event: MemoryEvent) -> str:
        return "、".join(str(FIELD_WORDS.get(name, name)) for name in event.fields) or "-"

    @admin.display(description=_("操作者"))
    def actor(self, event: MemoryEvent) -> str:
        return f"{event.actor_kind} {event.actor_id or ''}".strip() or "-"

    @admin.display(description=_("任务"))
    def job_number(self, event: MemoryEvent) -> str:
        return _job_of(event)

    @admin.display(description=_("运行"))
    def run_number(self, event: MemoryEvent) -> str:
        return "-" if event.run_id is None else f"#{event.run_id}"


@admin.register(MemoryProfile)
class MemoryProfileAdmin(TenantAdmin):
    view_codes = AUDIT
    inlines = [FieldOriginInline, MemoryEventInline]
    list_display = ["__str__", "customer", "consent", "has_content", "value_expires_at", "epoch", "revision"]
    list_filter = ["consent"]
    list_select_related = ["customer"]
    search_fields = ["customer__external_ref__startswith"]
    fields = ["customer", "consent", "has_content", "value_expires_at", "epoch", "revision"]
    readonly_fields = fields

    @admin.display(description=_("存有内容"), boolean=True)
    def has_content(self, profile: MemoryProfile) -> bool:
        return bool(profile.value_key)


@admin.register(MemoryJob)
class MemoryJobAdmin(_WithMessage, TenantAdmin):
    view_codes = AUDIT
    list_display = [
        "__str__",
        "customer",
        labelled("status", _("状态"), JOB_WORDS),
        "waits_for",
        "outcome",
        labelled("error_code", _("错误代码")),
        labelled("attempts", _("尝试次数")),
        labelled("created_at", _("时间")),
    ]
    list_filter = ["status", "outcome"]
    list_select_related = ["customer"]
    search_fields = ["customer__external_ref__startswith"]
    fields = [
        "customer",
        "message_place",
        labelled("status", _("状态"), JOB_WORDS),
        "waits_for",
        "outcome",
        labelled("error_code", _("错误代码")),
        labelled("error_message", _("原因")),
        labelled("attempts", _("尝试次数")),
        labelled("epoch", _("代次")),
        "usage",
        labelled("public_id", _("对外编号")),
        labelled("created_at", _("时间")),
        labelled("started_at", _("开始时间")),
        labelled("finished_at", _("结束时间")),
    ]
    readonly_fields = fields

    @admin.display(description=_("模型用量"))
    def usage(self, job: MemoryJob) -> str:
        spent: dict[str, Any] = UsageRecord.objects.filter(
            tenant_id=job.tenant_id, purpose=UsagePurpose.EXTRACTION, subject_id=job.pk
        ).aggregate(input=Sum("input_tokens"), output=Sum("output_tokens"))
        return f"输入 {spent['input'] or 0}，输出 {spent['output'] or 0}"
