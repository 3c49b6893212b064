"""Screens of knowledge: write, publish and revoke documents; watch index jobs."""

from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Exists, OuterRef, Prefetch, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from knowledge import queries, services
from knowledge.forms import CONTENT_FIELDS, DocumentForm
from knowledge.models import DocumentStatus, DocumentVersion, IndexJob, KnowledgeDocument
from zhifu.admin_site import scope_of_user
from zhifu.errors import Invalid
from zhifu.jobs import JobStatus
from zhifu.tenant_admin import (
    JOB_WORDS,
    ReadOnlyInline,
    TenantAdmin,
    as_paragraphs,
    confirmed_action,
    folded,
    labelled,
    link_to,
)

# Of digits: more than any version has.
_LONGEST_NUMBER = 9
READERS = ("knowledge:query",)
WRITERS = ("knowledge:write",)
PUBLISHERS = ("knowledge:publish",)
# Names only: not everybody who reads knowledge may open the screens of stores, and accounts are the platform's.
STORE = labelled("store", _("店铺"))
AUTHOR = labelled("author", _("作者"))
REQUESTED_BY = labelled("requested_by", _("发起人"))


def job_in_words(job: IndexJob) -> str:
    """Return what a job is doing or how it ended, with the reason where there is one."""
    words = str(JOB_WORDS[job.status])
    if job.status == JobStatus.RUNNING:
        words += f" {job.chunks_done}/{job.chunks_total}"
    reason = job.error_message or job.error_code
    return f"{words}：{reason}" if reason else words


class VersionInline(ReadOnlyInline):
    model = DocumentVersion
    fields = ["number", "title", "status", AUTHOR, "created_at", "live_from", "live_until"]
    ordering = ["-version"]
    per_page = 20
    template_before = "zhifu/version_numbers.html"

    @admin.display(description=_("版本"))
    def number(self, version: DocumentVersion) -> Any:
        return link_to(DocumentVersion, version.pk, str(version.version))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).in_scope(scope_of_user(request))
        return rows.select_related("author").defer("source_text")  # type: ignore[no-any-return]  # untyped


def _seen_version(document: KnowledgeDocument) -> dict[str, Any]:
    return {"expected_version": document.version}


def _expected_version(request: HttpRequest) -> int:
    value = request.POST.get("expected_version", "")
    if not value.isdecimal() or len(value) > _LONGEST_NUMBER:
        raise Invalid("请从文档页面重新操作 / Start again from the document's page.", field="expected_version")
    return int(value)


def _newest(document: Any) -> str:
    return f"《{document}》第 {document.version} 版"


def _in_force(document: Any) -> str:
    live = f"在线的是第 {document.live_version} 版" if document.live_version else "现在没有在线版本"
    return f"《{document}》{live}"


def _can_be_published(document: KnowledgeDocument) -> bool:
    return document.status != DocumentStatus.REVOKED and document.live_version != document.version


