"""What every admin screen derives from: rows, choices, filters and permissions come from the caller's Scope.

Django's model permissions are not used: members have none. Nothing is deleted in the admin; things are revoked or
switched off, so that what happened stays on record.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import RelatedFieldListFilter
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import FieldDoesNotExist, PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin, TabularInline
from unfold.decorators import action

from zhifu.admin_site import scope_of_user, scope_or_none
from zhifu.audit import recorded
from zhifu.errors import Conflict, Failure
from zhifu.jobs import JobStatus
from zhifu.scope import Scope, ScopedQuerySet

# Whoever sets up an organisation: a tenant's admin for its own, platform staff for all.
MANAGERS = ("tenant:manage", "platform:manage")
PLATFORM = ("platform:manage",)
NOBODY: tuple[str, ...] = ()
# Of a longer text a table shows this much until it is opened.
SHOWN_CHARACTERS = 200
# Text for people, translated when it is shown.
Words = str | Promise
JOB_WORDS: Mapping[Any, Words] = {
    JobStatus.QUEUED: _("排队中"),
    JobStatus.RUNNING: _("进行中"),
    JobStatus.COMPLETED: _("完成"),
    JobStatus.FAILED: _("失败"),
    JobStatus.CANCELLED: _("已取消"),
}


def choices_in_scope(model: type[Model], request: HttpRequest) -> QuerySet[Any]:
    """Return the rows of `model` the caller may choose from; none of a model that knows no scope."""
    rows = model._default_manager.all()
    return rows.in_scope(scope_of_user(request)) if isinstance(rows, ScopedQuerySet) else rows.none()


class ScopedRelatedFilter(RelatedFieldListFilter):
    """A list filter that offers only what the caller may see."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> list[Any]:
        return [(row.pk, str(row)) for row in choices_in_scope(field.remote_field.model, request)]


class ScopedForm(forms.ModelForm):  # type: ignore[type-arg]  # generic only in the stubs
    """A form whose row belongs to the scope's tenant, and which shows why a service refused what it asked."""

    scope: Scope
    refusal: Failure | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None and self.scope.tenant_id is not None and hasattr(self.instance, "tenant_id"):
            self.instance.tenant_id = self.scope.tenant_id

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.refusal is not None:
            field = self.refusal.details.get("field")
            self.add_error(field if field in self.fields else None, self.refusal.message)
        return cleaned

    def validate_unique(self) -> None:
        """Check every constraint, also those that name the tenant, which is no field of the form."""
        super().validate_unique()
        if self.errors:
            return
        try:
            self.instance.validate_constraints()
        except ValidationError as error:
            self.add_error(None, error)


class ScopedPermissions:
    """Who may see, add and change on a screen: any of these codes of Scope.permissions; nobody may delete."""

    view_codes: Sequence[str] = NOBODY
    add_codes: Sequence[str] = NOBODY
    change_codes: Sequence[str] = NOBODY
    # No bulk actions: each acts on one object, by POST, through a page that asks.
    actions = None

    def may(self, request: HttpRequest, codes: Iterable[str], obj: Any = None) -> bool:
        """Say whether the caller has one of `codes`, and `obj` (a row or its id) is among the rows of this screen."""
        scope = scope_or_none(request)
        if scope is None or scope.permissions.isdisjoint(codes):
            return False
        return obj is None or self.row(request, obj) is not None

    def row(self, request: HttpRequest, obj: Any) -> Any:
        """Return the row of this screen that `obj` (a row or its id) names, None when there is none."""
        key = (type(self), str(obj.pk if isinstance(obj, Model) else obj))
        known = getattr(request, "admin_rows", None)
        if known is None:
            known = request.admin_rows = {}  # type: ignore[attr-defined]  # kept as long as the request
        # Only what was found is remembered: a row may be made later in the same request.
        if key not in known:
            found = self.find(request, key[1])
            if found is None:
                return None
            known[key] = found
        return known[key]

    def find(self, request: HttpRequest, object_id: str) -> Any:
        """Return the row by its id from this screen's own queryset, None when it is not there."""
        return super().get_object(request, object_id)  # type: ignore[misc]  # of the ModelAdmin this is mixed into

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row. Raises Http404, the same for a foreign id as for an unknown one.

        Who may not see the screen is told so before any id is looked up: no answer says whether it exists.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = super().get_object(request, object_id, from_field)  # type: ignore[misc]  # as in find
        if row is None:
            raise Http404
        return row

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, self.view_codes, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may(request, self.add_codes)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, self.change_codes, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only this list's own filters: any other `?column=` would be a question about a hidden column."""
        names = [item[0] if isinstance(item, tuple) else item for item in self.get_list_filter(request)]  # type: ignore[attr-defined]  # of the ModelAdmin
        own = any(lookup == name or lookup.startswith(f"{name}__") for name in names if isinstance(name, str))
        return own and super().lookup_allowed(lookup, value, request)  # type: ignore[misc]  # as in find


