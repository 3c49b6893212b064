"""Two tenants with the same texts: every address of the API, every id in it, foreign or unknown, answers the same 404.

The addresses come from the OpenAPI schema, so that a new one cannot be forgotten: it has no body here, and fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import F
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from agents.models import AgentRun
from conversations import turns
from conversations.models import Message
from knowledge import references
from knowledge.models import IndexJob, KnowledgeDocument
from tests.factories import Shop, customer_client, make_member, make_store, make_store_key, staff_client
from tests.knowledge.publishing import publish
from zhifu.models import AuditEvent, Role
from zhifu.scope import PERMISSIONS

TITLE, TEXT = "键盘清洁", "清洁键盘前先拔下电源，再用软毛刷清除灰尘。"
_CONTENT = {"title": "x", "source_text": "y", "collection": "faq"}
BODIES: dict[tuple[str, str], Any] = {
    ("post", "/openapi/v1/stores/{store}/customer-tokens"): {"external_ref": "new"},
    ("post", "/openapi/v1/stores/{store}/knowledge"): _CONTENT,
    ("put", "/openapi/v1/stores/{store}/knowledge/{document}"): _CONTENT | {"expected_version": 1},
    ("post", "/openapi/v1/stores/{store}/knowledge/{document}/publish"): {"expected_version": 1},
    ("post", "/openapi/v1/stores/{store}/knowledge/{document}/revoke"): {"expected_version": 1},
    ("post", "/openapi/v1/stores/{store}/knowledge/search"): {"query": "键盘清洁"},
    ("post", "/openapi/v1/conversations/{conversation}/messages"): {"text": "键盘"},
    ("post", "/openapi/v1/runs/{run}/cancel"): None,
    ("put", "/openapi/v1/memory/consent"): {"enabled": True, "expected_revision": 0},
    ("patch", "/openapi/v1/memory"): {"language": "en", "expected_revision": 0},
    ("post", "/openapi/v1/memory/clear"): {"expected_revision": 0},
}


@dataclass(frozen=True)
class Home:
    """A shop with one of everything, and the ids that addresses take."""

    shop: Shop
    ids: dict[str, str]


def settle(shop: Shop) -> Home:
    document = publish(shop, TITLE, TEXT)
    conversation = shop.shopper.post("/openapi/v1/conversations", {}).json()["id"]
    shop.shopper.post(f"/openapi/v1/conversations/{conversation}/messages", {"text": "键盘怎么清洁？"})
    run = AgentRun.objects.get(conversation__public_id=conversation)
    turns.run_turn(run.pk)
    ids = {
        "store": str(shop.store.public_id),
        "document": str(document.public_id),
        "number": "1",
        "job": str(IndexJob.objects.get(document=document).public_id),
        "conversation": conversation,
        "run": str(run.public_id),
        "token": references.mint(shop.customer_scope, document.public_id),
    }
    return Home(shop, ids)


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (method, path, operation) of every address that takes an id."""
    schema = SchemaGenerator().get_schema(request=None, public=True)
    for path, methods in schema["paths"].items():
        if "{" in path:
            yield from ((method, path, operation) for method, operation in methods.items())


