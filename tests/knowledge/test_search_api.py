"""The search endpoint over HTTP."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.core.cache import cache
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from knowledge.models import IndexTarget
from tests import servers
from tests.factories import Shop, make_store, make_store_key
from tests.knowledge.publishing import publish
from tests.query_counts import pinned
from zhifu.models import AuditEvent

QUESTION = "键盘怎么清洁？"
TEXT = "键盘清洁：先断开电源，怎么清洁都要用软毛刷。"


def ask(client: APIClient, shop: Shop, body: Any, store: object = None) -> Any:
    address = f"/openapi/v1/stores/{store or shop.store.public_id}/knowledge/search"
    return client.post(address, json.dumps(body), content_type="application/json")


@pytest.mark.parametrize("who", ["shopper", "staff"])
def test_customers_and_members_find_what_is_published(shop: Shop, who: str) -> None:
    document = publish(shop, "键盘清洁", TEXT, tags=("外设",))
    client = getattr(shop, who)
    response = ask(client, shop, {"query": QUESTION})
    assert response.status_code == 200
    body = response.json()
    (result,) = body.pop("results")
    assert body == {
        "query": QUESTION,
        "total_candidates": 1,
        "truncated": False,
        "degraded": False,
        "degradation_reason": None,
        "searched_collections": ["faq", "product", "policy", "general"],
        "rerank": "off",
    }
    token, score, moment = result.pop("reference_token"), result.pop("score"), result.pop("updated_at")
    assert result == {
        "source_id": str(document.public_id),
        "version": 1,
        "position": 0,
        "title": "键盘清洁",
        "snippet": TEXT,
        "score_kind": "cosine",
        "collection": "faq",
        "tags": ["外设"],
    }
    assert 0 < score <= 1
    reference = client.get(f"/api/v1/knowledge-references/{token}").json()
    assert (reference["title"], reference["updated_at"]) == ("键盘清洁", moment)


def test_a_long_passage_is_shown_as_a_snippet_around_what_was_asked(shop: Shop, settings: Settings) -> None:
    settings.KNOWLEDGE = {"similarity_threshold": 0.0}
    publish(
        shop,
        "说明书",
        "键盘怎么清洁的说明在后面。" + "其他内容很多。" * 40 + "键盘怎么清洁：断电后清洁键盘，擦拭键帽。",
    )
    (result, *_more) = ask(shop.shopper, shop, {"query": QUESTION}).json()["results"]
    assert len(result["snippet"]) <= 300
    assert "键盘" in result["snippet"]


def test_limit_and_intents_are_kept(shop: Shop) -> None:
    for number in range(3):
        publish(shop, f"键盘 {number}", f"{TEXT}{number}", collection="policy")
    body = ask(shop.shopper, shop, {"query": QUESTION, "limit": 2, "intents": ["policy_explain"]}).json()
    assert (len(body["results"]), body["truncated"], body["searched_collections"]) == (2, True, ["policy"])


def test_an_unknown_a_foreign_and_a_sisters_store_are_the_same_404(shop: Shop, other_shop: Shop) -> None:
    sister = make_store(shop.tenant)
    publish(other_shop, "键盘清洁", TEXT)
    answers = [
        ask(client, shop, {"query": QUESTION}, store)
        for client in (shop.shopper, shop.staff)
        for store in (uuid4(), other_shop.store.public_id)
    ]
    answers.append(ask(shop.shopper, shop, {"query": QUESTION}, sister.public_id))
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    assert ask(shop.staff, shop, {"query": QUESTION}, sister.public_id).status_code == 200


def test_only_customers_and_members_may_ask(shop: Shop) -> None:
    assert ask(APIClient(), shop, {"query": QUESTION}).status_code == 401
    key = APIClient()
    key.credentials(HTTP_AUTHORIZATION=f"Bearer {make_store_key(shop.store)}")
    assert ask(key, shop, {"query": QUESTION}).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        "键盘",
        {"query": None},
        {"query": 7},
        {"query": ""},
        {"query": " \n\t"},
        {"query": "字" * 2001},
        {"query": "a\0b"},
        {"query": "\ud800"},
        {"query": QUESTION, "limit": 0},
        {"query": QUESTION, "limit": 11},
        {"query": QUESTION, "limit": "many"},
        {"query": QUESTION, "intents": []},
        {"query": QUESTION, "intents": ["faq"] * 5},
        {"query": QUESTION, "intents": ["unknown"]},
        {"query": QUESTION, "intents": "faq"},
        {"query": QUESTION, "collection": "faq"},
        {"query": QUESTION, "filters": {"tag": "x"}},
        {"query": QUESTION, "tenant": 1},
        {"query": QUESTION, "store": "x"},
    ],
)
def test_bad_input_is_a_clear_400(shop: Shop, body: Any) -> None:
    response = ask(shop.shopper, shop, body)
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "INVALID"


def test_the_bounds_themselves_are_accepted(shop: Shop) -> None:
    for body in (
        {"query": "字" * 2000, "limit": 10},
        {"query": "a", "limit": 1, "intents": ["faq", "product_inquiry"]},
    ):
        assert ask(shop.shopper, shop, body).status_code == 200


def test_a_search_is_in_the_audit_trail_without_its_words(shop: Shop) -> None:
    ask(shop.shopper, shop, {"query": QUESTION})
    ask(shop.shopper, shop, {"query": QUESTION, "intents": ["unknown"]})
    refused, answered = AuditEvent.objects.filter(tenant_id=shop.tenant.pk, action="knowledge.search")
    assert (answered.outcome, answered.actor_kind, answered.actor_id) == ("OK", "customer", shop.customer.pk)
    assert (refused.outcome, refused.code) == ("REFUSED", "INVALID")
    assert answered.data["query"] == refused.data["query"]
    assert "键盘" not in json.dumps(answered.data, ensure_ascii=False)


def test_an_outage_of_milvus_is_marked_in_the_answer(shop: Shop, settings: Settings) -> None:
    publish(shop, "键盘清洁", TEXT)
    settings.MILVUS_URL = f"http://127.0.0.1:{servers.free_port()}"
    body = ask(shop.shopper, shop, {"query": QUESTION}).json()
    assert (body["degraded"], body["degradation_reason"]) == (True, "milvus_unavailable")
    assert [(result["title"], result["score"], result["score_kind"]) for result in body["results"]] == [
        ("键盘清洁", None, None)
    ]
    settings.KNOWLEDGE = {"fallback_enabled": False}
    response = ask(shop.shopper, shop, {"query": QUESTION})
    assert (response.status_code, response.json()["code"]) == (503, "SEARCH_UNAVAILABLE")
    assert response["Retry-After"]
    cache.delete_many([f"suspect:{settings.MILVUS_URL}", f"trying:{settings.MILVUS_URL}"])


def test_a_wrong_dimension_is_a_500_with_its_code_and_no_results(shop: Shop) -> None:
    publish(shop, "键盘清洁", TEXT)
    IndexTarget.objects.filter(active="faq").update(dimension=63)
    response = ask(shop.shopper, shop, {"query": QUESTION})
    assert (response.status_code, response.json()["code"]) == (500, "EMBEDDING_DIMENSION_MISMATCH")


def test_a_search_over_http_costs_few_queries(shop: Shop) -> None:
    publish(shop, "键盘清洁", TEXT)
    client = shop.shopper
    ask(client, shop, {"query": QUESTION})
    # Authentication, the store, four of the search, and the audit's clock and row.
    with pinned("POST /openapi/v1/stores/{store}/knowledge/search"):
        ask(client, shop, {"query": QUESTION})
