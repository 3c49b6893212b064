"""Screen of what was spent on models."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from config.models import UsageRecord
from zhifu.tenant_admin import TenantAdmin, labelled


@admin.register(UsageRecord)
class UsageRecordAdmin(TenantAdmin):
    view_codes = ("audit:read",)
    list_display = [
        labelled("created_at", _("时间")),
        labelled("purpose", _("用途")),
        labelled("subject_id", _("运行编号")),
        labelled("model", _("模型")),
        labelled("status", _("状态")),
        labelled("input_tokens", _("输入")),
        labelled("output_tokens", _("输出")),
        labelled("error_code", _("错误代码")),
    ]
    list_filter = ["status"]
    fields = [*list_display, labelled("endpoint", _("接入点")), labelled("settled_at", _("结算时间"))]
    readonly_fields = fields