def parameters(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def callers(home: Home, operation: dict[str, Any]) -> list[APIClient]:
    """Return a client of every kind the address takes."""
    kinds = {name for entry in operation["security"] for name in entry}
    key = APIClient()
    key.credentials(HTTP_AUTHORIZATION=f"Bearer {make_store_key(home.shop.store)}")
    clients = {"customer": home.shop.shopper, "staff": home.shop.staff, "storeKey": key}
    return [clients[kind] for kind in sorted(kinds)]


def call(client: APIClient, method: str, path: str, ids: dict[str, str]) -> Any:
    body = BODIES[method, path] if method != "get" else None
    return getattr(client, method)(path.format(**ids), body)


def unknown(parameter: str, home: Home) -> str:
    if parameter == "token":
        return references.mint(home.shop.customer_scope, uuid4())
    return "99" if parameter == "number" else str(uuid4())


def test_every_foreign_id_answers_like_an_unknown_one(shop: Shop, other_shop: Shop) -> None:
    mine, theirs = settle(shop), settle(other_shop)
    asked = 0
    for method, path, operation in operations():
        for client in callers(mine, operation):
            for parameter in parameters(path):
                if parameter == "number":
                    continue
                foreign = call(client, method, path, mine.ids | {parameter: theirs.ids[parameter]})
                nobody = call(client, method, path, mine.ids | {parameter: unknown(parameter, mine)})
                assert foreign.status_code == nobody.status_code == 404, (method, path, parameter, foreign.content)
                assert foreign.content == nobody.content, (method, path, parameter)
                assert foreign.headers.items() == nobody.headers.items(), (method, path, parameter)
                asked += 1
    assert asked >= 25


def test_the_refused_calls_change_nothing_of_theirs(shop: Shop, other_shop: Shop) -> None:
    mine, theirs = settle(shop), settle(other_shop)
    before = _everything_of(other_shop)
    for method, path, operation in operations():
        for client in callers(mine, operation):
            for parameter in set(parameters(path)) - {"number"}:
                call(client, method, path, mine.ids | {parameter: theirs.ids[parameter]})
            call(client, method, path, theirs.ids)
    assert _everything_of(other_shop) == before
    assert not AuditEvent.objects.filter(tenant_id=shop.tenant.pk, object_id=theirs.ids["document"], outcome="OK")


def _everything_of(shop: Shop) -> list[object]:
    return [
        list(KnowledgeDocument.objects.filter(tenant=shop.tenant).values()),
        list(Message.objects.filter(conversation__tenant=shop.tenant).values()),
        list(AgentRun.objects.filter(tenant=shop.tenant).values()),
        list(IndexJob.objects.filter(document__tenant=shop.tenant).values()),
        list(shop.tenant.customers.values()),
    ]


def test_a_search_finds_the_own_copy_of_a_text_that_two_tenants_share(shop: Shop, other_shop: Shop) -> None:
    mine, theirs = settle(shop), settle(other_shop)
    for home in (mine, theirs):
        for client in (home.shop.shopper, home.shop.staff):
            found = client.post(f"{home.shop.knowledge_url}/search", {"query": "键盘怎么清洁"}).json()["results"]
            assert [result["source_id"] for result in found] == [home.ids["document"]]


def test_an_answer_stands_on_the_own_copy_alone(shop: Shop, other_shop: Shop) -> None:
    mine, theirs = settle(shop), settle(other_shop)
    for home in (mine, theirs):
        page = home.shop.shopper.get(f"/openapi/v1/conversations/{home.ids['conversation']}/messages").json()
        sources = [
            source["source_id"] for row in page["results"] if row["answer"] for source in row["answer"]["source_refs"]
        ]
        assert set(sources) == {home.ids["document"]}
    shown = [
        passage["document_id"]
        for run in AgentRun.objects.filter(tenant=shop.tenant)
        for message in run.messages
        for passage in message.get("passages", [])
    ]
    assert shown
    assert not KnowledgeDocument.objects.filter(pk__in=shown).exclude(tenant=shop.tenant).exists()


def test_a_customer_at_another_store_of_the_tenant_is_elsewhere(shop: Shop) -> None:
    mine = settle(shop)
    second = make_store(shop.tenant)
    client = customer_client(shop.customer, second)
    assert client.get(f"/openapi/v1/conversations/{mine.ids['conversation']}").status_code == 404
    assert client.get(f"/openapi/v1/runs/{mine.ids['run']}").status_code == 404
    assert client.get("/openapi/v1/conversations").json()["results"] == []
    assert client.post(f"{shop.knowledge_url}/search", {"query": "键盘"}).status_code == 404
    own_store = f"/openapi/v1/stores/{second.public_id}/knowledge/search"
    assert client.post(own_store, {"query": "键盘怎么清洁"}).json()["results"] == []


def test_a_reference_is_for_the_person_it_was_signed_for(shop: Shop, other_shop: Shop) -> None:
    mine = settle(shop)
    address = f"/api/v1/knowledge-references/{mine.ids['token']}"
    assert shop.shopper.get(address).status_code == 200
    assert shop.staff.get(address).status_code == 404
    assert other_shop.shopper.get(address).status_code == 404


@pytest.mark.parametrize("role", [role for role in Role.values if role != Role.ADMIN])
def test_staff_may_do_what_their_role_says_and_no_more(shop: Shop, role: str) -> None:
    client = staff_client(make_member(shop.tenant, role))
    expected = 201 if "knowledge:write" in PERMISSIONS[role] else 403
    assert client.post(shop.knowledge_url, _CONTENT).status_code == expected


@pytest.mark.parametrize("field", ["tenant", "tenant_id", "store", "store_id", "customer", "user", "actor"])
def test_a_body_that_names_a_scope_is_refused_and_nothing_is_written(shop: Shop, other_shop: Shop, field: str) -> None:
    foreign = other_shop.tenant.pk if "tenant" in field else str(other_shop.store.public_id)
    documents = KnowledgeDocument.objects.count()
    assert shop.staff.post(shop.knowledge_url, _CONTENT | {field: foreign}).status_code == 400
    assert KnowledgeDocument.objects.count() == documents
    assert shop.shopper.post("/openapi/v1/conversations", {field: foreign}).status_code == 400
    search = {"query": "键盘", field: foreign}
    assert shop.shopper.post(f"{shop.knowledge_url}/search", search).status_code == 400
    assert not KnowledgeDocument.objects.exclude(store__tenant_id=F("tenant_id")).exists()
