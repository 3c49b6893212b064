"""What may be asked of the house: a customer's token, store keys, a new member."""

from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction

from zhifu import customer_tokens, customers
from zhifu.audit import recorded
from zhifu.errors import Conflict, Forbidden, Invalid, NotFound
from zhifu.models import Customer, Member, Store, StoreKey, Tenant
from zhifu.scope import Scope
from zhifu.transactions import database_now


def mint_customer_token(*, scope: Scope, store: Store, external_ref: str, display_name: str) -> tuple[Customer, str]:
    """Return the customer, made on first sight, and a fresh token for `store`.

    Raises Forbidden for a customer the merchant has switched off, NotFound for a store not of this key.
    """
    with recorded(scope, "customer_token.mint", "customer") as entry:
        scope.require("customer:token")
        if store.pk != scope.store_id:
            raise NotFound
        if external_ref != external_ref.strip():
            raise Invalid("external_ref 前后不能有空格 / external_ref must have no blanks around it.")
        customer = customers.ensure(tenant_id=store.tenant_id, external_ref=external_ref, display_name=display_name)
        entry.object_id = str(customer.public_id)
        if not customer.is_active:
            raise Forbidden("该客户已停用 / This customer has been switched off.")
    return customer, customer_tokens.mint(customer.public_id, store.public_id)


def create_store_key(*, scope: Scope, store: Store, name: str) -> tuple[StoreKey, str]:
    """Return a new key of `store` and its secret, which is shown once and not kept."""
    secret = StoreKey.new_secret()
    with recorded(scope, "store_key.create", "store_key") as entry:
        scope.require("tenant:manage")
        if not Store.objects.in_scope(scope).filter(pk=store.pk).exists():
            raise NotFound
        key = StoreKey.objects.create(
            tenant_id=store.tenant_id, store=store, name=name, secret_hash=StoreKey.hash_secret(secret)
        )
        entry.object_id = str(key.public_id)
    return key, secret


def revoke_store_key(*, scope: Scope, key_id: int) -> None:
    """Switch a key off for good; tokens it minted run out by themselves.

    Raises NotFound for a key out of scope, Conflict for one that is off already.
    """
    with recorded(scope, "store_key.revoke", "store_key") as entry:
        scope.require("tenant:manage")
        key = StoreKey.objects.in_scope(scope).filter(pk=key_id).first()
        if key is None:
            raise NotFound
        entry.object_id = str(key.public_id)
        if not StoreKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=database_now()):
            raise Conflict("这个密钥已经停用 / This key has been revoked already.")


def add_member(*, scope: Scope, tenant: Tenant, username: str, password: str, role: str) -> Member:
    """Return a member of `tenant` with an account of its own; existing accounts never become members.

    Raises NotFound for a tenant out of scope, Conflict for a username that is taken.
    """
    with recorded(scope, "member.add", "member") as entry:
        scope.require("platform:manage" if scope.tenant_id is None else "tenant:manage")
        if not Tenant.objects.in_scope(scope).filter(pk=tenant.pk).exists():
            raise NotFound
        try:
            with transaction.atomic():
                user = get_user_model().objects.create_user(username, password=password, is_staff=True)
                member = Member.objects.create(tenant=tenant, user=user, role=role)
        except IntegrityError as error:
            raise Conflict("这个用户名已被使用 / This username is taken.", field="username") from error
        entry.object_id = str(member.public_id)
    return member
