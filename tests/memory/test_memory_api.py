"""The customer's own addresses: every field, every refusal, and what never shows."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.db import connections
from rest_framework.test import APIClient

from memory import store
from memory.communication import FIELDS, ContactChannel, Language, ResponseStyle
from memory.models import FieldOrigin, MemoryEvent, MemoryProfile
from tests.admin.estate import list_of, page, sign_in
from tests.conversations import talking
from tests.factories import Shop, customer_client, make_customer, make_store, make_store_key
from tests.memory import outages, remembering
from tests.memory.remembering import MEMORY, NOTHING
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from zhifu.models import AuditEvent
from zhifu.transactions import database_now

CHANGES: list[Callable[[APIClient, int], Any]] = [
    lambda client, revision: client.put(f"{MEMORY}/consent", {"enabled": True, "expected_revision": revision}),
    lambda client, revision: client.post(f"{MEMORY}/clear", {"expected_revision": revision}),
    lambda client, revision: client.patch(MEMORY, {"language": "ja", "expected_revision": revision}),
]
NAMES = ["consent", "clear", "change"]
every_change = pytest.mark.parametrize("send", CHANGES, ids=NAMES)


def send_as_is(shop: Shop, name: str, body: Any) -> Any:
    """Send `body` to one of the three addresses that change something."""
    client = shop.shopper
    if name == "consent":
        return client.put(f"{MEMORY}/consent", body)
    return client.post(f"{MEMORY}/clear", body) if name == "clear" else client.patch(MEMORY, body)


def valid(name: str, revision: Any) -> dict[str, Any]:
    return {"expected_revision": revision} | {"consent": {"enabled": True}, "clear": {}, "change": {"language": "ja"}}[
        name
    ]


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """Return the body of a refusal, which must be a problem with this status and code."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body = response.json()
    assert (body["status"], body["code"]) == (status, code)
    return body


def age(shop: Shop, days: float, **which: Any) -> None:
    """Let `days` pass since the customer's values were said."""
    FieldOrigin.objects.filter(profile__customer=shop.customer, **which).update(
        stated_at=database_now() - timedelta(days=days)
    )


# --- reading ---
def test_at_first_nothing_is_remembered_and_remembering_is_off(shop: Shop) -> None:
    assert remembering.read(shop) == {
        "consent": False,
        "epoch": 0,
        "revision": 0,
        "communication": NOTHING,
        "origins": [],
        "expires_at": None,
    }


def test_reading_says_what_is_remembered_and_who_said_it_when(shop: Shop, model_server: ModelServer) -> None:
    remembering.consent(shop)
    remembering.change(shop, contact_channel="wechat")
    model_server.wish(wishes(language="en", language_evidence="请用英文回答"))
    job = remembering.learn(shop, "以后请用英文回答")
    seen = remembering.read(shop)
    profile = remembering.profile_of(shop)
    assert seen["communication"] == {"response_style": None, "language": "en", "contact_channel": "wechat"}
    by_model, by_hand = seen["origins"]
    assert by_model == {
        "field": "language",
        "source": "extraction",
        "message_id": str(job.message.public_id),
        "job_id": str(job.public_id),
        "stated_at": job.message.committed_at.isoformat().replace("+00:00", "Z"),
        "confidence": 0.9,
    }
    hand = {"field": "contact_channel", "source": "user", "message_id": None, "job_id": None, "confidence": 1.0}
    assert {name: by_hand[name] for name in hand} == hand
    assert seen["expires_at"] == profile.value_expires_at.isoformat().replace("+00:00", "Z")


def test_memory_is_the_tenants_at_each_of_its_stores_and_nobody_elses(shop: Shop, other_shop: Shop) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="th")
    elsewhere = customer_client(shop.customer, make_store(shop.tenant))
    assert elsewhere.get(MEMORY).json() == remembering.read(shop)
    namesake = Shop(other_shop.tenant, other_shop.store, other_shop.member, make_customer(other_shop.tenant, "x"))
    namesake.customer.external_ref = shop.customer.external_ref
    namesake.customer.save()
    neighbour = Shop(shop.tenant, shop.store, shop.member, make_customer(shop.tenant))
    for stranger in (namesake, neighbour):
        assert remembering.read(stranger)["communication"] == NOTHING
        assert remembering.history(stranger) == []


