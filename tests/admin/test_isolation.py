"""Every address of the admin, as a member of one tenant with the ids of another."""

import re

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from knowledge.models import KnowledgeDocument
from tests.admin.estate import (
    OF_A_TENANT,
    ORGANISATION,
    TALK_AND_KNOWLEDGE,
    UNKNOWN,
    Estate,
    addresses,
    draft,
    everything,
    list_of,
    page,
    sign_in,
)
from tests.factories import make_member, make_store
from zhifu.models import Customer, Member, Role, Store, Tenant
from zhifu.tenant_admin import ScopedPermissions


def test_every_screen_asks_the_scope_and_not_djangos_permissions() -> None:
    assert len(admin.site._registry) >= 17
    for screen in admin.site._registry.values():
        assert isinstance(screen, ScopedPermissions), screen


def test_the_walk_knows_every_kind_of_address(ours: Estate) -> None:
    models = {address.model for address in addresses() if address.takes_id}
    assert models == set(admin.site._registry) == set(ours.rows)
    assert {"publish/", "revoke/", "history/", "delete/", "change/", "password/"} <= {
        address.route.split(">", 1)[1].lstrip("/") for address in addresses() if address.takes_id
    }


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_foreign_id_answers_like_an_unknown_one_at_every_address(ours: Estate, theirs: Estate, method: str) -> None:
    client = sign_in(ours.shop.member)
    before = everything()
    for address in [address for address in addresses() if address.takes_id]:
        foreign_id = theirs[address.model].pk
        foreign = getattr(client, method)(address.of(foreign_id), {"post": "yes"}, follow=True)
        unknown = getattr(client, method)(address.of(UNKNOWN), {"post": "yes"}, follow=True)
        for_platform_only = address.model in (Tenant, Group, type(ours.shop.member.user))
        assert foreign.status_code == unknown.status_code == (403 if for_platform_only else 404), address
        assert foreign.content == unknown.content, address
        assert theirs.word.encode() not in foreign.content
    assert everything() == before


def test_the_link_to_any_row_by_content_type_tells_nothing(ours: Estate, theirs: Estate) -> None:
    client = sign_in(ours.shop.member)
    for model, row in theirs.rows.items():
        kind = ContentType.objects.get_for_model(model).pk
        foreign, unknown = (client.get(f"/admin/r/{kind}/{object_id}/") for object_id in (row.pk, UNKNOWN))
        assert foreign.status_code == unknown.status_code == 404
        assert foreign.content == unknown.content


def test_no_list_choice_filter_search_or_autocomplete_shows_another_tenant(ours: Estate, theirs: Estate) -> None:
    client = sign_in(ours.shop.member)
    tenant, store = theirs.shop.tenant.pk, theirs.shop.store.pk
    # Pages repeat what was asked; so it is asked for by its beginning, and its whole looked for.
    beginning = theirs.word[:-2]
    queries = [
        "",
        f"?q={beginning}",
        f"?tenant__id__exact={tenant}",
        f"?store__id__exact={store}",
        f"?store__name__startswith={beginning}",
        f"?tenant__name__startswith={beginning}",
        "?secret_hash__startswith=a",
        "?user__password__startswith=p",
        "?all=1",
        "?o=-1",
    ]
    paths = [address.of("") + query for address in addresses() if not address.takes_id for query in queries]
    assert len(paths) > 100
    paths += [f"/admin/{app}/" for app in {model._meta.app_label for model in admin.site._registry}]
    paths += [
        f"/admin/autocomplete/?app_label={app}&model_name={model}&field_name={field}&term={beginning}"
        for app, model, field in [
            ("knowledge", "knowledgedocument", "store"),
            ("zhifu", "store", "tenant"),
            ("zhifu", "member", "user"),
            ("zhifu", "member", "stores"),
            ("conversations", "conversation", "customer"),
            ("knowledge", "indexjob", "document"),
            ("agents", "agentrun", "conversation"),
        ]
    ]
    for path in paths:
        if "logout" in path:
            continue
        response = client.get(path, follow=True)
        assert response.status_code in (200, 400, 403, 404), path
        assert theirs.word.encode() not in response.content, path


def test_a_hidden_column_cannot_be_asked_about(ours: Estate) -> None:
    client = sign_in(ours.shop.member)
    assert client.get(list_of(Store) + "?is_open__exact=1").status_code == 200
    for query in ("zhifu/storekey/?secret_hash__startswith=a", "zhifu/member/?user__password__startswith=p"):
        assert client.get(f"/admin/{query}").status_code == 400


def test_a_member_sees_its_own_rows_everywhere(ours: Estate) -> None:
    client = sign_in(ours.shop.member)
    for model in [*OF_A_TENANT, Store, Member]:
        own = client.get(page(ours[model]))
        assert own.status_code == 200, model
        assert ours.word in own.content.decode(), model
        history = client.get(page(ours[model], "history"))
        assert history.status_code == 200
        if list_of(model) != "/admin/knowledge/documentversion/":
            assert ours.word in client.get(list_of(model)).content.decode() or model.__name__ == "IndexJob"


def test_opening_any_address_changes_nothing(ours: Estate) -> None:
    client = sign_in(ours.shop.member)
    before = everything()
    for address in addresses():
        if address.route.startswith(("logout", "login")):
            continue
        object_id = ours[address.model].pk if address.model else ""
        assert client.get(address.of(object_id)).status_code in (200, 302, 403, 404, 405), address
        assert client.head(address.of(object_id)).status_code in (200, 302, 403, 404, 405), address
    assert everything() == before


