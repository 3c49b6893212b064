"""Every address that reads costs what is pinned for it, with one row of everything and with several; so does each
thing that is written, and each list of the admin."""

from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from conversations import turns
from knowledge import indexing
from memory import extracting, purging
from memory.models import MemoryProfile
from tests.admin.estate import furnish, list_of, sign_in
from tests.conversations.talking import CONVERSATIONS, begin, runs, say
from tests.factories import Shop, make_store_key
from tests.knowledge.publishing import draft
from tests.memory import remembering
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from tests.query_counts import pinned
from tests.tenancy.test_every_route import _CONTENT, call, callers, settle
from zhifu import sweeping


def _reads() -> list[tuple[str, dict[str, Any]]]:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    return [(path, methods["get"]) for path, methods in schema["paths"].items() if "get" in methods]


def test_reading_costs_the_same_however_much_there_is(shop: Shop) -> None:
    for more in (1, 3):
        homes = [settle(shop) for _ in range(more)]
        for path, operation in _reads():
            client = callers(homes[0], operation)[0]
            with pinned(f"GET {path}"):
                assert call(client, "get", path, homes[0].ids).status_code == 200, path


def test_a_talk_of_many_messages_costs_what_a_short_one_costs(shop: Shop) -> None:
    settle(shop)
    conversation = begin(shop)
    for _ in range(4):
        say(shop, conversation, "键盘怎么清洁？")
        turns.run_turn(runs(conversation)[-1].pk)
    client = shop.shopper
    with pinned("GET /openapi/v1/conversations/{conversation}/messages"):
        assert len(client.get(f"{CONVERSATIONS}/{conversation}/messages").json()["results"]) == 8


def test_writing_costs_what_it_did(shop: Shop) -> None:
    settle(shop)
    staff, customer, key = shop.staff, shop.shopper, APIClient()
    key.credentials(HTTP_AUTHORIZATION=f"Bearer {make_store_key(shop.store)}")
    tokens = f"/openapi/v1/stores/{shop.store.public_id}/customer-tokens"
    with pinned("a customer's first token"):
        assert key.post(tokens, {"external_ref": "new"}).status_code == 201
    with pinned("a customer's next token"):
        assert key.post(tokens, {"external_ref": "new"}).status_code == 201
    with pinned("a new document"):
        document = staff.post(shop.knowledge_url, _CONTENT).json()["id"]
    one = f"{shop.knowledge_url}/{document}"
    with pinned("a revision"):
        assert staff.put(one, _CONTENT | {"title": "z", "expected_version": 1}).status_code == 200
    with pinned("a publication"):
        assert staff.post(f"{one}/publish", {"expected_version": 2}).status_code == 202
    with pinned("a revocation"):
        assert staff.post(f"{one}/revoke", {"expected_version": 2}).status_code == 200
    with pinned("a new conversation"):
        talk = customer.post(CONVERSATIONS, {}).json()["id"]
    with pinned("a message"):
        run = customer.post(f"{CONVERSATIONS}/{talk}/messages", {"text": "你好"}).json()["run"]["id"]
    with pinned("a cancelled run"):
        assert customer.post(f"/openapi/v1/runs/{run}/cancel").status_code == 200


def test_deciding_about_memory_costs_what_it_did(shop: Shop) -> None:
    client, memory = shop.shopper, remembering.MEMORY
    with pinned("a consent"):
        assert client.put(f"{memory}/consent", {"enabled": True, "expected_revision": 0}).status_code == 200
    with pinned("a change of memory"):
        assert client.patch(memory, {"language": "en", "expected_revision": 1}).status_code == 200
    for revision in (2, 3):
        with pinned("GET /openapi/v1/memory with content"):
            assert client.get(memory).json()["communication"]["language"] == "en"
        fields = {"response_style": "concise", "contact_channel": "sms"}
        assert client.patch(memory, fields | {"expected_revision": revision}).status_code == 200
    with pinned("a clear"):
        assert client.post(f"{memory}/clear", {"expected_revision": 4}).status_code == 200


def test_remembering_costs_what_it_did(shop: Shop, model_server: ModelServer) -> None:
    remembering.consent(shop)
    messages = f"{CONVERSATIONS}/{begin(shop)}/messages"
    with pinned("a message that is to be remembered"):
        assert shop.shopper.post(messages, {"text": "你好"}).status_code == 202
    model_server.wish(wishes(language="en", language_evidence="请用英文回答"), wishes())
    jobs = [remembering.hear(shop, "以后请用英文回答") for _ in range(2)]
    turns.run_turn(shop.customer.conversations.order_by("pk").first().runs.get().pk)
    for job, outcome, name in zip(
        jobs, ("STORED", "NOTHING"), ("an extraction that stores", "an extraction that finds nothing"), strict=True
    ):
        job.refresh_from_db()
        with pinned(name):
            extracting.run_extraction(job.pk)
        job.refresh_from_db()
        assert job.outcome == outcome
    remembering.change(shop, contact_channel="sms")
    selection = purging.Selection(job_id=jobs[0].pk)
    with pinned("a purge of one customer"):
        assert purging.purge(MemoryProfile.objects.get().pk, selection)
    assert remembering.remembered(shop) == {"contact_channel": "sms"}


@pytest.mark.parametrize(("chunks", "name"), [(1, "an index job of one batch"), (40, "an index job of two batches")])
def test_an_index_job_costs_by_batches_and_not_by_chunks(shop: Shop, chunks: int, name: str) -> None:
    settle(shop)
    document = draft(shop, "说明", ("字" * 498 + "\n\n") * chunks)
    job = shop.staff.post(f"{shop.knowledge_url}/{document.public_id}/publish", {"expected_version": 1}).json()["id"]
    pk = document.jobs.get(public_id=job).pk
    with pinned(name):
        indexing.run_index_job(pk)
    assert document.jobs.get().status == "COMPLETED"


def test_a_round_of_the_sweeper_with_nothing_to_do_costs_a_handful(shop: Shop) -> None:
    settle(shop)
    sweeping.run()
    with pinned("a round of the sweeper"):
        sweeping.run()


def test_an_admin_list_costs_the_same_however_long_it_is(shop: Shop, admin_client: Client) -> None:
    for word in ("alphaone", "betatwo", "gammathree"):
        furnish(shop, word)
        member = sign_in(shop.member)
        for model in admin.site._registry:
            address = list_of(model)
            client = admin_client if member.get(address).status_code == 403 else member
            with pinned(f"the list {address}"):
                assert client.get(address).status_code == 200


LONG = ("`knowledge_documentversion`.`source_text`", "`agents_agentrun`.`messages`")


def test_no_list_reads_the_long_texts_behind_its_rows(shop: Shop, admin_client: Client) -> None:
    furnish(shop, "alphaone")
    member = sign_in(shop.member)
    lists = [list_of(model) for model in admin.site._registry]
    lists += [shop.knowledge_url, f"{shop.knowledge_url}/index-jobs", CONVERSATIONS]
    for address in lists:
        for client in (member, admin_client, shop.staff, shop.shopper):
            with CaptureQueriesContext(connection) as queries:
                client.get(address)
            assert not [query["sql"] for query in queries if any(column in query["sql"] for column in LONG)], address
