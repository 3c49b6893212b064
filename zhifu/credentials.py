"""From a credential to a Scope. Ids come from the credential; everything else is read from the database."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from zhifu.errors import Unauthenticated
from zhifu.models import Customer, Member, Store, StoreKey
from zhifu.scope import PERMISSIONS, ActorKind, Scope

_SIGN_IN_AGAIN = "凭证已失效，请重新登录 / This credential is no longer good; sign in again."


def customer_scope(customer_public_id: Any, store_public_id: Any) -> Scope:
    """Return the scope of a customer at a store, as the database has it now.

    Raises Unauthenticated when customer, store or tenant is gone, inactive, closed or of different tenants.
    """
    store = (
        Store.objects.select_related("tenant")
        .filter(public_id=store_public_id, is_open=True, tenant__is_active=True)
        .first()
    )
    customer = Customer.objects.filter(public_id=customer_public_id, is_active=True).first()
    if store is None or customer is None or customer.tenant_id != store.tenant_id:
        raise Unauthenticated(_SIGN_IN_AGAIN)
    return Scope(
        tenant_id=store.tenant_id,
        actor_kind=ActorKind.CUSTOMER,
        actor_id=customer.pk,
        actor_public_id=customer.public_id,
        role="customer",
        permissions=PERMISSIONS["customer"],
        store_id=store.pk,
    )


def staff_scope(user: AbstractBaseUser | AnonymousUser) -> Scope:
    """Return the scope of a signed-in user: a member of one tenant, or platform staff without one.

    Raises Unauthenticated for a user who is neither.
    """
    if not user.is_active or user.pk is None:
        raise Unauthenticated(_SIGN_IN_AGAIN)
    member = (
        Member.objects.select_related("tenant").filter(user_id=user.pk, is_active=True, tenant__is_active=True).first()
    )
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
    key = (
        StoreKey.objects.select_related("store")
        .filter(
            secret_hash=StoreKey.hash_secret(secret),
            revoked_at=None,
            store__is_open=True,
            tenant__is_active=True,
        )
        .first()
    )
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
    """Return the scope as the database has it now; call it again after slow work.

    Raises Unauthenticated when the person, the membership, the store or the tenant is no longer good.
    """
    if scope.is_customer:
        store = Store.objects.filter(pk=scope.store_id or 0).first()
        return customer_scope(scope.actor_public_id, store.public_id if store else None)
    if scope.actor_kind == ActorKind.MEMBER:
        member = (
            Member.objects.filter(pk=scope.actor_id, is_active=True, user__is_active=True, tenant__is_active=True)
            .select_related("tenant")
            .first()
        )
        if member is None:
            raise Unauthenticated(_SIGN_IN_AGAIN)
        fresh = member_scope(member)
        if scope.store_id is None:
            return fresh
        if not Store.objects.in_scope(fresh).filter(pk=scope.store_id, is_open=True).exists():
            raise Unauthenticated(_SIGN_IN_AGAIN)
        return fresh.at_store(scope.store_id)
    return scope
