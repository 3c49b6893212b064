"""Stores, members, keys and customers through their screens."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from tests.admin.estate import Estate, list_of, page, sign_in
from tests.factories import Shop, make_member, make_store
from zhifu import credentials
from zhifu.errors import Unauthenticated
from zhifu.models import AuditEvent, Customer, Member, Role, Store, StoreKey, Tenant

PASSWORD = "correct-horse-battery"


@pytest.fixture
def client(shop: Shop) -> Client:
    return sign_in(shop.member)


def new_member(**values: Any) -> dict[str, Any]:
    return {"username": "newcomer", "password": PASSWORD, "role": "operator", "is_active": "on"} | values


def test_a_store_belongs_to_the_tenant_of_who_made_it(shop: Shop, other_shop: Shop, client: Client) -> None:
    body = {"name": "二号店", "is_open": "on", "tenant": other_shop.tenant.pk}
    assert client.post(list_of(Store) + "add/", body).status_code == 302
    assert Store.objects.get(name="二号店").tenant == shop.tenant
    assert AuditEvent.objects.get(action="store.add").actor_id == shop.member.pk


def test_a_name_taken_in_the_tenant_is_said_on_the_form(shop: Shop, other_shop: Shop, client: Client) -> None:
    """Another tenant's names are free, and nothing tells that they are used."""
    assert client.post(list_of(Store) + "add/", {"name": shop.store.name}).status_code == 200
    assert client.post(list_of(Store) + "add/", {"name": other_shop.store.name}).status_code == 302
    assert shop.tenant.stores.count() == 2
    assert client.post(list_of(Store) + "add/", {"name": " blank"}).status_code == 302
    assert set(shop.tenant.stores.values_list("name", flat=True)) == {shop.store.name, other_shop.store.name, "blank"}


def test_closing_a_store_is_recorded(shop: Shop, client: Client) -> None:
    client.post(page(shop.store), {"name": shop.store.name})
    shop.store.refresh_from_db()
    assert not shop.store.is_open
    assert AuditEvent.objects.get(action="store.change").object_id == str(shop.store.pk)


def test_a_tenants_admin_adds_a_member_who_can_sign_in(shop: Shop, client: Client) -> None:
    body = new_member(stores=[shop.store.pk], is_superuser="on", tenant=999)
    assert client.post(list_of(Member) + "add/", body).status_code == 302
    member = Member.objects.get(user__username="newcomer")
    assert (member.tenant, member.role, list(member.stores.all())) == (shop.tenant, "operator", [shop.store])
    assert not member.user.is_superuser
    signed_in = Client().post("/admin/login/?next=/admin/", {"username": "newcomer", "password": PASSWORD})
    assert signed_in.status_code == 302


@pytest.mark.parametrize(
    "wrong",
    [
        {"password": "123"},
        {"username": "no spaces allowed!"},
        {"username": ""},
        {"role": "platform"},
        {"role": ""},
    ],
)
def test_an_account_that_cannot_be_is_refused_on_the_form(client: Client, wrong: dict[str, Any]) -> None:
    before = get_user_model().objects.count()
    assert client.post(list_of(Member) + "add/", new_member(**wrong)).status_code == 200
    assert get_user_model().objects.count() == before


def test_an_existing_account_never_becomes_a_member(shop: Shop, client: Client, admin_user: Any) -> None:
    response = client.post(list_of(Member) + "add/", new_member(username=admin_user.username))
    assert response.status_code == 200
    assert not Member.objects.filter(user=admin_user).exists()


def test_another_tenants_store_is_no_choice_for_a_member(shop: Shop, other_shop: Shop, client: Client) -> None:
    response = client.post(list_of(Member) + "add/", new_member(stores=[other_shop.store.pk]))
    assert response.status_code == 200
    assert other_shop.store.name not in response.content.decode()
    assert not Member.objects.filter(user__username="newcomer").exists()


def test_a_member_is_switched_off_at_once_and_never_moves(shop: Shop, other_shop: Shop, client: Client) -> None:
    member = make_member(shop.tenant, Role.OPERATOR)
    body = {"role": "advisor", "tenant": other_shop.tenant.pk, "user": shop.member.user.pk}
    assert client.post(page(member), body).status_code == 302
    member.refresh_from_db()
    assert (member.tenant, member.role, member.is_active) == (shop.tenant, "advisor", False)
    with pytest.raises(Unauthenticated):
        credentials.staff_scope(member.user)


