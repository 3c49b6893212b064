"""Rows that tests start from. A fresh tenant per test is the isolation; nothing is shared."""

import itertools
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from rest_framework.test import APIClient
from rest_framework_simplejwt.tokens import RefreshToken

from zhifu import credentials, customer_tokens, customers
from zhifu.models import Customer, Member, Role, Store, StoreKey, Tenant
from zhifu.scope import Scope

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Shop:
    """A tenant with one store, one admin member and one customer."""

    tenant: Tenant
    store: Store
    member: Member
    customer: Customer

    @property
    def staff_scope(self) -> Scope:
        return credentials.member_scope(self.member).at_store(self.store.pk)

    @property
    def customer_scope(self) -> Scope:
        return credentials.customer_scope(self.customer.public_id, self.store.public_id)

    @property
    def staff(self) -> APIClient:
        return staff_client(self.member)

    @property
    def shopper(self) -> APIClient:
        return customer_client(self.customer, self.store)

    @property
    def knowledge_url(self) -> str:
        return f"/openapi/v1/stores/{self.store.public_id}/knowledge"


def make_shop(**store: object) -> Shop:
    tenant = make_tenant()
    return Shop(tenant, make_store(tenant, **store), make_member(tenant), make_customer(tenant))


def make_tenant() -> Tenant:
    return Tenant.objects.create(name=f"tenant {next(_numbers)}")


def make_store(tenant: Tenant, **values: object) -> Store:
    return Store.objects.create(tenant=tenant, **({"name": f"store {next(_numbers)}"} | values))


def make_member(tenant: Tenant, role: str = Role.ADMIN, stores: tuple[Store, ...] = ()) -> Member:
    user = get_user_model().objects.create_user(f"user{next(_numbers)}", password="a long test password", is_staff=True)
    member = Member.objects.create(tenant=tenant, user=user, role=role)
    member.stores.set(stores)
    return member


def make_customer(tenant: Tenant, external_ref: str = "") -> Customer:
    return customers.ensure(tenant_id=tenant.pk, external_ref=external_ref or f"customer {next(_numbers)}")


def make_store_key(store: Store) -> str:
    """Return the secret of a new key."""
    secret = StoreKey.new_secret()
    StoreKey.objects.create(
        tenant=store.tenant, store=store, name=f"key {next(_numbers)}", secret_hash=StoreKey.hash_secret(secret)
    )
    return secret


def staff_client(member: Member) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {RefreshToken.for_user(member.user).access_token}")
    return client


def customer_client(customer: Customer, store: Store) -> APIClient:
    client = APIClient()
    token = customer_tokens.mint(customer.public_id, store.public_id)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client
