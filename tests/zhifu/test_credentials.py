"""Reading a scope again after slow work: everything it rests on is looked at, cheaply."""

from dataclasses import replace

import pytest
from pytest_django.fixtures import DjangoAssertNumQueries

from tests.factories import Shop, make_customer, make_member, make_store
from zhifu import credentials
from zhifu.errors import Unauthenticated
from zhifu.models import Role
from zhifu.scope import ActorKind, Scope


def switch_off(shop: Shop, what: str) -> None:
    row = shop.member.user if what == "user" else getattr(shop, what)
    setattr(row, "is_open" if what == "store" else "is_active", False)
    row.save()


def test_a_customer_is_read_again_in_one_query(shop: Shop, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    scope = shop.customer_scope
    with django_assert_num_queries(1):
        assert credentials.reread(scope) == scope


def test_a_member_is_read_again_in_two_queries(shop: Shop, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    scope = shop.staff_scope
    with django_assert_num_queries(2):
        assert credentials.reread(scope) == scope


@pytest.mark.parametrize("what", ["tenant", "store", "customer"])
def test_a_customer_whose_ground_is_gone_is_nobody(shop: Shop, what: str) -> None:
    scope = shop.customer_scope
    switch_off(shop, what)
    with pytest.raises(Unauthenticated):
        credentials.reread(scope)


@pytest.mark.parametrize("what", ["tenant", "store", "member", "user"])
def test_a_member_whose_ground_is_gone_is_nobody(shop: Shop, what: str) -> None:
    scope = shop.staff_scope
    switch_off(shop, what)
    with pytest.raises(Unauthenticated):
        credentials.reread(scope)


def test_a_member_who_was_limited_to_another_store_meanwhile_is_nobody_here(shop: Shop) -> None:
    member = make_member(shop.tenant, Role.OPERATOR, stores=(shop.store,))
    scope = credentials.member_scope(member).at_store(shop.store.pk)
    assert credentials.reread(scope) == scope
    member.stores.set([make_store(shop.tenant)])
    with pytest.raises(Unauthenticated):
        credentials.reread(scope)


def test_customer_and_store_of_different_tenants_are_nobody(shop: Shop, other_shop: Shop) -> None:
    with pytest.raises(Unauthenticated):
        credentials.customer_scope(shop.customer.public_id, other_shop.store.public_id)
    with pytest.raises(Unauthenticated):
        credentials.customer_scope_by_id(shop.customer.pk, other_shop.store.pk)


def test_a_tenant_with_several_stores_and_customers_gives_the_ones_asked_for(shop: Shop) -> None:
    store, customer = make_store(shop.tenant), make_customer(shop.tenant)
    scope = credentials.customer_scope(customer.public_id, store.public_id)
    assert (scope.tenant_id, scope.store_id, scope.actor_id) == (shop.tenant.pk, store.pk, customer.pk)


@pytest.mark.parametrize("kind", [ActorKind.PLATFORM, ActorKind.STORE_KEY])
def test_nobody_else_is_waved_through(shop: Shop, kind: ActorKind) -> None:
    scope: Scope = replace(shop.staff_scope, actor_kind=kind)
    with pytest.raises(Unauthenticated):
        credentials.reread(scope)