class TenantAdmin(ScopedPermissions, ModelAdmin):  # type: ignore[misc]  # unfold is untyped
    """Base of the screens over a tenant's rows. `tenant` is shown to platform staff, and for everybody else it is
    taken from the scope and never from the form."""

    form = ScopedForm
    list_filter_submit = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).in_scope(scope_of_user(request))  # type: ignore[no-any-return]  # untyped

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = choices_in_scope(db_field.remote_field.model, request)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = choices_in_scope(db_field.remote_field.model, request)
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        own = self._without_tenant(super().get_list_filter(request), request)
        return [(name, ScopedRelatedFilter) if self._is_relation(name) else name for name in own]

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return self._without_tenant(super().get_list_display(request), request)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return self._without_tenant(super().get_fields(request, obj), request)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        own = list(super().get_readonly_fields(request, obj))
        # A row never moves to another tenant.
        return own if obj is None else [*own, "tenant"]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        form.scope = scope_of_user(request)
        form.refusal = getattr(request, "admin_refusal", None)
        return form

    def _changeform_view(
        self, request: HttpRequest, object_id: str | None, form_url: str, extra_context: dict[str, Any] | None
    ) -> HttpResponse:
        """Show a service's refusal on the form, with everything the person typed still in it.

        Inside Django's transaction, not around it: the audit trail of the refusal stays.
        """
        try:
            return super()._changeform_view(request, object_id, form_url, extra_context)  # type: ignore[no-any-return]  # untyped
        except Failure as failure:
            request.admin_refusal = failure  # type: ignore[attr-defined]  # read by get_form in the second pass
            return super()._changeform_view(request, object_id, form_url, extra_context)  # type: ignore[no-any-return]  # untyped

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        name = self.opts.model_name
        with recorded(scope_of_user(request), f"{name}.{'change' if change else 'add'}", name) as entry:
            try:
                with transaction.atomic():
                    super().save_model(request, obj, form, change)
            except IntegrityError as error:
                raise Conflict("刚刚有人保存了同名的记录 / Somebody has just saved one of the same name.") from error
            entry.object_id = str(obj.pk)

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        row = self.row(request, unquote(str(object_id)))
        return [
            offer
            for offer in super().get_actions_detail(request, object_id)
            if self.may(request, offer.method.codes) and row is not None and offer.method.is_offered(row)
        ]

    def change_url(self, row: Model) -> str:
        """Return the address of a row's page."""
        name = f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_change"
        return reverse(name, args=[quote(row.pk)])

    def _without_tenant(self, names: Iterable[Any], request: HttpRequest) -> list[Any]:
        hidden = () if scope_of_user(request).tenant_id is None else ("tenant",)
        return [name for name in names if name not in hidden]

    def _is_relation(self, name: Any) -> bool:
        try:
            return isinstance(name, str) and bool(self.opts.get_field(name).is_relation)
        except FieldDoesNotExist:
            return False


