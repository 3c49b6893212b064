"""Screens of what was spent on models, and of what a tenant may use at once."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from config.models import TenantQuota, UsagePurpose, UsageRecord, UsageStatus
from zhifu.tenant_admin import MANAGERS, PLATFORM, TenantAdmin, labelled

PURPOSE_WORDS = {
    UsagePurpose.ANSWER: _("回答"),
    UsagePurpose.EXTRACTION: _("记忆提取"),
    UsagePurpose.EVALUATION: _("评测"),
}
STATUS_WORDS = {
    UsageStatus.OPEN: _("进行中"),
    UsageStatus.SETTLED: _("已结算"),
    UsageStatus.ESTIMATED: _("估算"),
}


@admin.register(UsageRecord)
class UsageRecordAdmin(TenantAdmin):
    view_codes = ("audit:read",)
    list_display = [
        labelled("created_at", _("时间")),
        labelled("purpose", _("用途"), PURPOSE_WORDS),
        labelled("subject_id", _("运行或任务编号")),
        labelled("model", _("模型")),
        labelled("status", _("状态"), STATUS_WORDS),
        labelled("input_tokens", _("输入")),
        labelled("output_tokens", _("输出")),
        labelled("error_code", _("错误代码")),
    ]
    list_filter = ["purpose", "status"]
    fields = [*list_display, labelled("endpoint", _("接入点")), labelled("settled_at", _("结算时间"))]
    readonly_fields = fields


@admin.register(TenantQuota)
class TenantQuotaAdmin(TenantAdmin):
    """A tenant's admin sees what it has; the platform decides it. A tenant without a row has the default."""

    view_codes = MANAGERS
    add_codes = change_codes = PLATFORM
    list_display = ["tenant", "background_jobs", labelled("created_at", _("创建时间"))]
    list_select_related = ["tenant"]
    fields = ["tenant", "background_jobs"]