# --- who may ---
@every_change
def test_only_the_customers_own_token_opens_memory(shop: Shop, send: Callable[[APIClient, int], Any]) -> None:
    key = APIClient()
    key.credentials(HTTP_AUTHORIZATION=f"Bearer {make_store_key(shop.store)}")
    for client, status in ((APIClient(), 401), (key, 401), (shop.staff, 401)):
        for ask in (send, lambda who, _: who.get(MEMORY), lambda who, _: who.get(f"{MEMORY}/history")):
            refused = ask(client, 0)
            assert "customer token" in problem(refused, status, "UNAUTHENTICATED")["detail"]
            assert refused["WWW-Authenticate"] == "Bearer"
    assert send(shop.shopper, 0).status_code != 401
    assert MemoryEvent.objects.filter(profile__customer=shop.customer).count() == (0 if send is CHANGES[2] else 1)


@pytest.mark.parametrize("gone", ["customer", "store", "tenant"])
@every_change
def test_who_is_no_longer_served_reaches_no_memory(
    shop: Shop, send: Callable[[APIClient, int], Any], gone: str
) -> None:
    client = shop.shopper
    row = getattr(shop, gone)
    setattr(row, "is_open" if gone == "store" else "is_active", False)
    row.save()
    problem(send(client, 0), 401, "UNAUTHENTICATED")
    problem(client.get(MEMORY), 401, "UNAUTHENTICATED")
    assert not MemoryEvent.objects.exists()


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_other_methods_are_refused(shop: Shop, method: str) -> None:
    problem(getattr(shop.shopper, method)(MEMORY, {}), 405, "METHOD_NOT_ALLOWED")


# --- what cannot be meant ---
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "revision", ["0", "", "x", True, False, None, -1, 0.0, 0.5, 2**63, 10**400, [], {}, [0], {"value": 0}], ids=repr
)
def test_a_revision_is_a_number_that_was_read(shop: Shop, name: str, revision: Any) -> None:
    body = problem(send_as_is(shop, name, valid(name, revision)), 400, "INVALID")
    assert "expected_revision" in body["errors"]
    assert "expected_revision" in body["detail"]
    assert not MemoryEvent.objects.exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_revision_is_wanted(shop: Shop, name: str) -> None:
    body = valid(name, 0)
    del body["expected_revision"]
    assert "expected_revision" in problem(send_as_is(shop, name, body), 400, "INVALID")["errors"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "field", ["customer", "customer_id", "tenant", "epoch", "consent", "source", "Language", "note"]
)
def test_a_field_that_is_not_there_is_refused_and_nothing_happens(shop: Shop, name: str, field: str) -> None:
    body = problem(send_as_is(shop, name, valid(name, 0) | {field: 1}), 400, "INVALID")
    assert body["errors"] == {field: ["没有这个字段 / Unknown field."]}
    assert not MemoryEvent.objects.exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("body", [None, [], "x", 1, [{}]], ids=repr)
def test_a_body_that_is_no_object_is_refused(shop: Shop, name: str, body: Any) -> None:
    problem(send_as_is(shop, name, body), 400, "INVALID")


@pytest.mark.parametrize("enabled", ["true", "yes", "off", 1, 0, None, "", [], {}], ids=repr)
def test_consent_is_true_or_false_and_nothing_that_looks_like_it(shop: Shop, enabled: Any) -> None:
    sent = shop.shopper.put(f"{MEMORY}/consent", {"enabled": enabled, "expected_revision": 0})
    assert "enabled" in problem(sent, 400, "INVALID")["errors"]
    assert remembering.read(shop)["revision"] == 0


