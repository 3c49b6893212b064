"""From a credential to a Scope. Ids come from the credential; everything else is read from the database."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from zhifu.errors import Unauthenticated
from zhifu.models import Customer, Member, StoreKey
from zhifu.scope import PERMISSIONS, ActorKind, Scope

_SIGN_IN_AGAIN = "凭证已失效，请重新登录 / This credential is no longer good; sign in again."


def customer_scope(customer_public_id: Any, store_public_id: Any) -> Scope:
    """Return the scope of a customer at a store, as the database has it now.

    Raises Unauthenticated when customer, store or tenant is gone, inactive, closed or of different tenants.
    """
    return _customer_scope(public_id=customer_public_id, tenant__stores__public_id=store_public_id)


def customer_scope_by_id(customer_id: int, store_id: int) -> Scope:
    """As customer_scope, by the ids of our own rows."""
    return _customer_scope(pk=customer_id, tenant__stores__pk=store_id)


def _customer_scope(**which: Any) -> Scope:
    """Return the scope in one query: it is asked again after every slow step."""
    good = Customer.objects.filter(is_active=True, tenant__is_active=True, tenant__stores__is_open=True, **which)
    found = good.values_list("pk", "public_id", "tenant_id", "tenant__stores__pk", "tenant__stores__public_id").first()
    if found is None:
        raise Unauthenticated(_SIGN_IN_AGAIN)
    customer_id, public_id, tenant_id, store_id, store_public_id = found
    return Scope(
        tenant_id=tenant_id,
        actor_kind=ActorKind.CUSTOMER,
        actor_id=customer_id,
        actor_public_id=public_id,
        role="customer",
        permissions=PERMISSIONS["customer"],
        store_id=store_id,
        store_public_id=store_public_id,
    )


def staff_scope(user: AbstractBaseUser | AnonymousUser) -> Scope:
    """Return the scope of a signed-in user: a member of one tenant, or platform staff without one.

    Raises Unauthenticated for a user who is neither.
    """
    if not user.is_active or user.pk is None:
        raise Unauthenticated(_SIGN_IN_AGAIN)
    member = Member.objects.filter(user_id=user.pk, is_active=True, tenant__is_active=True).first()
    if member is not None:
        return member_scope(member)
    if getattr(user, "is_superuser", False) and not Member.objects.filter(user_id=user.pk).exists():
        return Scope(
            tenant_id=None,
            actor_kind=ActorKind.PLATFORM,
            actor_id=user.pk,
            actor_public_id=None,
            role="platform",
            permissions=PERMISSIONS["platform"],
            user_id=user.pk,
        )
    raise Unauthenticated(_SIGN_IN_AGAIN)


def member_scope(member: Member) -> Scope:
    """Return a member's scope, limited to the stores the member was given."""
    limited_to = frozenset(member.stores.values_list("pk", flat=True))
    return Scope(
        tenant_id=member.tenant_id,
        actor_kind=ActorKind.MEMBER,
        actor_id=member.pk,
        actor_public_id=member.public_id,
        role=member.role,
        permissions=PERMISSIONS[member.role],
        store_ids=limited_to or None,
        user_id=member.user_id,
    )


def store_key_scope(secret: str) -> Scope:
    """Return the scope of a store key. Raises Unauthenticated for an unknown or revoked one."""
    key = StoreKey.objects.filter(
        secret_hash=StoreKey.hash_secret(secret), revoked_at=None, store__is_open=True, tenant__is_active=True
    ).first()
    if key is None:
        raise Unauthenticated("店铺密钥无效 / This store key is not valid.")
    return Scope(
        tenant_id=key.tenant_id,
        actor_kind=ActorKind.STORE_KEY,
        actor_id=key.pk,
        actor_public_id=key.public_id,
        role="store_key",
        permissions=PERMISSIONS["store_key"],
        store_id=key.store_id,
    )


def reread(scope: Scope) -> Scope:
    """Return the scope of a customer or member as the database has it now; call it again after slow work.

    Raises Unauthenticated when the person, the membership, the store or the tenant is no longer good, and for any
    other caller: nobody else has slow work done.
    """
    if scope.is_customer:
        return customer_scope_by_id(scope.actor_id, scope.store_id or 0)
    if scope.actor_kind != ActorKind.MEMBER:
        raise Unauthenticated(_SIGN_IN_AGAIN)
    good: dict[str, Any] = {"is_active": True, "user__is_active": True, "tenant__is_active": True}
    if scope.store_id is not None:
        good |= {"tenant__stores__pk": scope.store_id, "tenant__stores__is_open": True}
    member = Member.objects.filter(pk=scope.actor_id, **good).first()
    if member is None:
        raise Unauthenticated(_SIGN_IN_AGAIN)
    fresh = member_scope(member)
    if scope.store_id is None:
        return fresh
    if fresh.store_ids is not None and scope.store_id not in fresh.store_ids:
        raise Unauthenticated(_SIGN_IN_AGAIN)
    return fresh.at_store(scope.store_id)
