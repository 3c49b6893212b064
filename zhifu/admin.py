"""Screens of the organisation: tenants, stores, people, keys, and the audit trail."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from rest_framework_simplejwt.token_blacklist.models import BlacklistedToken, OutstandingToken
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from zhifu import services
from zhifu.admin_site import scope_of_user
from zhifu.models import AuditEvent, AuditOutcome, Customer, Member, Store, StoreKey, Tenant
from zhifu.tenant_admin import (
    MANAGERS,
    PLATFORM,
    ScopedForm,
    ScopedPermissions,
    TenantAdmin,
    as_json,
    confirmed_action,
    labelled,
)

User = get_user_model()
OUTCOME_WORDS = {
    AuditOutcome.OK: _("成功"),
    AuditOutcome.REFUSED: _("被拒绝"),
    AuditOutcome.FAILED: _("失败"),
}

# Refresh tokens are secrets; no screen shows them.
admin.site.unregister([OutstandingToken, BlacklistedToken, User, Group])


@admin.register(User)
class UserAdmin(ScopedPermissions, DjangoUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]  # unfold is untyped
    view_codes = add_codes = change_codes = PLATFORM
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(ScopedPermissions, DjangoGroupAdmin, ModelAdmin):  # type: ignore[misc]  # unfold is untyped
    view_codes = add_codes = change_codes = PLATFORM


@admin.register(Tenant)
class TenantsAdmin(TenantAdmin):
    view_codes = add_codes = change_codes = PLATFORM
    list_display = ["name", "is_active", labelled("created_at", _("创建时间"))]
    search_fields = ["name__startswith"]
    fields = ["name", "is_active"]


@admin.register(Store)
class StoreAdmin(TenantAdmin):
    view_codes = add_codes = change_codes = MANAGERS
    list_display = [
        "name",
        "tenant",
        "is_open",
        labelled("public_id", _("对外编号")),
        labelled("created_at", _("创建时间")),
    ]
    list_filter = ["is_open", "tenant"]
    list_select_related = ["tenant"]
    search_fields = ["name__startswith"]
    fields = ["tenant", "name", "is_open"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Somebody limited to some stores could not see the new one."""
        return super().has_add_permission(request) and scope_of_user(request).store_ids is None


# The name only: accounts are a screen of the platform's.
USERNAME = labelled("user", _("用户名"))


class MemberForm(ScopedForm):
    """A member and, for a new one, the account it signs in with."""

    username = forms.CharField(label=_("用户名"), max_length=150, widget=UnfoldAdminTextInputWidget())
    password = forms.CharField(
        label=_("初始密码"), strip=False, widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"})
    )

    class Meta:
        model = Member
        fields = ["tenant", "role", "stores", "is_active"]

    def clean_username(self) -> str:
        username: str = self.cleaned_data["username"]
        try:
            User(username=username).full_clean(exclude=["password"])
        except ValidationError as error:
            raise ValidationError(error.messages) from error
        return username

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        validate_password(password, User(username=self.cleaned_data.get("username", "")))
        return password

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        chosen = cleaned.get("stores")
        if self.scope.store_ids is not None and not chosen:
            self.add_error(
                "stores", _("你只管理部分店铺，请为成员选定店铺 / You manage some stores only: choose this member's.")
            )
        tenant_id = getattr(cleaned.get("tenant"), "pk", self.instance.tenant_id)
        if chosen and any(store.tenant_id != tenant_id for store in chosen):
            self.add_error("stores", _("这些店铺不属于该租户 / These stores are of another tenant."))
        return cleaned


@admin.register(Member)
class MemberAdmin(TenantAdmin):
    view_codes = add_codes = change_codes = MANAGERS
    form = MemberForm
    list_display = ["user", "tenant", "role", "is_active", labelled("created_at", _("加入时间"))]
    list_filter = ["role", "is_active", "tenant"]
    list_select_related = ["user", "tenant"]
    search_fields = ["user__username__startswith"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        own = ["username", "password", "role", "stores"] if obj is None else [USERNAME, "role", "stores", "is_active"]
        return self._without_tenant(["tenant", *own], request)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        # Django leaves declared form fields out when they are read-only; an existing member's account is only shown.
        account = [] if obj is None else [USERNAME, "username", "password"]
        return [*super().get_readonly_fields(request, obj), *account]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody changes their own place; and who is limited to some stores changes only members of those."""
        if not super().has_change_permission(request, obj):
            return False
        if obj is None:
            return True
        scope, member = scope_of_user(request), self.row(request, obj)
        if member.user_id == scope.user_id:
            return False
        theirs = {store.pk for store in member.stores.all()}
        return scope.store_ids is None or (bool(theirs) and theirs <= scope.store_ids)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        made = services.add_member(
            scope=scope_of_user(request),
            tenant=obj.tenant,
            username=form.cleaned_data["username"],
            password=form.cleaned_data["password"],
            role=obj.role,
        )
        obj.pk = made.pk
        obj.refresh_from_db()


@admin.register(Customer)
class CustomerAdmin(TenantAdmin):
    """Customers are made by the merchant's server; here they are named and switched off."""

    view_codes = change_codes = ("tenant:manage",)
    list_display = ["external_ref", "display_name", "is_active", labelled("created_at", _("创建时间"))]
    list_filter = ["is_active"]
    search_fields = ["external_ref__startswith", "display_name__startswith"]
    fields = ["external_ref", "display_name", "is_active"]
    readonly_fields = ["external_ref"]


@admin.register(StoreKey)
class StoreKeyAdmin(TenantAdmin):
    view_codes = add_codes = ("tenant:manage",)
    list_display = ["name", "store", labelled("created_at", _("创建时间")), "revoked_at"]
    list_filter = ["store"]
    list_select_related = ["store"]
    actions_detail = ["revoke"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return (
            ["store", "name"] if obj is None else ["store", "name", labelled("created_at", _("创建时间")), "revoked_at"]
        )

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        key, secret = services.create_store_key(scope=scope_of_user(request), store=obj.store, name=obj.name)
        obj.pk = key.pk
        obj.refresh_from_db()
        self.message_user(
            request,
            f"密钥只显示这一次，请立即保存 / Shown only this once, keep it now: {secret}",
            messages.WARNING,
        )

    @confirmed_action(
        label=_("停用密钥"),
        codes=("tenant:manage",),
        question=_("停用后，用这个密钥的服务器不能再为客户签发令牌，且不能恢复。确定停用吗？"),
        is_offered=lambda key: key.revoked_at is None,
    )
    def revoke(self, request: HttpRequest, key: StoreKey) -> str:
        services.revoke_store_key(scope=scope_of_user(request), key_id=key.pk)
        return "密钥已停用 / The key has been revoked."


@admin.register(AuditEvent)
class AuditEventAdmin(TenantAdmin):
    view_codes = ("audit:read",)
    list_display = [
        labelled("created_at", _("时间")),
        "actor",
        labelled("action", _("动作")),
        labelled("object_kind", _("对象")),
        labelled("object_id", _("对象编号")),
        labelled("outcome", _("结果"), OUTCOME_WORDS),
        labelled("code", _("代码")),
        labelled("duration_ms", _("毫秒")),
    ]
    list_filter = ["outcome"]
    search_fields = ["action__startswith", "object_id"]
    fields = [*list_display, "shown_data"]
    readonly_fields = fields

    @admin.display(description=_("操作者"))
    def actor(self, event: AuditEvent) -> str:
        return f"{event.actor_kind} {event.actor_id or ''}"

    @admin.display(description=_("细节"))
    def shown_data(self, event: AuditEvent) -> Any:
        return as_json(event.data)