@pytest.mark.parametrize(
    ("field", "codes"),
    [("response_style", ResponseStyle), ("language", Language), ("contact_channel", ContactChannel)],
)
@pytest.mark.parametrize(
    "value", ["", " ", "klingon", "tlh", "简洁", "CONCISE ", 1, True, [], {}, ["en"], "x" * 5000], ids=repr
)
def test_a_value_that_cannot_be_remembered_is_answered_with_those_that_can(
    shop: Shop, field: str, codes: Any, value: Any
) -> None:
    remembering.consent(shop)
    refused = shop.shopper.patch(MEMORY, {field: value, "expected_revision": 1})
    (why,) = problem(refused, 400, "INVALID")["errors"][field]
    assert why.endswith(f"one of: {', '.join(codes.values)}.")
    assert remembering.read(shop)["revision"] == 1


def test_a_change_of_nothing_is_refused_and_told_what_there_is(shop: Shop) -> None:
    remembering.consent(shop)
    body = problem(shop.shopper.patch(MEMORY, {"expected_revision": 1}), 400, "INVALID")
    for field in FIELDS:
        assert field in body["detail"]
    assert remembering.read(shop)["revision"] == 1


# --- what is accepted ---
@pytest.mark.parametrize(("field", "codes"), [("response_style", ResponseStyle), ("contact_channel", ContactChannel)])
def test_every_code_can_be_set(shop: Shop, field: str, codes: Any) -> None:
    remembering.consent(shop)
    for code in codes.values:
        assert remembering.change(shop, **{field: code})["communication"] == NOTHING | {field: code}


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        *((code, code) for code in Language.values),
        *(("zh-TW", "zh-Hant"), ("zh_HK", "zh-Hant"), ("zh-CN", "zh-Hans"), ("en-US", "en"), ("EN", "en")),
        *(("pt-BR", "pt"), ("zh-yue", "yue"), ("cmn-Hant", "zh-Hant"), (" ja ", "ja")),
    ],
)
def test_a_language_is_stored_by_its_code(shop: Shop, tag: str, code: str) -> None:
    remembering.consent(shop)
    assert remembering.change(shop, language=tag)["communication"]["language"] == code
    assert store.read(remembering.profile_of(shop).value_key) == {"language": code}


# --- consent, change, clear ---
def test_each_decision_adds_one_to_epoch_and_revision(shop: Shop) -> None:
    decisions = [
        lambda: remembering.consent(shop),
        lambda: remembering.change(shop, language="en"),
        lambda: remembering.change(shop, language=None),
        lambda: remembering.clear(shop),
        lambda: remembering.consent(shop),
        lambda: remembering.consent(shop, enabled=False),
        lambda: remembering.clear(shop),
    ]
    for number, decide in enumerate(decisions, start=1):
        answer = decide()
        assert (answer["epoch"], answer["revision"]) == (number, number)
        assert answer == remembering.read(shop)


@pytest.mark.parametrize("enabled", [True, False])
def test_consent_clears_also_when_it_changes_nothing(shop: Shop, enabled: bool) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="en")
    answer = remembering.consent(shop, enabled=enabled)
    assert (answer["consent"], answer["communication"], answer["origins"]) == (enabled, NOTHING, [])
    assert not FieldOrigin.objects.exists()
    remembering.consent(shop)
    assert remembering.remembered(shop) == {}
    remembering.sweep()
    assert remembering.keys_of(shop) == set()


@pytest.mark.parametrize("enabled", [True, False])
def test_clear_keeps_the_choice(shop: Shop, enabled: bool) -> None:
    remembering.consent(shop, enabled=enabled)
    if enabled:
        remembering.change(shop, language="en")
    answer = remembering.clear(shop)
    assert (answer["consent"], answer["communication"], answer["expires_at"]) == (enabled, NOTHING, None)
    assert not FieldOrigin.objects.exists()