class ReadOnlyInline(TabularInline):  # type: ignore[misc]  # unfold is untyped
    """Children shown on a parent's page, which was already fetched through the parent's own scope."""

    extra = 0
    can_delete = False
    hide_title = True

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return scope_or_none(request) is not None

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def confirmed_action(
    *,
    label: Words,
    codes: Sequence[str],
    question: Words,
    is_offered: Callable[[Any], bool] = lambda row: True,
    subject: Callable[[Any], str] = str,
    hidden: Callable[[Any], dict[str, Any]] = lambda row: {},
) -> Callable[[Callable[[Any, HttpRequest, Any], str]], Any]:
    """Make a button on an object's page of a method that acts on the object and returns what happened, in words.

    The button's address asks `question` about `subject`, the row in words, on GET and changes nothing; only a POST
    acts. Both need one of `codes`, and the object is fetched through the admin's own queryset, so that a foreign id is
    a 404. `hidden` are values of the row as it was shown, which the POST brings back. A Failure becomes a message.
    """

    def decorate(act: Callable[[Any, HttpRequest, Any], str]) -> Any:
        def view(self: TenantAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
            row = self.get_object(request, unquote(object_id))
            if not self.may(request, codes, row):
                raise PermissionDenied
            if request.method != "POST":
                asked = {"title": label, "question": question, "subject": subject(row), "hidden": hidden(row)}
                return _confirm_page(self, request, row, **asked)
            try:
                self.message_user(request, act(self, request, row), messages.SUCCESS)
            except Failure as failure:
                self.message_user(request, failure.message, messages.ERROR)
            return HttpResponseRedirect(self.change_url(row))

        view.__name__ = act.__name__
        button = action(description=label)(view)
        button.codes = codes
        button.is_offered = is_offered
        return button

    return decorate


def _confirm_page(admin: TenantAdmin, request: HttpRequest, row: Model, **context: Any) -> TemplateResponse:
    return TemplateResponse(
        request,
        "admin/confirm_action.html",
        admin.admin_site.each_context(request)
        | {"opts": admin.opts, "original": row, "back": admin.change_url(row)}
        | context,
    )


def labelled(name: str, label: Words, words: Mapping[Any, Words] | None = None) -> Callable[[Any], Any]:
    """Return a column or read-only field that shows the attribute `name` under a label of the screen's own.

    `words` say in the reader's language what a stored code means.
    """

    def show(row: Any) -> Any:
        value = getattr(row, name)
        if words is not None:
            return words.get(value, value)
        if isinstance(value, datetime):
            return formats.localize(timezone.localtime(value))
        return value

    show.__name__ = name
    show.short_description = label  # type: ignore[attr-defined]  # what Django's admin reads
    show.admin_order_field = name  # type: ignore[attr-defined]  # as above
    return show


def link_to(model: type[Model], pk: Any, text: str) -> SafeString:
    """Return a link to a row's own page."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[quote(pk)])
    return format_html('<a class="text-primary-600 dark:text-primary-500" href="{}">{}</a>', address, text)


def folded(text: str) -> SafeString:
    """Return text as as_paragraphs does; of a long one the beginning, and the rest to open."""
    if len(text) <= SHOWN_CHARACTERS:
        return as_paragraphs(text)
    beginning, rest = text[:SHOWN_CHARACTERS], text[SHOWN_CHARACTERS:]
    return format_html(
        '{}<details><summary class="cursor-pointer text-primary-600 dark:text-primary-500" style="position: relative">'
        "展开其余 {} 字 / Show the rest</summary>{}</details>",
        as_paragraphs(f"{beginning}…"),
        len(rest),
        as_paragraphs(f"…{rest}"),
    )


def as_json(value: Any) -> SafeString:
    """Return a stored JSON value as people read it, `{}` and null as nothing."""
    return folded(json.dumps(value, ensure_ascii=False, indent=2)) if value else SafeString()


def as_paragraphs(text: str) -> SafeString:
    """Return text for a read-only field: escaped, with its line breaks."""
    return format_html('<div style="white-space: pre-wrap; overflow-wrap: anywhere">{}</div>', text)
