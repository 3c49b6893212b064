"""Filters over HTTP: how they combine, what is refused, and that no value ever widens a result."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from knowledge.content import MAX_TAG
from knowledge.models import DocumentVersion
from tests import servers
from tests.factories import Shop
from tests.knowledge.publishing import publish
from tests.knowledge.test_search_api import ask
from tests.query_counts import pinned
from zhifu.models import AuditEvent
from zhifu.transactions import database_now

QUESTION = "键盘"


@pytest.fixture(autouse=True)
def everything_counts(settings: Settings) -> None:
    settings.KNOWLEDGE = {"similarity_threshold": 0.0}


@pytest.fixture(params=[False, True], ids=["milvus up", "milvus down"])
def degraded(request: pytest.FixtureRequest) -> bool:
    """The same is asked over the index and over the database."""
    return bool(request.param)


def take_milvus_away(settings: Settings) -> None:
    settings.MILVUS_URL = f"http://127.0.0.1:{servers.free_port()}"


def found(shop: Shop, filters: Any, who: str = "staff", **values: Any) -> list[str]:
    response = ask(getattr(shop, who), shop, {"query": QUESTION, "limit": 10, "filters": filters} | values)
    assert response.status_code == 200, response.json()
    return sorted(result["title"] for result in response.json()["results"])


@pytest.fixture
def shelf(shop: Shop, other_shop: Shop, degraded: bool, settings: Settings) -> Shop:
    """Four documents of a shop that differ in everything; another shop has the same."""
    for owner in (other_shop, shop):
        publish(owner, "a", "键盘说明一。", tags=("新品", "外设"), entity_ref="A-1")
        publish(owner, "b", "键盘价目二。", tags=("外设",), entity_ref="A-2", source_type="web", collection="policy")
        publish(owner, "c", "键盘保修三。", tags=("保修",), source_type="file", collection="general")
        publish(owner, "d", "键盘进价四。", tags=("新品",), audience="STAFF", collection="product")
    if degraded:
        take_milvus_away(settings)
    return shop


# --- How they combine ---
def test_fields_narrow_together_and_values_of_one_field_are_alternatives(shelf: Shop, degraded: bool) -> None:
    for filters, titles in (
        ({}, "abcd"),
        ({"tags": "外设"}, "ab"),
        ({"tags": ["外设", "保修"]}, "abc"),
        ({"tags": ["外设", "外设"]}, "ab"),
        ({"all_tags": ["外设", "新品"]}, "a"),
        ({"tags": ["外设", "保修"], "all_tags": ["外设"]}, "ab"),
        ({"all_tags": ["外设", "保修"]}, ""),
        ({"entity_ref": "A-1"}, "a"),
        ({"entity_ref": ["A-1", "A-2", "A-3"]}, "ab"),
        ({"entity_ref": "a-1"}, ""),
        ({"entity_ref": "Ａ-1"}, ""),
        ({"tags": "外"}, ""),
        ({"source_type": "web"}, "b"),
        ({"source_type": ["web", "manual"]}, "abd"),
        ({"collection": ["policy", "product"]}, "bd"),
        ({"audience": "STAFF"}, "d"),
        ({"audience": ["STAFF", "CUSTOMER"]}, "abcd"),
        ({"audience": "CUSTOMER", "tags": "新品"}, "a"),
        ({"tags": "外设", "source_type": "web", "collection": "policy", "entity_ref": "A-2"}, "b"),
    ):
        assert found(shelf, filters) == list(titles), filters
    assert ask(shelf.staff, shelf, {"query": QUESTION, "filters": {"tags": "没有"}}).json()["degraded"] == degraded


def test_updated_after_counts_its_moment_and_updated_before_does_not(shelf: Shop) -> None:
    began = database_now() - timedelta(minutes=30)
    for minutes, title in enumerate("abcd"):
        DocumentVersion.objects.filter(title=title).update(live_from=began + timedelta(minutes=minutes))

    def at(minutes: int) -> str:
        return (began + timedelta(minutes=minutes)).isoformat()

    assert found(shelf, {"updated_after": at(1)}) == ["b", "c", "d"]
    assert found(shelf, {"updated_before": at(1)}) == ["a"]
    assert found(shelf, {"updated_after": at(1), "updated_before": at(3)}) == ["b", "c"]
    assert found(shelf, {"updated_after": at(1), "tags": "新品"}) == ["d"]
    in_china = (began + timedelta(minutes=3, hours=8)).replace(tzinfo=None).isoformat() + "+08:00"
    assert found(shelf, {"updated_after": in_china}) == ["d"]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z"])
def test_moments_far_away_are_moments(shelf: Shop, moment: str) -> None:
    past = moment < "2000"
    assert found(shelf, {"updated_after": moment}) == (["a", "b", "c", "d"] if past else [])
    assert found(shelf, {"updated_before": moment}) == ([] if past else ["a", "b", "c", "d"])


def test_a_collection_is_searched_when_the_intents_and_the_filter_name_it(shelf: Shop) -> None:
    def answer(**values: Any) -> tuple[list[str], list[str], bool]:
        body = ask(shelf.staff, shelf, {"query": QUESTION, **values}).json()
        return [result["title"] for result in body["results"]], body["searched_collections"], body["degraded"]

    both = {"intents": ["faq", "policy_explain"], "filters": {"collection": ["policy", "general"]}}
    assert answer(**both)[:2] == (["b"], ["policy"])
    assert answer(filters={"collection": "general"})[:2] == (["c"], ["general"])
    assert answer(intents=["faq"], filters={"collection": "policy"}) == ([], [], False)


def test_a_customer_never_gets_more_than_customers_may_see(shelf: Shop) -> None:
    assert found(shelf, {"audience": "STAFF"}, "shopper") == []
    assert found(shelf, {"audience": ["STAFF", "CUSTOMER"]}, "shopper") == ["a", "b", "c"]
    assert found(shelf, {"tags": "新品"}, "shopper") == ["a"]
    assert found(shelf, {"collection": "product"}, "shopper") == []


# --- What is refused ---
@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"tag": "外设"}, "tag"),
        ({"tenant": 1}, "tenant"),
        ({'tenant"] != "" or metadata["x': "y"}, 'tenant"] != "" or metadata["x'),
        ({"tags": []}, "tags"),
        ({"tags": ""}, "tags"),
        ({"tags": " "}, "tags"),
        ({"tags": ["外设", ""]}, "tags"),
        ({"tags": " 外设"}, "tags"),
        ({"tags": "a\0b"}, "tags"),
        ({"tags": "\ud800"}, "tags"),
        ({"tags": "\u200b"}, "tags"),
        ({"tags": "字" * 65}, "tags"),
        ({"tags": [str(number) for number in range(21)]}, "tags"),
        ({"tags": None}, "tags"),
        ({"tags": 7}, "tags"),
        ({"tags": [7]}, "tags"),
        ({"tags": [["外设"]]}, "tags"),
        ({"tags": {"x": "y"}}, "tags"),
        ({"all_tags": []}, "all_tags"),
        ({"entity_ref": ""}, "entity_ref"),
        ({"entity_ref": "字" * 129}, "entity_ref"),
        ({"source_type": "mail"}, "source_type"),
        ({"source_type": 'web"] or tenant in [1'}, "source_type"),
        ({"collection": "fin_faq_collection"}, "collection"),
        ({"collection": ["faq", "x"]}, "collection"),
        ({"audience": "EVERYONE"}, "audience"),
        ({"audience": ["CUSTOMER", True]}, "audience"),
        ({"updated_after": "2026-05-01T12:00:00"}, "updated_after"),
        ({"updated_before": "2026-05-01"}, "updated_before"),
        ({"updated_after": "0 or tenant == 1"}, "updated_after"),
        ({"updated_after": "0001-01-01T00:00:00+14:00"}, "updated_after"),
        ({"updated_after": 1}, "updated_after"),
        ({"updated_after": None}, "updated_after"),
        ({"updated_after": "2026-05-01T12:00:00Z", "updated_before": "2026-05-01T20:00:00+08:00"}, "updated_before"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_fields_name(shop: Shop, filters: Any, field: str) -> None:
    response = ask(shop.shopper, shop, {"query": QUESTION, "filters": filters})
    assert (response.status_code, response["Content-Type"]) == (400, "application/problem+json")
    body = response.json()
    assert body["code"] == "INVALID"
    assert body["detail"].startswith(f"filters.{field}")
    assert list(body["errors"]["filters"]) == [field]


@pytest.mark.parametrize("filters", [None, [], "tags", 'tags == "x"', 1, [{"tags": "外设"}]])
def test_filters_are_an_object(shop: Shop, filters: Any) -> None:
    response = ask(shop.shopper, shop, {"query": QUESTION, "filters": filters})
    assert (response.status_code, response.json()["code"]) == (400, "INVALID")
    assert list(response.json()["errors"]) == ["filters"]


def test_a_million_values_are_refused_before_each_is_looked_at(shop: Shop) -> None:
    response = ask(shop.shopper, shop, {"query": QUESTION, "filters": {"tags": ["x"] * 1_000_000}})
    assert response.status_code == 400
    assert len(response.content) < 1000


# --- What people type ---
HOSTILE = [
    'x" or tenant == 1 or id == "',
    '"] or tenant in [1',
    'tenant"] != "" or metadata["x',
    "0]) or array_contains_any(tags, [0",
    '\\"',
    "a\nb",
    "{tag}",
    "main",
    "null",
    "a-b-c",
    "😀",
    "\u202e\u200fx",
    "e\u0301",
    "😀" * MAX_TAG,
]


def test_what_a_merchant_typed_is_found_as_typed_and_widens_nothing(
    shop: Shop, other_shop: Shop, degraded: bool, settings: Settings
) -> None:
    for owner in (shop, other_shop):
        for number, word in enumerate(HOSTILE):
            publish(owner, word, f"键盘说明{number}。", tags=(word, "外设"), entity_ref=word)
    own = {str(public) for public in shop.store.documents.values_list("public_id", flat=True)}
    if degraded:
        take_milvus_away(settings)
    for word in HOSTILE:
        for filters, titles in (
            ({"tags": word}, [word]),
            ({"all_tags": [word, "外设"]}, [word]),
            ({"all_tags": [word, "没有"]}, []),
            ({"entity_ref": word}, [word]),
            ({"entity_ref": f"{word}y"[-MAX_TAG:]}, []),
            ({"tags": f"y{word}"[:MAX_TAG]}, []),
        ):
            response = ask(shop.shopper, shop, {"query": QUESTION, "filters": filters})
            assert response.status_code == 200, filters
            body = response.json()
            assert ([result["title"] for result in body["results"]], body["degraded"]) == (titles, degraded), filters
            assert {result["source_id"] for result in body["results"]} <= own


@pytest.mark.parametrize("name", ["main", "default", "_default", "a-b-c", 'x" or tenant == 1 or id == "', "😀", "null"])
def test_what_a_tenant_or_a_store_is_called_says_nothing_to_the_index(shop: Shop, other_shop: Shop, name: str) -> None:
    for owner in (shop, other_shop):
        owner.store.name = owner.tenant.name = name
        owner.tenant.save()
        owner.store.save()
        publish(owner, name, f"键盘说明。{name}", tags=(name,))
    (own,) = shop.store.documents.values_list("public_id", flat=True)
    body = ask(shop.shopper, shop, {"query": f"{QUESTION} {name}", "filters": {"tags": name}}).json()
    assert [result["source_id"] for result in body["results"]] == [str(own)]
    assert not body["degraded"]


# --- What it costs, and what is noted ---
def test_filters_cost_no_query_of_their_own(shop: Shop) -> None:
    publish(shop, "a", "键盘说明一。", tags=("外设",))
    client, body = shop.shopper, {"query": QUESTION, "filters": {"tags": "外设", "all_tags": ["外设"]}}
    ask(client, shop, body)
    with pinned("POST /openapi/v1/stores/{store}/knowledge/search"):
        assert ask(client, shop, body).json()["results"]


def test_the_audit_trail_has_no_filter_values(shop: Shop) -> None:
    ask(shop.shopper, shop, {"query": QUESTION, "filters": {"tags": "秘密"}})
    entry = AuditEvent.objects.filter(tenant_id=shop.tenant.pk, action="knowledge.search").first()
    assert "秘密" not in str(entry.data)
    assert datetime.now(UTC) - entry.created_at < timedelta(minutes=1)
