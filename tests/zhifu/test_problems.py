"""Every failure leaves as problem+json with a stable code, and never with a stack trace."""

import json
from base64 import b64encode

import pytest
from django.db import OperationalError
from django.test import Client
from rest_framework.exceptions import ErrorDetail, NotAuthenticated, Throttled, ValidationError

from tests.factories import Shop
from zhifu import errors, problems


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (errors.Invalid("x"), 400, "INVALID"),
        (errors.Invalid("x", code="TOO_MANY_CHUNKS"), 400, "TOO_MANY_CHUNKS"),
        (errors.Unauthenticated("x"), 401, "UNAUTHENTICATED"),
        (errors.Forbidden("x"), 403, "FORBIDDEN"),
        (errors.NotFound(), 404, "NOT_FOUND"),
        (errors.Conflict("x", code="VERSION_CONFLICT", current_version=3), 409, "VERSION_CONFLICT"),
        (errors.Unavailable("x"), 503, "SEARCH_UNAVAILABLE"),
        (errors.DimensionMismatch("x"), 500, "EMBEDDING_DIMENSION_MISMATCH"),
        (NotAuthenticated(), 401, "UNAUTHENTICATED"),
        (ValidationError({"limit": [ErrorDetail("too big")]}), 400, "INVALID"),
        (Throttled(wait=3), 429, "QUOTA_EXCEEDED"),
    ],
)
def test_each_failure_has_its_status_and_code(failure: Exception, status: int, code: str) -> None:
    response = problems.handle(failure, {})
    assert response is not None
    assert (response.status_code, response.data["code"], response.data["status"]) == (status, code, status)
    assert response.data["detail"]
    if status in (429, 503):
        assert int(response["Retry-After"]) > 0
    if status == 401:
        assert response["WWW-Authenticate"] == "Bearer"


def test_a_conflict_carries_what_the_caller_needs_to_go_on() -> None:
    response = problems.handle(errors.Conflict("x", code="VERSION_CONFLICT", current_version=3), {})
    assert response.data["current_version"] == 3


def test_a_database_that_is_away_is_a_503_that_says_to_come_back() -> None:
    response = problems.handle(OperationalError(2006, "Server has gone away at 10.0.0.7"), {})
    assert response is not None
    assert (response.status_code, response.data["code"]) == (503, "DATABASE_UNAVAILABLE")
    assert int(response["Retry-After"]) > 0
    assert "10.0.0.7" not in str(response.data)


def test_an_unexpected_error_is_left_to_the_500_page_which_says_nothing() -> None:
    assert problems.handle(RuntimeError("secret detail"), {}) is None
    response = problems.server_error(None)
    assert response.status_code == 500
    assert b"secret" not in response.content


def test_an_unknown_address_answers_like_an_unknown_id(shop: Shop) -> None:
    unknown_address = Client().get("/openapi/v1/nothing")
    unknown_id = shop.staff.get("/openapi/v1/stores/00000000-0000-4000-8000-000000000000/knowledge")
    assert unknown_address.status_code == unknown_id.status_code == 404
    assert unknown_address.content == unknown_id.content
    assert unknown_address["Content-Type"] == unknown_id["Content-Type"] == "application/problem+json"


def test_an_unknown_page_of_the_admin_is_a_page_for_people(shop: Shop) -> None:
    client = Client()
    client.force_login(shop.member.user)
    response = client.get("/admin/knowledge/nothing/")
    assert response.status_code == 404
    assert "返回管理后台" in response.content.decode()


@pytest.mark.parametrize("address", ["/openapi/v1/docs", "/openapi/v1/schema"])
@pytest.mark.parametrize("method", ["options", "post", "delete", "trace"])
def test_the_public_pages_answer_no_method_with_a_500(address: str, method: str) -> None:
    assert getattr(Client(), method)(address).status_code < 500


def test_broken_json_is_a_400(shop: Shop) -> None:
    response = shop.staff.post(shop.knowledge_url, data="{", content_type="application/json")
    assert response.status_code == 400
    assert response.json()["code"] == "INVALID"


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"title":' * 3000 + "1" + "}" * 3000,
        json.dumps({"\ud800": 1}),
        json.dumps({"title": "a", "source_text": "a", "collection": "\ud800"}),
        json.dumps({"title": "a", "source_text": "a", "collection": "faq", "tags": {"\ud800": 1}}),
    ],
)
def test_a_body_no_parser_or_encoder_stands_is_the_callers_mistake(shop: Shop, body: str) -> None:
    response = shop.staff.generic("POST", shop.knowledge_url, body, content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (400, "INVALID")


@pytest.mark.parametrize("position", ["abc", "", "1e99", "-1", "２", "2026-01-01", "\x00", "9" * 4000])
def test_a_cursor_that_is_not_ours_leads_nowhere(shop: Shop, position: str) -> None:
    cursor = b64encode(f"p={position}".encode()).decode()
    for client, address in ((shop.staff, shop.knowledge_url), (shop.shopper, "/openapi/v1/conversations")):
        response = client.get(address, {"cursor": cursor})
        assert response.status_code in (200, 404)
        assert response.status_code == 404 or position == ""


def test_a_body_that_is_too_large_is_told_the_limit(shop: Shop) -> None:
    response = shop.shopper.post("/openapi/v1/conversations", {"text": "键" * 6_000_000})
    assert (response.status_code, response.json()["code"]) == (413, "TOO_LARGE")
    assert "5 MB" in response.json()["detail"]
