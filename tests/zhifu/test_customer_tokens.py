"""Minting and using a customer's token over HTTP."""

import json

import jwt
import pytest
from django.conf import settings
from rest_framework.test import APIClient

from tests.factories import Shop, make_store_key
from zhifu.models import AuditEvent, Customer


def _post(shop: Shop, secret: str, body: dict, store: object = None) -> object:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    address = f"/openapi/v1/stores/{store or shop.store.public_id}/customer-tokens"
    return client.post(address, json.dumps(body), content_type="application/json")


def test_a_store_key_mints_a_token_and_makes_the_customer(shop: Shop) -> None:
    response = _post(shop, make_store_key(shop.store), {"external_ref": "u-1", "display_name": "小王"})
    assert response.status_code == 201
    claims = jwt.decode(
        response.json()["access"], settings.CUSTOMER_TOKEN_KEY, algorithms=["HS256"], audience="zhifu-customer"
    )
    customer = Customer.objects.get(tenant=shop.tenant, external_ref="u-1")
    assert claims["sub"] == str(customer.public_id) == response.json()["customer_id"]
    assert claims["token_type"] == "customer"


def test_a_key_of_another_store_gets_the_answer_of_an_unknown_store(shop: Shop, other_shop: Shop) -> None:
    secret = make_store_key(other_shop.store)
    foreign = _post(shop, secret, {"external_ref": "u-1"})
    unknown = _post(shop, secret, {"external_ref": "u-1"}, store="00000000-0000-4000-8000-000000000000")
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert not Customer.objects.filter(external_ref="u-1").exists()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"external_ref": ""},
        {"external_ref": " u"},
        {"external_ref": "a\x00b"},
        {"external_ref": "\ud800"},
        {"external_ref": 7},
        {"external_ref": "u", "tenant": 1},
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(shop: Shop, body: dict) -> None:
    before = Customer.objects.count()
    response = _post(shop, make_store_key(shop.store), body)
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "INVALID"
    assert Customer.objects.count() == before


def test_a_store_key_is_good_for_nothing_else(shop: Shop) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_store_key(shop.store)}")
    assert client.get(shop.knowledge_url).status_code in (401, 404)


def test_a_closed_store_and_a_revoked_key_mint_nothing(shop: Shop) -> None:
    secret = make_store_key(shop.store)
    shop.store.is_open = False
    shop.store.save()
    assert _post(shop, secret, {"external_ref": "u"}).status_code == 401


def test_a_minted_token_and_a_refused_one_are_in_the_audit_trail(shop: Shop) -> None:
    secret, body = make_store_key(shop.store), {"external_ref": shop.customer.external_ref}
    _post(shop, secret, body)
    shop.customer.is_active = False
    shop.customer.save()
    _post(shop, secret, body)
    refused, minted = AuditEvent.objects.filter(tenant_id=shop.tenant.pk, action="customer_token.mint")
    assert (minted.outcome, minted.actor_kind) == ("OK", "store_key")
    assert (refused.outcome, refused.code) == ("REFUSED", "FORBIDDEN")
    assert minted.object_id == refused.object_id == str(shop.customer.public_id)
