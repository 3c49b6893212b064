"""A merchant's way through the API: save, publish, follow the job, revise, revoke; and what is refused."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from knowledge import indexing
from knowledge.models import DocumentVersion, IndexJob, KnowledgeDocument
from tests.factories import Shop, make_member, make_store, staff_client
from tests.knowledge.publishing import draft, publish, revise, revoke
from zhifu.models import Role

BODY = {"title": "键盘清洁", "source_text": "先拔掉电源，再用软布擦拭。", "collection": "faq"}


def _post(client: APIClient, url: str, body: Any, **headers: str) -> Any:
    return client.post(url, json.dumps(body), content_type="application/json", **headers)


def _put(client: APIClient, url: str, body: Any) -> Any:
    return client.put(url, json.dumps(body), content_type="application/json")


def test_a_document_goes_from_draft_to_live_to_revised_to_revoked(shop: Shop) -> None:
    staff = shop.staff
    created = _post(staff, shop.knowledge_url, BODY | {"tags": ["键盘"], "expires_at": "2030-01-01T00:00:00+08:00"})
    assert created.status_code == 201
    document = created.json()
    assert (document["version"], document["status"], document["live_version"]) == (1, "DRAFT", None)
    assert document["newest"]["source_text"] == BODY["source_text"]
    assert document["newest"]["tags"] == ["键盘"]
    url = f"{shop.knowledge_url}/{document['id']}"

    accepted = _post(staff, f"{url}/publish", {"expected_version": 1})
    assert accepted.status_code == 202
    job = accepted.json()
    assert (job["status"], job["version"], job["chunks_done"], job["chunks_total"]) == ("QUEUED", 1, 0, 1)
    indexing.run_index_job(IndexJob.objects.get(public_id=job["id"]).pk)
    job = staff.get(f"{shop.knowledge_url}/index-jobs/{job['id']}").json()
    assert (job["status"], job["chunks_done"], job["error_code"]) == ("COMPLETED", 1, "")
    assert staff.get(url).json()["live_version"] == 1

    revised = _put(staff, url, BODY | {"source_text": "用压缩空气吹。", "expected_version": 1})
    assert revised.status_code == 200
    assert (revised.json()["version"], revised.json()["status"], revised.json()["live_version"]) == (2, "DRAFT", 1)
    versions = staff.get(f"{url}/versions").json()["results"]
    assert [(row["version"], row["status"]) for row in versions] == [(2, "DRAFT"), (1, "PUBLISHED")]
    assert "source_text" not in versions[0]
    assert staff.get(f"{url}/versions/1").json()["source_text"] == BODY["source_text"]

    revoked = _post(staff, f"{url}/revoke", {"expected_version": 2})
    assert revoked.status_code == 200
    assert (revoked.json()["version"], revoked.json()["status"], revoked.json()["live_version"]) == (3, "REVOKED", None)
    assert revoked.json()["newest"]["version"] == 2


def test_a_creation_sent_again_with_its_key_is_the_same_document(shop: Shop) -> None:
    first = _post(shop.staff, shop.knowledge_url, BODY, HTTP_IDEMPOTENCY_KEY="key-1")
    again = _post(shop.staff, shop.knowledge_url, BODY, HTTP_IDEMPOTENCY_KEY="key-1")
    other = _post(shop.staff, shop.knowledge_url, BODY | {"title": "别的"}, HTTP_IDEMPOTENCY_KEY="key-1")
    assert first.json() == again.json()
    assert (again.status_code, other.status_code, other.json()["code"]) == (201, 409, "CONFLICT")
    assert KnowledgeDocument.objects.filter(tenant=shop.tenant).count() == 1


BAD_BODIES: list[Any] = [
    [],
    "text",
    {},
    BODY | {"title": ""},
    BODY | {"title": 7},
    BODY | {"title": "a" * 201},
    BODY | {"title": "a\x00b"},
    BODY | {"title": "\ud800"},
    BODY | {"source_text": ""},
    BODY | {"source_text": " \n\t"},
    BODY | {"source_text": "a\x00"},
    BODY | {"source_text": "a\ud800"},
    BODY | {"source_text": None},
    BODY | {"collection": "fin_faq_collection"},
    BODY | {"collection": "unknown"},
    BODY | {"collection": ["faq"]},
    BODY | {"audience": "EVERYBODY"},
    BODY | {"source_type": "ftp"},
    BODY | {"entity_ref": " A-1"},
    BODY | {"entity_ref": "A" * 129},
    BODY | {"tags": "one"},
    BODY | {"tags": ["a", "a"]},
    BODY | {"tags": [""]},
    BODY | {"tags": ["a"] * 21},
    BODY | {"tags": [1]},
    BODY | {"effective_from": "2026-01-01T00:00:00"},
    BODY | {"effective_from": "yesterday"},
    BODY | {"expires_at": "0001-01-01T00:00:00+14:00"},
    BODY | {"expires_at": "9999-12-31T23:59:59-12:00"},
    BODY | {"effective_from": "2026-01-02T00:00:00Z", "expires_at": "2026-01-02T08:00:00+08:00"},
    BODY | {"tenant": 1},
    BODY | {"tenant_id": 1},
    BODY | {"store": str(uuid4())},
    BODY | {"status": "PUBLISHED"},
    BODY | {"live_version": 1},
    BODY | {"\ud800": 1},
]


@pytest.mark.parametrize("body", BAD_BODIES)
def test_a_bad_body_is_refused_and_nothing_is_written(shop: Shop, body: Any) -> None:
    document = draft(shop, "退货", "七天。")
    revision = body | {"expected_version": 1} if isinstance(body, dict) else body
    for response in (
        _post(shop.staff, shop.knowledge_url, body),
        _put(shop.staff, f"{shop.knowledge_url}/{document.public_id}", revision),
    ):
        assert response.status_code == 400
        assert response["Content-Type"] == "application/problem+json"
        assert response.json()["code"] == "INVALID"
    assert list(DocumentVersion.objects.filter(document__tenant=shop.tenant)) == list(document.versions.all())
    assert document.versions.count() == 1


def test_64_chunks_are_saved_and_65_are_too_many(shop: Shop) -> None:
    paragraph = "字" * 498 + "\n\n"
    assert _post(shop.staff, shop.knowledge_url, BODY | {"source_text": paragraph * 64}).status_code == 201
    saved = KnowledgeDocument.objects.get(tenant=shop.tenant)
    longer = BODY | {"source_text": paragraph * 65}
    for response in (
        _post(shop.staff, shop.knowledge_url, longer),
        _put(shop.staff, f"{shop.knowledge_url}/{saved.public_id}", longer | {"expected_version": 1}),
    ):
        assert (response.status_code, response.json()["code"]) == (400, "TOO_MANY_CHUNKS")
        assert (response.json()["chunks"], response.json()["limit"]) == (65, 64)
    assert KnowledgeDocument.objects.get(tenant=shop.tenant).version == 1


@pytest.mark.parametrize("expected", [0, -1, None, "x", True, 2**31, 1.5])
def test_an_expected_version_that_is_no_number_is_refused(shop: Shop, expected: Any) -> None:
    url = f"{shop.knowledge_url}/{draft(shop, '退货', '七天。').public_id}"
    for response in (
        _put(shop.staff, url, BODY | {"expected_version": expected}),
        _post(shop.staff, f"{url}/publish", {"expected_version": expected}),
        _post(shop.staff, f"{url}/revoke", {"expected_version": expected}),
    ):
        assert (response.status_code, response.json()["code"]) == (400, "INVALID")
    assert not IndexJob.objects.filter(document__tenant=shop.tenant).exists()


def test_a_stale_expected_version_is_a_conflict_that_says_the_current_one(shop: Shop) -> None:
    document = revise(shop, publish(shop, "退货", "七天。"), "退货", "十五天。")
    url = f"{shop.knowledge_url}/{document.public_id}"
    for response in (
        _put(shop.staff, url, BODY | {"expected_version": 1}),
        _post(shop.staff, f"{url}/publish", {"expected_version": 1}),
        _post(shop.staff, f"{url}/revoke", {"expected_version": 1}),
    ):
        assert (response.status_code, response.json()["code"]) == (409, "VERSION_CONFLICT")
        assert response.json()["current_version"] == 2
    document.refresh_from_db()
    assert (document.version, document.live_version, document.jobs.count()) == (2, 1, 1)


def _addresses(shop: Shop, document: object, job: object, version: object = 1) -> list[tuple[str, str, Any]]:
    base, one = shop.knowledge_url, f"{shop.knowledge_url}/{document}"
    return [
        ("get", one, None),
        ("put", one, BODY | {"expected_version": 1}),
        ("get", f"{one}/versions", None),
        ("get", f"{one}/versions/{version}", None),
        ("post", f"{one}/publish", {"expected_version": 1}),
        ("post", f"{one}/revoke", {"expected_version": 1}),
        ("get", f"{base}/index-jobs/{job}", None),
    ]


def _send(client: APIClient, method: str, url: str, body: Any) -> Any:
    if body is None:
        return getattr(client, method)(url)
    return getattr(client, method)(url, json.dumps(body), content_type="application/json")


def _rows() -> tuple[int, int, int]:
    return KnowledgeDocument.objects.count(), DocumentVersion.objects.count(), IndexJob.objects.count()


def test_foreign_and_other_store_ids_answer_exactly_like_unknown_ones(shop: Shop, other_shop: Shop) -> None:
    foreign = publish(other_shop, "退货", "七天。")
    elsewhere_shop = Shop(shop.tenant, make_store(shop.tenant), shop.member, shop.customer)
    elsewhere = publish(elsewhere_shop, "退货", "七天。")
    before = _rows()
    unknown = [_send(shop.staff, *address) for address in _addresses(shop, uuid4(), uuid4())]
    for document in (foreign, elsewhere):
        answers = [
            _send(shop.staff, *address)
            for address in _addresses(shop, document.public_id, document.jobs.get().public_id)
        ]
        assert [answer.status_code for answer in answers] == [404] * len(answers)
        assert [answer.content for answer in answers] == [answer.content for answer in unknown]
    assert _rows() == before


def test_a_foreign_store_answers_exactly_like_an_unknown_one(shop: Shop, other_shop: Shop) -> None:
    document = publish(other_shop, "退货", "七天。")
    unknown_store = _send(shop.staff, "get", f"/openapi/v1/stores/{uuid4()}/knowledge", None)
    addresses = [
        *_addresses(other_shop, document.public_id, document.jobs.get().public_id),
        ("get", other_shop.knowledge_url, None),
        ("post", other_shop.knowledge_url, BODY),
        ("get", f"{other_shop.knowledge_url}/index-jobs", None),
    ]
    for address in addresses:
        answer = _send(shop.staff, *address)
        assert (answer.status_code, answer.content) == (404, unknown_store.content)


def test_lists_show_only_the_store_of_the_address(shop: Shop, other_shop: Shop) -> None:
    mine = publish(shop, "我的", "七天。")
    publish(other_shop, "别人的", "七天。")
    publish(Shop(shop.tenant, make_store(shop.tenant), shop.member, shop.customer), "另一家店", "七天。")
    listed = shop.staff.get(shop.knowledge_url).json()["results"]
    assert [(row["id"], row["newest"]["title"]) for row in listed] == [(str(mine.public_id), "我的")]
    jobs = shop.staff.get(f"{shop.knowledge_url}/index-jobs").json()["results"]
    assert [row["document_id"] for row in jobs] == [str(mine.public_id)]


def test_a_version_that_does_not_exist_is_not_found(shop: Shop) -> None:
    document = revoke(shop, draft(shop, "退货", "七天。"))
    for number in (0, 2, 99, 2**70):
        assert shop.staff.get(f"{shop.knowledge_url}/{document.public_id}/versions/{number}").status_code == 404


def test_customers_and_strangers_are_not_let_in(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。")
    addresses = [
        *_addresses(shop, document.public_id, document.jobs.get().public_id),
        ("get", shop.knowledge_url, None),
        ("post", shop.knowledge_url, BODY),
    ]
    for client in (shop.shopper, APIClient()):
        assert {_send(client, *address).status_code for address in addresses} == {401}
    document.refresh_from_db()
    assert (document.version, document.live_version) == (1, 1)


@pytest.mark.parametrize("role", [Role.ADVISOR, Role.RISK_OPERATOR])
def test_staff_without_the_permission_read_and_change_nothing(shop: Shop, role: str) -> None:
    document = publish(shop, "退货", "七天。")
    client = staff_client(make_member(shop.tenant, role))
    for method, url, body in _addresses(shop, document.public_id, document.jobs.get().public_id):
        assert _send(client, method, url, body).status_code == (200 if method == "get" else 403)
    assert _post(client, shop.knowledge_url, BODY).status_code == 403
    document.refresh_from_db()
    assert (document.version, document.live_version) == (1, 1)


def test_a_member_limited_to_another_store_does_not_see_this_one(shop: Shop) -> None:
    elsewhere = make_store(shop.tenant)
    client = staff_client(make_member(shop.tenant, stores=(elsewhere,)))
    assert client.get(shop.knowledge_url).status_code == 404
    assert client.get(f"/openapi/v1/stores/{elsewhere.public_id}/knowledge").status_code == 200


def test_a_long_list_is_read_page_by_page_with_the_same_few_queries(shop: Shop) -> None:
    made = [draft(shop, f"文档 {number}", "文。") for number in range(5)]
    staff = shop.staff
    seen: list[str] = []
    counts = []
    url: str | None = f"{shop.knowledge_url}?page_size=2"
    while url:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            page = staff.get(url).json()
        counts.append(len(queries))
        seen += [row["id"] for row in page["results"]]
        url = page["next"]
    assert seen == [str(document.public_id) for document in reversed(made)]
    # The token's user and its password hash, the member, their stores, the store, the page, its newest versions.
    assert max(counts) <= 7


@pytest.mark.parametrize("query", ["page_size=0", "page_size=201", "page_size=x", "cursor=%00", "tenant=1"])
def test_a_bad_page_is_refused(shop: Shop, query: str) -> None:
    response = shop.staff.get(f"{shop.knowledge_url}?{query}")
    assert response.status_code == 400, response.content
