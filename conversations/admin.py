"""Screens of conversations: what was said, and on which sources the answers stand. Read-only."""

from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, Prefetch, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy as _

from agents.models import AgentRun
from conversations.models import Conversation, Message, MessageSource
from knowledge.models import DocumentVersion
from zhifu.admin_site import scope_of_user
from zhifu.tenant_admin import JOB_WORDS, ReadOnlyInline, TenantAdmin, as_paragraphs, folded, labelled, link_to


class MessageInline(ReadOnlyInline):
    model = Message
    fields = [labelled("sequence", _("序号")), "role", "shown_text", "sources", "committed_at"]
    ordering = ["sequence"]
    per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).in_scope(scope_of_user(request))
        return rows.prefetch_related(Prefetch("sources", _sources(request)))  # type: ignore[no-any-return]  # untyped

    @admin.display(description=_("内容"))
    def shown_text(self, message: Message) -> Any:
        return folded(message.text)

    @admin.display(description=_("来源"))
    def sources(self, message: Message) -> Any:
        return format_html_join(
            "",
            '<div class="mb-2">[{}] {}（{}）{}</div>',
            (
                (source.number, _cited(source), source.get_support_display(), as_paragraphs(f"“{source.quote}”"))
                for source in message.sources.all()
            ),
        )


def _sources(request: HttpRequest) -> QuerySet[Any]:
    """Return sources with id and title of the version each cites, null where the reader may not open it."""
    versions = DocumentVersion.objects.in_scope(scope_of_user(request))
    cited = versions.filter(document=OuterRef("document"), version=OuterRef("version")).order_by()
    return MessageSource.objects.annotate(
        cited_id=Subquery(cited.values("pk")), cited_title=Subquery(cited.values("title"))
    )


def _cited(source: Any) -> str:
    if source.cited_id is None:
        return f"第 {source.version} 版"
    return link_to(DocumentVersion, source.cited_id, f"《{source.cited_title}》第 {source.version} 版")


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
        return link_to(AgentRun, run.pk, str(run))

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