@admin.register(KnowledgeDocument)
class DocumentAdmin(TenantAdmin):
    view_codes = READERS
    add_codes = change_codes = WRITERS
    form = DocumentForm
    list_display = ["title", "store", "shown_status", "version", "live_version", "last_job", "updated_at"]
    list_filter = ["status", "store"]
    list_select_related = ["store"]
    search_fields = ["newest_title"]
    actions_detail = ["publish", "revoke"]
    change_form_show_cancel_button = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return documents with `newest_title`, and in `last_jobs` the one job that was made last."""
        versions = DocumentVersion.objects.filter(document=OuterRef("pk")).order_by("-version")
        later = IndexJob.objects.filter(document=OuterRef("document"), pk__gt=OuterRef("pk"))
        last = Prefetch("jobs", IndexJob.objects.filter(~Exists(later)), to_attr="last_jobs")
        rows = super().get_queryset(request).annotate(newest_title=Subquery(versions.values("title")[:1]))
        return rows.prefetch_related(last)  # type: ignore[no-any-return]  # unfold is untyped

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        state = [] if obj is None else [(None, {"fields": [STORE, ("shown_status", "live_version"), "last_job"]})]
        if obj is not None and not self.has_change_permission(request, obj):
            return [*state, (None, {"fields": ["shown_text"]})]
        content = {
            "fields": [
                *(["store"] if obj is None else []),
                "title",
                "source_text",
                ("collection", "audience"),
                ("source_type", "entity_ref"),
                "tags",
                "effective_from",
                "expires_at",
                "expected_version",
            ]
        }
        return [*state, (None, content)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        shown = [] if obj is None else [STORE, "shown_status", "live_version", "last_job", "shown_text"]
        return [*super().get_readonly_fields(request, obj), *shown]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        fields = forms.fields_for_model(
            DocumentVersion, CONTENT_FIELDS, formfield_callback=partial(self.formfield_for_dbfield, request=request)
        )
        # The text is kept exactly.
        fields["source_text"].strip = False
        kwargs["form"] = type("DocumentForm", (DocumentForm,), fields)
        return super().get_form(request, obj, change, **kwargs)

    def get_inlines(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [] if obj is None else [VersionInline]

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """One way to save: what is saved is a draft, and its page is where one stays."""
        only_save = {"show_save_and_continue": False, "show_save_and_add_another": False}
        return super().render_change_form(request, context | only_save, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        scope = scope_of_user(request)
        if form.changes_nothing:
            self.message_user(
                request,
                f"没有改动，仍是第 {obj.version} 版，没有保存新版本 / Nothing was changed, so no version was saved.",
                messages.INFO,
            )
            return
        if change:
            services.revise_document(
                scope=scope,
                document_id=obj.public_id,
                content=form.content(),
                expected_version=form.cleaned_data["expected_version"] or 0,
            )
        else:
            version = services.create_document(scope=scope, store=obj.store, content=form.content())
            obj.pk = version.document_id
        obj.refresh_from_db()
        self.message_user(
            request, f"已保存为第 {obj.version} 版草稿，发布后才会用于回答 / Saved as draft {obj.version}."
        )

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        """Return what the history says: the fields that were changed, or that a revoked text was saved again."""
        if not add and not form.changed_data and form.instance.version != form.initial["expected_version"]:
            return f"撤回后原样另存为第 {form.instance.version} 版 / Saved again as version {form.instance.version}."
        return super().construct_change_message(request, form, formsets, add)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """What wrote nothing is no history."""
        return super().log_change(request, obj, message) if message else None

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        return self.response_change(request, obj)

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Stay on the document: the next thing to do, publish, is there."""
        return HttpResponseRedirect(self.change_url(obj))

    @confirmed_action(
        label=_("发布"),
        codes=PUBLISHERS,
        question=_("发布最新版本？索引建好后它会取代在线版本，立即用于回答客户。"),
        is_offered=_can_be_published,
        subject=_newest,
        hidden=_seen_version,
    )
    def publish(self, request: HttpRequest, document: KnowledgeDocument) -> str:
        job = services.publish_document(
            scope=scope_of_user(request),
            document_id=document.public_id,
            expected_version=_expected_version(request),
        )
        return (
            f"已提交发布（任务 {job}），索引建好后上线；刷新本页可以看到进度 / "
            "Publishing; it goes live once indexed. Reload this page to see how far it is."
        )

    @confirmed_action(
        label=_("撤回"),
        codes=PUBLISHERS,
        question=_("撤回这份文档？它会立即停止用于回答，正在进行的发布也会取消。"),
        is_offered=lambda document: document.status != DocumentStatus.REVOKED,
        subject=_in_force,
        hidden=_seen_version,
    )
    def revoke(self, request: HttpRequest, document: KnowledgeDocument) -> str:
        services.revoke_document(
            scope=scope_of_user(request),
            document_id=document.public_id,
            expected_version=_expected_version(request),
        )
        return (
            "已撤回，不再用于回答；要再次发布，先保存一个新版本 / "
            "Revoked; it no longer answers. To publish it again, save a new version first."
        )

    @admin.display(description=_("标题"), ordering="newest_title")
    def title(self, document: Any) -> str:
        return str(document.newest_title or document.public_id)

    @display(  # type: ignore[untyped-decorator]  # unfold is untyped; it draws the label
        description=_("状态"),
        ordering="status",
        label={
            DocumentStatus.DRAFT.label: "info",
            DocumentStatus.PUBLISHED.label: "success",
            DocumentStatus.REVOKED.label: "danger",
        },
    )
    def shown_status(self, document: KnowledgeDocument) -> Any:
        return DocumentStatus(document.status).label

    @admin.display(description=_("最近的索引任务"))
    def last_job(self, document: Any) -> Any:
        return folded("".join(job_in_words(job) for job in document.last_jobs))

    @admin.display(description=_("正文"))
    def shown_text(self, document: KnowledgeDocument) -> Any:
        return as_paragraphs(queries.newest_version(document).source_text)


@admin.register(DocumentVersion)
class VersionAdmin(TenantAdmin):
    """One version as it was written; reached from its document."""

    view_codes = READERS
    fields = [
        "version",
        "status",
        "title",
        "shown_text",
        "collection",
        "source_type",
        "entity_ref",
        "tags",
        "audience",
        "effective_from",
        "expires_at",
        AUTHOR,
        "created_at",
        "live_from",
        "live_until",
    ]
    readonly_fields = fields
    list_display = ["title", "version", "status", "created_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # Read when the page of one version shows it.
        return super().get_queryset(request).defer("source_text")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.display(description=_("正文"))
    def shown_text(self, version: DocumentVersion) -> Any:
        return as_paragraphs(version.source_text)


@admin.register(IndexJob)
class IndexJobAdmin(TenantAdmin):
    view_codes = READERS
    list_display = [
        "__str__",
        "document_title",
        "version",
        "state",
        REQUESTED_BY,
        labelled("created_at", _("提交时间")),
    ]
    list_filter = ["status"]
    list_select_related = ["document_version", "requested_by"]
    fields = [
        "document_title",
        "version",
        "state",
        "progress",
        labelled("attempts", _("尝试次数")),
        labelled("error_code", _("错误代码")),
        labelled("error_message", _("原因")),
        REQUESTED_BY,
        labelled("created_at", _("提交时间")),
        labelled("started_at", _("开始时间")),
        labelled("finished_at", _("结束时间")),
    ]
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("document_version__source_text")

    @admin.display(description=_("文档"))
    def document_title(self, job: IndexJob) -> str:
        return job.document_version.title

    @admin.display(description=_("版本"))
    def version(self, job: IndexJob) -> int:
        return job.document_version.version

    @admin.display(description=_("状态"), ordering="status")
    def state(self, job: IndexJob) -> Any:
        return folded(job_in_words(job))

    @admin.display(description=_("进度"))
    def progress(self, job: IndexJob) -> str:
        return f"{job.chunks_done}/{job.chunks_total}"