def test_nobody_changes_their_own_place(shop: Shop, client: Client) -> None:
    assert client.get(page(shop.member)).status_code == 200
    assert client.post(page(shop.member), {"role": "advisor"}).status_code == 403


def test_who_manages_one_store_gives_no_wider_reach(shop: Shop) -> None:
    second = make_store(shop.tenant)
    limited = sign_in(make_member(shop.tenant, Role.ADMIN, stores=(shop.store,)))
    for stores in ([], [second.pk], [shop.store.pk, second.pk]):
        assert limited.post(list_of(Member) + "add/", new_member(stores=stores)).status_code == 200
    everywhere, elsewhere = make_member(shop.tenant), make_member(shop.tenant, stores=(second,))
    for member in (everywhere, elsewhere):
        assert limited.post(page(member), {"role": "advisor", "stores": [shop.store.pk]}).status_code == 403
    assert limited.post(list_of(Store) + "add/", {"name": "x"}).status_code == 403
    assert limited.post(list_of(Member) + "add/", new_member(stores=[shop.store.pk])).status_code == 302


def test_platform_staff_add_a_tenant_with_its_first_admin(admin_client: Client, other_shop: Shop) -> None:
    admin_client.post(list_of(Tenant) + "add/", {"name": "新商家", "is_active": "on"})
    tenant = Tenant.objects.get(name="新商家")
    strange = new_member(tenant=tenant.pk, role="admin", stores=[other_shop.store.pk])
    assert admin_client.post(list_of(Member) + "add/", strange).status_code == 200
    body = new_member(tenant=tenant.pk, role="admin")
    assert admin_client.post(list_of(Member) + "add/", body).status_code == 302
    assert Member.objects.get(user__username="newcomer").tenant == tenant
    assert admin_client.post(list_of(Store) + "add/", {"tenant": tenant.pk, "name": "总店"}).status_code == 302
    assert tenant.stores.get().name == "总店"
    assert admin_client.post(list_of(Store) + "add/", {"name": "无主"}).status_code == 200


def test_a_keys_secret_is_shown_once_and_kept_as_a_hash(shop: Shop, client: Client) -> None:
    body = {"store": shop.store.pk, "name": "收银台"}
    made = client.post(list_of(StoreKey) + "add/", body, follow=True).content.decode()
    secret = made.split("keep it now: ")[1].split("<")[0].split()[0]
    key = StoreKey.objects.get(name="收银台")
    assert key.secret_hash == StoreKey.hash_secret(secret)
    assert credentials.store_key_scope(secret).store_id == shop.store.pk
    for path in (list_of(StoreKey), page(key)):
        shown = client.get(path).content.decode()
        assert secret not in shown
        assert key.secret_hash not in shown


def test_a_revoked_key_opens_nothing(ours: Estate) -> None:
    client, key = sign_in(ours.shop.member), ours[StoreKey]
    assert client.get(page(key, "revoke")).status_code == 200
    assert credentials.store_key_scope(ours.word).store_id == ours.shop.store.pk
    assert "密钥已停用" in client.post(page(key, "revoke"), follow=True).content.decode()
    with pytest.raises(Unauthenticated):
        credentials.store_key_scope(ours.word)
    again = client.post(page(key, "revoke"), follow=True).content.decode()
    assert "这个密钥已经停用" in again


def test_another_tenants_store_gets_no_key(shop: Shop, other_shop: Shop, client: Client) -> None:
    response = client.post(list_of(StoreKey) + "add/", {"store": other_shop.store.pk, "name": "x"})
    assert response.status_code == 200
    assert not StoreKey.objects.exists()


def test_a_customer_is_renamed_and_switched_off_but_keeps_its_number(shop: Shop, client: Client) -> None:
    client.post(page(shop.customer), {"external_ref": "other", "display_name": "王女士"})
    fresh = Customer.objects.get(pk=shop.customer.pk)
    assert (fresh.external_ref, fresh.display_name, fresh.is_active) == (shop.customer.external_ref, "王女士", False)
