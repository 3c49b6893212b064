"""Who is who: each kind's token opens its own doors only, and the database decides at each request."""

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.factories import Shop, make_member, make_store, staff_client
from zhifu.models import Role


def test_a_staff_token_is_refused_where_customers_talk(shop: Shop) -> None:
    assert shop.staff.get("/openapi/v1/conversations").status_code == 401


def test_a_customer_token_is_refused_where_merchants_publish(shop: Shop) -> None:
    assert shop.shopper.get(shop.knowledge_url).status_code == 401


def test_a_token_of_the_wrong_kind_is_told_which_one_is_taken(shop: Shop) -> None:
    refused = shop.staff.get("/openapi/v1/conversations").json()
    assert refused["code"] == "UNAUTHENTICATED"
    assert "a customer token" in refused["detail"]
    assert "a staff token" in shop.shopper.get(shop.knowledge_url).json()["detail"]


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "eyJhbGciOiJub25lIn0.eyJ0b2tlbl90eXBlIjoiY3VzdG9tZXIifQ."])
def test_a_broken_token_is_401(shop: Shop, token: str) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    response = client.get(shop.knowledge_url)
    assert response.status_code == 401
    assert response.json()["code"] == "UNAUTHENTICATED"


def test_a_token_that_is_no_longer_good_says_what_to_do_and_shows_no_internals(shop: Shop) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION="Bearer a.b.c")
    refused = [
        client.get(shop.knowledge_url),
        APIClient().post("/openapi/v1/auth/token/refresh", {"refresh": "used up"}),
    ]
    for response in refused:
        assert (response.status_code, response.json()["code"]) == (401, "UNAUTHENTICATED")
        assert "sign in again" in response.json()["detail"]
        assert "ErrorDetail" not in response.json()["detail"]


@pytest.mark.parametrize("change", ["tenant", "store", "customer"])
def test_a_customer_loses_access_at_the_next_request(shop: Shop, change: str) -> None:
    client = shop.shopper
    assert client.get("/openapi/v1/conversations").status_code == 200
    row = getattr(shop, change)
    field = {"tenant": "is_active", "store": "is_open", "customer": "is_active"}[change]
    setattr(row, field, False)
    row.save()
    assert client.get("/openapi/v1/conversations").status_code == 401


def test_a_removed_member_loses_access_at_the_next_request(shop: Shop) -> None:
    client = shop.staff
    assert client.get(shop.knowledge_url).status_code == 200
    shop.member.is_active = False
    shop.member.save()
    assert client.get(shop.knowledge_url).status_code == 401


def test_a_member_limited_to_a_store_sees_no_other(shop: Shop) -> None:
    second = make_store(shop.tenant)
    client = staff_client(make_member(shop.tenant, Role.OPERATOR, stores=(second,)))
    assert client.get(f"/openapi/v1/stores/{second.public_id}/knowledge").status_code == 200
    assert client.get(shop.knowledge_url).status_code == 404


def test_staff_sign_in_over_http(shop: Shop) -> None:
    body = {"username": shop.member.user.get_username(), "password": "a long test password"}
    tokens = APIClient().post("/openapi/v1/auth/token", body).json()
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {tokens['access']}")
    assert client.get(shop.knowledge_url).status_code == 200
    refreshed = APIClient().post("/openapi/v1/auth/token/refresh", {"refresh": tokens["refresh"]})
    assert refreshed.status_code == 200
    again = APIClient().post("/openapi/v1/auth/token/refresh", {"refresh": tokens["refresh"]})
    assert again.status_code == 401, "a refresh token is good once"


def test_the_admin_session_works_in_the_api_and_needs_csrf(shop: Shop) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(shop.member.user)
    assert client.get(shop.knowledge_url).status_code == 200
    response = client.post(shop.knowledge_url, data="{}", content_type="application/json")
    assert response.status_code == 403