def test_a_change_is_the_customers_own_and_leaves_the_other_fields_and_their_origins(
    shop: Shop, model_server: ModelServer
) -> None:
    remembering.consent(shop)
    model_server.wish(
        wishes(
            language="en",
            language_evidence="请用英文回答",
            response_style="concise",
            response_style_evidence="简洁",
        )
    )
    remembering.learn(shop, "以后请用英文回答，简洁一点")
    before = {origin["field"]: origin for origin in remembering.read(shop)["origins"]}
    assert set(before) == {"language", "response_style"}
    after = remembering.change(shop, language="fr")
    origins = {origin["field"]: origin for origin in after["origins"]}
    assert after["communication"] == NOTHING | {"language": "fr", "response_style": "concise"}
    assert origins["response_style"] == before["response_style"]
    assert (origins["language"]["source"], origins["language"]["job_id"]) == ("user", None)


def test_null_removes_a_field_and_only_that(shop: Shop) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="fr", contact_channel="sms")
    after = remembering.change(shop, language=None, response_style="detailed")
    assert after["communication"] == {"response_style": "detailed", "language": None, "contact_channel": "sms"}
    assert [origin["field"] for origin in after["origins"]] == ["response_style", "contact_channel"]
    nothing = remembering.change(shop, **dict.fromkeys(FIELDS))
    assert (nothing["communication"], nothing["origins"], nothing["expires_at"]) == (NOTHING, [], None)


def test_without_consent_nothing_can_be_set_and_the_answer_says_how_to_get_there(shop: Shop) -> None:
    refused = problem(CHANGES[2](shop.shopper, 0), 409, "CONSENT_REQUIRED")
    assert "PUT /openapi/v1/memory/consent" in refused["detail"]
    assert remembering.read(shop)["revision"] == 0
    assert remembering.keys_of(shop) == set()
    remembering.consent(shop)
    assert CHANGES[2](shop.shopper, 1).status_code == 200


@every_change
@pytest.mark.parametrize("stale", [0, 1, 3, 2**63 - 1])
def test_another_revision_is_a_conflict_that_says_the_present_one(
    shop: Shop, send: Callable[[APIClient, int], Any], stale: int
) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="en")
    before = remembering.read(shop)
    refused = send(shop.shopper, stale)
    body = problem(refused, 409, "REVISION_CONFLICT")
    assert body["revision"] == 2
    assert "Retry-After" not in refused
    remembering.sweep()
    assert remembering.read(shop) == before
    assert remembering.keys_of(shop) == {remembering.profile_of(shop).value_key}
    assert send(shop.shopper, body["revision"]).status_code == 200


@pytest.mark.django_db(transaction=True)
@every_change
def test_of_two_at_once_with_the_same_revision_one_is_told_so(
    shop: Shop, send: Callable[[APIClient, int], Any]
) -> None:
    remembering.consent(shop)
    for revision in range(1, 6):
        start = threading.Barrier(2)

        def act(client: APIClient, revision: int = revision, start: threading.Barrier = start) -> tuple[int, Any]:
            try:
                start.wait(10)
                answer = send(client, revision)
                return answer.status_code, answer.json()
            finally:
                connections.close_all()

        with ThreadPoolExecutor(2) as pool:
            (first, accepted), (second, refused) = sorted(
                pool.map(act, [shop.shopper, shop.shopper]), key=lambda it: it[0]
            )
        assert (first, second) == (200, 409)
        assert accepted["revision"] == refused["revision"] == revision + 1
        assert refused["code"] == "REVISION_CONFLICT"
    assert MemoryEvent.objects.count() == 6
    remembering.sweep()
    assert remembering.keys_of(shop) == set(filter(None, [remembering.profile_of(shop).value_key]))