def test_nothing_can_be_deleted(ours: Estate) -> None:
    client = sign_in(ours.shop.member)
    before = everything()
    for model in [*OF_A_TENANT, Store, Member]:
        assert client.post(page(ours[model], "delete"), {"post": "yes"}).status_code == 403
        client.post(list_of(model), {"action": "delete_selected", "_selected_action": [ours[model].pk], "post": "yes"})
    assert everything() == before


def test_without_the_permission_no_address_acts(ours: Estate) -> None:
    """An advisor reads knowledge and talk, and can do nothing by any address."""
    client = sign_in(make_member(ours.shop.tenant, Role.ADVISOR))
    assert client.get(page(ours[KnowledgeDocument])).status_code == 200
    before = everything()
    for action in ("publish", "revoke"):
        for send in (client.get, client.post):
            assert send(page(ours[KnowledgeDocument], action), {"expected_version": 1}).status_code == 403
    for address in [address for address in addresses() if address.model is not None]:
        response = client.post(address.of(ours[address.model].pk), {"post": "yes", "expected_version": 1})
        if address.route.endswith(("add/", "change/", "delete/", "publish/", "revoke/", "password/")):
            assert response.status_code in (403, 404), address
    assert everything() == before


def test_every_action_needs_the_csrf_token(ours: Estate) -> None:
    client = sign_in(ours.shop.member, enforce_csrf_checks=True)
    before = everything()
    for address in addresses():
        if address.model is None or not address.takes_id:
            continue
        response = client.post(address.of(ours[address.model].pk), {"expected_version": 1, "post": "yes"})
        assert response.status_code in (403, 404, 302), address
    assert client.post(list_of(KnowledgeDocument) + "add/", {"title": "x"}).status_code == 403
    assert everything() == before


def test_a_member_of_one_store_sees_that_store_only(ours: Estate) -> None:
    shop = ours.shop
    second = make_store(shop.tenant, name="secondstore")
    hidden = draft(shop, "hiddentitle", "hiddentext", store=second)
    client = sign_in(make_member(shop.tenant, Role.OPERATOR, stores=(shop.store,)))
    shown = client.get(list_of(KnowledgeDocument)).content.decode()
    assert ours.word in shown
    assert "hiddentitle" not in shown
    assert "secondstore" not in shown
    for rest in ("change", "history", "publish", "revoke"):
        assert client.get(page(hidden, rest)).status_code == 404
    assert "secondstore" not in client.get(list_of(KnowledgeDocument) + "add/").content.decode()


def test_platform_staff_see_the_organisation_and_no_tenants_knowledge_or_talk(
    ours: Estate, admin_client: Client
) -> None:
    for model in [*ORGANISATION, type(ours.shop.member.user), Group]:
        assert ours.word in admin_client.get(list_of(model)).content.decode()
        assert admin_client.get(page(ours[model])).status_code == 200
    for model in OF_A_TENANT:
        assert admin_client.get(list_of(model)).status_code == 403
        assert admin_client.get(page(ours[model])).status_code in (403, 404)
    names = re.findall(r"/admin/([a-z]+/[a-z]+)/", admin_client.get("/admin/").content.decode())
    assert not {model._meta.model_name for model in TALK_AND_KNOWLEDGE} & {name.split("/")[1] for name in names}


def test_a_member_cannot_reach_accounts_or_tenants(ours: Estate) -> None:
    """Not even one that is a superuser of Django as well."""
    user = ours.shop.member.user
    user.is_superuser = True
    user.save()
    client = sign_in(ours.shop.member)
    for model in (type(user), Group, Tenant):
        assert client.get(list_of(model)).status_code == 403
        assert client.get(list_of(model) + "add/").status_code == 403
        assert client.get(page(ours[model])).status_code in (403, 404)


def test_tokens_have_no_screen(ours: Estate, admin_client: Client) -> None:
    assert admin_client.get("/admin/token_blacklist/outstandingtoken/").status_code == 404


@pytest.mark.parametrize("gone", ["not_a_member", "left", "tenant_off"])
def test_who_is_no_member_is_told_so_at_sign_in(ours: Estate, gone: str) -> None:
    member = ours.shop.member
    if gone == "not_a_member":
        Member.objects.filter(pk=member.pk).delete()
    elif gone == "left":
        Member.objects.filter(pk=member.pk).update(is_active=False)
    else:
        Tenant.objects.filter(pk=member.tenant_id).update(is_active=False)
    signed_in = sign_in(member)
    assert signed_in.get("/admin/").status_code == 302
    assert signed_in.get(list_of(KnowledgeDocument)).status_code == 302
    assert signed_in.post(page(ours[KnowledgeDocument], "revoke"), {"expected_version": 1}).status_code == 302
    refused = Client().post("/admin/login/", {"username": member.user.username, "password": "a long test password"})
    assert refused.status_code == 200
    assert "不是任何租户的有效成员" in refused.content.decode()


def test_nobody_and_a_customers_token_get_the_sign_in_page(ours: Estate) -> None:
    for client in (Client(), ours.shop.shopper):
        for path in (list_of(Customer), page(ours[KnowledgeDocument]), page(ours[KnowledgeDocument], "publish")):
            response = client.get(path)
            assert response.status_code == 302
            assert "/admin/login/" in response["Location"]
