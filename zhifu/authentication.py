"""DRF authentication: `request.auth` is the Scope. Customers and staff have different tokens and keys;
each kind's token is refused by the other's views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jwt
from django.contrib.auth.models import AnonymousUser
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework_simplejwt.authentication import JWTAuthentication

from zhifu import credentials, customer_tokens
from zhifu.errors import Forbidden
from zhifu.scope import Scope

if TYPE_CHECKING:  # DRF's views import their settings, which import this module.
    from rest_framework.views import APIView


class CustomerAuthentication(BaseAuthentication):
    """`Authorization: Bearer <customer token>`."""

    takes = "客户令牌 a customer token"

    def authenticate(self, request: Request) -> tuple[AnonymousUser, Scope] | None:
        token = bearer_token(request)
        if token is None or _kind(token) != "customer":
            return None
        customer, store = customer_tokens.read(token)
        return AnonymousUser(), credentials.customer_scope(customer, store)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class StaffAuthentication(BaseAuthentication):
    """`Authorization: Bearer <staff JWT>`, or the admin's session (then with CSRF)."""

    takes = "员工令牌 a staff token"

    def authenticate(self, request: Request) -> tuple[Any, Scope] | None:
        token = bearer_token(request)
        if token is not None:
            if _kind(token) == "customer":
                return None
            signed_in = JWTAuthentication().authenticate(request)
        else:
            signed_in = SessionAuthentication().authenticate(request)
        if signed_in is None:
            return None
        return signed_in[0], credentials.staff_scope(signed_in[0])

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class StoreKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer zk_...`, on the one address that mints customer tokens."""

    takes = "店铺密钥 a store key"

    def authenticate(self, request: Request) -> tuple[AnonymousUser, Scope] | None:
        token = bearer_token(request)
        if token is None:
            return None
        return AnonymousUser(), credentials.store_key_scope(token)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class HasScope(BasePermission):
    """Somebody is signed in; and where the view names `permissions = {"POST": "code"}`, their role grants it."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.auth, Scope):
            taken = "、".join(kind.takes for kind in view.authentication_classes if hasattr(kind, "takes"))
            raise exceptions.NotAuthenticated(f"请先登录，这里要的是 / Sign in first; this address takes: {taken}.")
        needed: dict[str, str] = getattr(view, "permissions", {})
        code = needed.get(request.method or "")
        if code is not None and code not in request.auth.permissions:
            raise Forbidden("你没有这项权限 / You may not do this.", permission=code)
        return True


def scope_of(request: Request) -> Scope:
    """Return the caller's Scope; only after authentication, in a view that demands one."""
    scope = request.auth
    if not isinstance(scope, Scope):
        raise exceptions.NotAuthenticated("请先登录 / Sign in first.")
    return scope


def bearer_token(request: Request) -> str | None:
    """Return the token of `Authorization: Bearer ...`, None without one."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.strip() else None


def _kind(token: str) -> str:
    """Return the token_type a JWT claims, unverified: it only picks which authentication verifies it."""
    try:
        return str(jwt.decode(token, options={"verify_signature": False}).get("token_type", ""))
    except jwt.InvalidTokenError:
        return ""