# --- time ---
@pytest.mark.parametrize(("days", "is_used"), [(0, True), (59, True), (61, False), (400, False)])
def test_what_was_said_long_ago_is_no_longer_used(
    shop: Shop, model_server: ModelServer, days: int, is_used: bool
) -> None:
    remembering.consent(shop)
    remembering.change(shop, response_style="detailed", language="en")
    age(shop, days, field="response_style")
    left = {"language": "en"} | ({"response_style": "detailed"} if is_used else {})
    assert remembering.remembered(shop) == left
    assert {origin["field"] for origin in remembering.read(shop)["origins"]} == set(left)

    conversation = talking.begin(shop)
    talking.say(shop, conversation, "键盘怎么清洁？")
    talking.work(conversation)
    prompts = [prompt for prompt in remembering.prompts_of(model_server.requests) if "Reply form" in prompt]
    assert prompts
    assert all(("response_style: detailed" in prompt) == is_used for prompt in prompts)
    assert all("language: en" in prompt for prompt in prompts)

    remembering.change(shop, contact_channel="sms")
    assert store.read(remembering.profile_of(shop).value_key) == left | {"contact_channel": "sms"}


@pytest.mark.parametrize(("days", "is_used"), [(50, True), (52, False)])
def test_what_was_only_understood_fades_sooner(shop: Shop, model_server: ModelServer, days: int, is_used: bool) -> None:
    remembering.consent(shop)
    model_server.wish(wishes(language="en", language_evidence="请用英文回答"))
    remembering.learn(shop, "以后请用英文回答")
    age(shop, days)
    assert remembering.remembered(shop) == ({"language": "en"} if is_used else {})
    assert (remembering.read(shop)["expires_at"] is not None) == is_used


def test_content_that_has_expired_is_nothing_and_is_not_brought_back_by_a_change(shop: Shop) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="en")
    MemoryProfile.objects.update(value_expires_at=database_now() - timedelta(seconds=1))
    seen = remembering.read(shop)
    assert (seen["communication"], seen["origins"], seen["expires_at"]) == (NOTHING, [], None)
    remembering.change(shop, contact_channel="sms")
    assert remembering.remembered(shop) == {"contact_channel": "sms"}


# --- the store ---
def test_a_store_that_is_down_is_worth_waiting_for_and_a_loss_is_not(shop: Shop) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="en")
    with outages.away():
        for ask in (lambda: shop.shopper.get(MEMORY), lambda: CHANGES[2](shop.shopper, 2)):
            response = ask()
            problem(response, 503, "MEMORY_UNAVAILABLE")
            assert int(response["Retry-After"]) > 0
    assert remembering.read(shop)["revision"] == 2
    outages.lose(remembering.profile_of(shop).value_key)
    response = shop.shopper.get(MEMORY)
    assert "set it again" in problem(response, 503, "MEMORY_UNAVAILABLE")["detail"]
    assert "Retry-After" not in response
    assert remembering.change(shop, contact_channel="sms")["communication"] == NOTHING | {"contact_channel": "sms"}


@pytest.mark.parametrize("name", ["consent", "clear"])
def test_consent_and_clear_need_no_store(shop: Shop, name: str) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="en")
    with outages.away():
        assert send_as_is(shop, name, valid(name, 2)).json()["communication"] == NOTHING
    remembering.sweep()
    assert remembering.keys_of(shop) == set()


# --- history ---
def test_the_history_says_who_did_what_or_from_which_message(shop: Shop, model_server: ModelServer) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="ja", contact_channel=None)
    model_server.wish(wishes(response_style="concise", response_style_evidence="简洁"))
    job = remembering.learn(shop, "以后回答简洁一点")
    outages.lose(remembering.profile_of(shop).value_key)
    conversation = talking.begin(shop)
    run = talking.say(shop, conversation, "键盘怎么清洁？")["run"]["id"]
    talking.work(conversation)
    remembering.clear(shop)
    remembering.consent(shop, enabled=False)
    nobody = {"message_id": None, "job_id": None, "run_id": None}
    from_job = {"message_id": str(job.message.public_id), "job_id": str(job.public_id)}
    expected = [
        {"kind": "CONSENTED", "epoch": 1, "revision": 1, "fields": [], "by": "customer"},
        {"kind": "CHANGED", "epoch": 2, "revision": 2, "fields": ["contact_channel", "language"], "by": "customer"},
        {"kind": "EXTRACTED", "epoch": 2, "revision": 3, "fields": ["response_style"], "by": ""} | from_job,
        {"kind": "LOST", "epoch": 2, "revision": 3, "fields": [], "by": "", "run_id": run},
        {"kind": "CLEARED", "epoch": 3, "revision": 4, "fields": [], "by": "customer"},
        {"kind": "WITHDRAWN", "epoch": 4, "revision": 5, "fields": [], "by": "customer"},
    ]
    told = remembering.history(shop)
    moments = [event.pop("created_at") for event in told]
    assert told == [nobody | event for event in reversed(expected)]
    assert moments == sorted(moments, reverse=True)


