"""Screens of runs: how each ended, what it called, what it cost."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet, Sum
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from agents.models import AgentRun, InvocationStatus, ToolInvocation
from config.models import UsagePurpose, UsageRecord
from zhifu.tenant_admin import JOB_WORDS, ReadOnlyInline, TenantAdmin, as_json, labelled

INVOCATION_WORDS = {
    InvocationStatus.STARTED: _("进行中"),
    InvocationStatus.OK: _("成功"),
    InvocationStatus.REFUSED: _("被拒绝"),
    InvocationStatus.FAILED: _("失败"),
}


class ToolInvocationInline(ReadOnlyInline):
    model = ToolInvocation
    fields = [
        labelled("tool", _("工具")),
        "shown_arguments",
        labelled("status", _("状态"), INVOCATION_WORDS),
        labelled("error_code", _("错误代码")),
        labelled("duration_ms", _("毫秒")),
        labelled("created_at", _("时间")),
    ]

    @admin.display(description=_("参数"))
    def shown_arguments(self, call: ToolInvocation) -> Any:
        return as_json(call.arguments)


@admin.register(AgentRun)
class AgentRunAdmin(TenantAdmin):
    view_codes = ("conversation:read",)
    inlines = [ToolInvocationInline]
    list_display = [
        "__str__",
        labelled("store", _("店铺")),
        "customer",
        labelled("status", _("状态"), JOB_WORDS),
        labelled("error_code", _("错误代码")),
        labelled("steps", _("步数")),
        labelled("created_at", _("时间")),
    ]
    list_filter = ["status", "store"]
    list_select_related = ["store", "customer"]
    fields = [
        labelled("store", _("店铺")),
        labelled("customer", _("客户")),
        labelled("conversation", _("会话")),
        labelled("status", _("状态"), JOB_WORDS),
        labelled("error_code", _("错误代码")),
        labelled("error_message", _("原因")),
        labelled("warning_code", _("提醒代码")),
        labelled("steps", _("步数")),
        labelled("attempts", _("尝试次数")),
        labelled("retry_of", _("重跑自")),
        "usage",
        labelled("created_at", _("时间")),
        labelled("started_at", _("开始时间")),
        labelled("finished_at", _("结束时间")),
    ]
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # The talk with the model is long, and no screen shows it.
        return super().get_queryset(request).defer("messages")

    @admin.display(description=_("模型用量"))
    def usage(self, run: AgentRun) -> str:
        spent: dict[str, Any] = UsageRecord.objects.filter(
            tenant_id=run.tenant_id, purpose=UsagePurpose.ANSWER, subject_id=run.pk
        ).aggregate(input=Sum("input_tokens"), output=Sum("output_tokens"))
        return f"输入 {spent['input'] or 0}，输出 {spent['output'] or 0}"
