"""Who asks, and what they may see. A Scope comes from credentials alone, never from a body or a model."""

from dataclasses import dataclass, replace
from typing import Any, Self
from uuid import UUID

from django.db import models

from zhifu.errors import Forbidden


class ActorKind(models.TextChoices):
    CUSTOMER = "customer"
    MEMBER = "member"
    PLATFORM = "platform"
    STORE_KEY = "store_key"


_STAFF = frozenset({"knowledge:query", "knowledge:reference:read", "conversation:read"})
# One table: role -> what it may do.
PERMISSIONS: dict[str, frozenset[str]] = {
    "customer": frozenset({"knowledge:query", "knowledge:reference:read", "conversation:write", "memory:own"}),
    "store_key": frozenset({"customer:token"}),
    "operator": _STAFF | {"knowledge:write", "knowledge:publish", "conversation:reply"},
    "advisor": _STAFF | {"conversation:reply"},
    "risk_operator": _STAFF | {"knowledge:approve", "audit:read"},
    "admin": _STAFF
    | {
        "knowledge:write",
        "knowledge:publish",
        "knowledge:approve",
        "conversation:reply",
        "audit:read",
        "tenant:manage",
    },
    "platform": frozenset({"platform:manage", "config:edit", "config:review", "config:activate"}),
}


@dataclass(frozen=True)
class Scope:
    """The caller: tenant, stores, and permissions, read from the database at this request.

    `store_id` is the one store a request is about (None: not about one); `store_public_id` is known where it is the
    store of a customer's credential. `store_ids` limits a member to some stores (None: all of the tenant). `user_id` is
    the Django user of staff, who signs what they write. A platform scope has no tenant and sees no tenant's knowledge
    or talk.
    """

    tenant_id: int | None
    actor_kind: str
    actor_id: int
    actor_public_id: UUID | None
    role: str
    permissions: frozenset[str]
    store_id: int | None = None
    store_public_id: UUID | None = None
    store_ids: frozenset[int] | None = None
    user_id: int | None = None

    @property
    def is_customer(self) -> bool:
        return self.actor_kind == ActorKind.CUSTOMER

    @property
    def reference_person(self) -> str:
        """How a reference token names this person: `c-` or `m-` and their UUID."""
        return f"{'c' if self.is_customer else 'm'}-{self.actor_public_id}"

    def require(self, permission: str) -> None:
        """Raise Forbidden unless the role grants `permission`."""
        if permission not in self.permissions:
            raise Forbidden("你没有这项权限 / You may not do this.", permission=permission)

    def at_store(self, store_id: int) -> "Scope":
        """Return this scope narrowed to one store."""
        return replace(self, store_id=store_id, store_public_id=None)


class ScopedQuerySet(models.QuerySet[Any, Any]):
    """A queryset that knows which of its columns carry tenant, store and customer.

    Every query reachable from outside starts with `.in_scope(scope)`. Subclasses name the paths.
    """

    tenant_path = "tenant_id"
    store_path: str | None = "store_id"
    customer_path: str | None = None
    # Organisation tables (stores, members) are also set up by platform staff; knowledge and talk are not theirs.
    platform_sees = False

    def in_scope(self, scope: Scope) -> Self:
        """Return the rows this caller may see."""
        if scope.tenant_id is None:
            return self.all() if self.platform_sees and scope.actor_kind == ActorKind.PLATFORM else self.none()
        rows = self.filter(**{self.tenant_path: scope.tenant_id})
        if self.store_path is not None:
            if scope.store_id is not None:
                rows = rows.filter(**{self.store_path: scope.store_id})
            elif scope.store_ids is not None:
                rows = rows.filter(**{f"{self.store_path}__in": scope.store_ids})
        if self.customer_path is not None and scope.is_customer:
            rows = rows.filter(**{self.customer_path: scope.actor_id})
        return rows