def test_the_history_comes_in_pages(shop: Shop) -> None:
    for _ in range(5):
        remembering.clear(shop)
    page_of = shop.shopper.get(f"{MEMORY}/history?page_size=2").json()
    revisions = [event["revision"] for event in page_of["results"]]
    while page_of["next"]:
        page_of = shop.shopper.get(page_of["next"]).json()
        revisions += [event["revision"] for event in page_of["results"]]
    assert revisions == [5, 4, 3, 2, 1]
    problem(shop.shopper.get(f"{MEMORY}/history?page_size=0"), 400, "INVALID")
    problem(shop.shopper.get(f"{MEMORY}/history?customer=1"), 400, "INVALID")
    problem(shop.shopper.get(f"{MEMORY}/history?cursor=xyz"), 404, "NOT_FOUND")


def test_what_is_remembered_is_in_no_history_trail_or_page(shop: Shop, model_server: ModelServer) -> None:
    remembering.consent(shop)
    remembering.change(shop, language="zh-Hant", contact_channel="whatsapp")
    model_server.wish(wishes(response_style="detailed", response_style_evidence="请回答得详细一点"))
    job = remembering.learn(shop, "以后请回答得详细一点")
    shop.shopper.patch(MEMORY, {"language": "vi", "expected_revision": 0})
    # Not so short that a random token of a page could hold them.
    values = set(remembering.remembered(shop).values())
    assert values == {"zh-Hant", "whatsapp", "detailed"}
    codes = (Language.TRADITIONAL, ContactChannel.WHATSAPP, ResponseStyle.DETAILED)
    words = values | {str(code.label) for code in codes}

    profile = remembering.profile_of(shop)
    client = sign_in(shop.member)
    rows = [profile, job, *AuditEvent.objects.filter(object_kind="memory")]
    assert len(rows) >= 5
    addresses = [
        *map(page, rows),
        *(list_of(model) for model in admin.site._registry if model._meta.app_label != "auth"),
    ]
    told = {address: client.get(address).content.decode() for address in addresses}
    told["history"] = shop.shopper.get(f"{MEMORY}/history").content.decode()
    told["trail"] = json.dumps([event.data for event in AuditEvent.objects.all()], ensure_ascii=False)
    told["events"] = str(list(MemoryEvent.objects.values()))
    told["origins"] = str(list(FieldOrigin.objects.values()))
    shown = [(where, word) for where, text in told.items() for word in words if word in text]
    assert not shown
    assert "回复语言" in told[page(profile)]


def test_the_trail_says_who_decided_and_which_decisions_were_refused(shop: Shop) -> None:
    remembering.consent(shop)
    CHANGES[2](shop.shopper, 0)
    remembering.change(shop, language="en")
    remembering.clear(shop)
    trail = AuditEvent.objects.filter(object_kind="memory").order_by("pk")
    profile = str(remembering.profile_of(shop).pk)
    assert [(row.action, row.outcome, row.code, row.data) for row in trail] == [
        ("memory.set_consent", "OK", "", {"enabled": True}),
        ("memory.change", "REFUSED", "REVISION_CONFLICT", {"fields": ["language"]}),
        ("memory.change", "OK", "", {"fields": ["language"]}),
        ("memory.clear", "OK", "", {}),
    ]
    assert {(row.actor_kind, row.actor_id, row.object_id) for row in trail} == {("customer", shop.customer.pk, profile)}
