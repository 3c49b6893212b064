"""Screens of conversations: what was said, and on which sources the answers stand. Read-only."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy as _

from agents.models import AgentRun
from conversations.models import Conversation, Message
from zhifu.admin_site import scope_of_user
from zhifu.tenant_admin import JOB_WORDS, ReadOnlyInline, TenantAdmin, as_paragraphs, labelled, link_to


class MessageInline(ReadOnlyInline):
    model = Message
    fields = [labelled("sequence", _("序号")), "role", "shown_text", "sources", "committed_at"]
    ordering = ["sequence"]
    per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).in_scope(scope_of_user(request))
        return rows.prefetch_related("sources")  # type: ignore[no-any-return]  # untyped

    @admin.display(description=_("内容"))
    def shown_text(self, message: Message) -> Any:
        return as_paragraphs(message.text)

    @admin.display(description=_("来源"))
    def sources(self, message: Message) -> Any:
        return format_html_join(
            "",
            "<div>[{}] {}（第 {} 版，{}）</div>",
            (
                (source.number, source.quote, source.version, source.get_support_display())
                for source in message.sources.all()
            ),
        )


class RunInline(ReadOnlyInline):
    model = AgentRun
    fk_name = "conversation"
    fields = [
        "number",
        labelled("status", _("状态"), JOB_WORDS),
        labelled("error_code", _("错误代码")),
        labelled("steps", _("步数")),
        labelled("created_at", _("时间")),
        labelled("finished_at", _("结束时间")),
    ]
    ordering = ["id"]
    per_page = 50

    @admin.display(description=_("编号"))
    def number(self, run: AgentRun) -> Any:
        return link_to(run, str(run))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).in_scope(scope_of_user(request)).defer("messages")  # type: ignore[no-any-return]  # untyped


@admin.register(Conversation)
class ConversationAdmin(TenantAdmin):
    view_codes = ("conversation:read",)
    inlines = [MessageInline, RunInline]
    list_display = [
        "__str__",
        "store",
        "customer",
        "status",
        labelled("message_sequence", _("消息数")),
        labelled("created_at", _("时间")),
    ]
    list_filter = ["status", "store"]
    list_select_related = ["store", "customer"]
    search_fields = ["customer__external_ref__startswith"]
    fields = [
        labelled("store", _("店铺")),
        labelled("customer", _("客户")),
        "status",
        labelled("created_at", _("时间")),
    ]
    readonly_fields = fields
