"""The admin's front door: only members of a tenant and platform staff come in."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from unfold.forms import AuthenticationForm
from unfold.sites import UnfoldAdminSite

from zhifu import credentials
from zhifu.errors import Unauthenticated
from zhifu.scope import Scope


def scope_or_none(request: HttpRequest) -> Scope | None:
    """Return the scope of who is signed in, None for anybody who is neither member nor platform staff."""
    user: AbstractBaseUser | AnonymousUser = request.user
    known = getattr(request, "staff_scopes", None)
    if known is None:
        known = request.staff_scopes = {}  # type: ignore[attr-defined]  # kept as long as the request
    # By user: signing in and out change who a request belongs to.
    if user.pk not in known:
        known[user.pk] = _read_scope(user)
    scope: Scope | None = known[user.pk]
    return scope


def scope_of_user(request: HttpRequest) -> Scope:
    """Return the scope of who is signed in. Raises PermissionDenied for anybody who is not staff of anything."""
    scope = scope_or_none(request)
    if scope is None:
        raise PermissionDenied
    return scope


def _read_scope(user: AbstractBaseUser | AnonymousUser) -> Scope | None:
    try:
        return credentials.staff_scope(user)
    except Unauthenticated:
        return None


class StaffLoginForm(AuthenticationForm):  # type: ignore[misc]  # unfold is untyped
    """Signing in says at once that an account belongs to no tenant, instead of showing an empty admin."""

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        super().confirm_login_allowed(user)
        if _read_scope(user) is None:
            raise ValidationError(
                "这个账号不是任何租户的有效成员，请联系管理员 / "
                "This account is not an active member of any tenant; ask your administrator.",
                code="no_membership",
            )


class StaffAdminSite(UnfoldAdminSite):  # type: ignore[misc]  # unfold is untyped
    """Django's admin in unfold's clothes, for people who have a Scope."""

    login_form = StaffLoginForm

    def has_permission(self, request: HttpRequest) -> bool:
        user = request.user
        return user.is_active and bool(user.is_staff) and scope_or_none(request) is not None

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Unfold's search over all tables keeps Python objects in the shared cache, which holds JSON only."""
        raise Http404
