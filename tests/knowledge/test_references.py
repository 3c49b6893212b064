"""References: a person's own pointer to what is live, over HTTP; everything wrong answers the same."""

import time
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from knowledge import references
from tests.factories import Shop, customer_client, make_customer, make_member, make_store, staff_client
from tests.knowledge.publishing import publish, publish_newest, revise, revoke
from zhifu import credentials
from zhifu.errors import NotFound
from zhifu.models import Role


def resolve(client: APIClient, token: str) -> Any:
    return client.get(f"/api/v1/knowledge-references/{token}")


def parts(token: str) -> list[str]:
    return token.split(".")


def test_a_customer_and_a_member_see_what_their_reference_points_to_and_never_its_text(shop: Shop) -> None:
    document = publish(shop, "键盘清洁", "先断开电源。", tags=("外设", "清洁"))
    for scope, client in ((shop.customer_scope, shop.shopper), (shop.staff_scope, shop.staff)):
        answer = resolve(client, references.mint(scope, document.public_id))
        assert answer.status_code == 200
        body = answer.json()
        assert datetime.fromisoformat(body.pop("updated_at")) == document.versions.get(version=1).live_from
        assert body == {
            "source_id": str(document.public_id),
            "version": 1,
            "title": "键盘清洁",
            "tags": ["外设", "清洁"],
            "collection": "faq",
        }


def test_a_reference_follows_the_live_version(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。")
    token = references.mint(shop.customer_scope, document.public_id)
    publish_newest(shop, revise(shop, document, "退货政策", "十五天。"))
    body = resolve(shop.shopper, token).json()
    assert (body["version"], body["title"]) == (2, "退货政策")


def test_everything_that_is_wrong_is_the_same_404(shop: Shop, other_shop: Shop, settings: Settings) -> None:
    document = publish(shop, "退货", "七天。")
    own = references.mint(shop.customer_scope, document.public_id)
    kind, person, source, expires, signature = parts(own)
    another = make_customer(shop.tenant)
    elsewhere = make_store(shop.tenant)
    staff_only = publish(shop, "内部", "底价。", audience="STAFF")
    gone = revoke(shop, publish(shop, "旧", "旧的。"))
    past = str(int(time.time()) - 1)
    wrong = [
        (customer_client(another, shop.store), own),
        (customer_client(shop.customer, elsewhere), own),
        (other_shop.shopper, own),
        (shop.staff, own),
        (shop.shopper, references.mint(shop.staff_scope, document.public_id)),
        (shop.shopper, references.mint(other_shop.customer_scope, document.public_id)),
        (shop.shopper, references.mint(shop.customer_scope, staff_only.public_id)),
        (shop.shopper, references.mint(shop.customer_scope, gone.public_id)),
        (shop.shopper, references.mint(shop.customer_scope, uuid4())),
        (shop.shopper, ".".join([kind, person, source, str(int(expires) + 1), signature])),
        (shop.shopper, ".".join([kind, person, source, past, signature])),
        (shop.shopper, ".".join(["kr2", person, source, expires, signature])),
        (shop.shopper, ".".join([kind, person.upper(), source, expires, signature])),
        (shop.shopper, ".".join([kind, person, source, expires.translate(FULL_WIDTH), signature])),
        (shop.shopper, own[:-1]),
        (shop.shopper, own + "x"),
        (shop.shopper, own + "%0A"),
        (shop.shopper, "kr1...."),
        (shop.shopper, "%00%ff"),
    ]
    settings.REFERENCE_SECONDS = -1
    wrong.append((shop.shopper, references.mint(shop.customer_scope, document.public_id)))
    answers = [resolve(client, token) for client, token in wrong]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    assert resolve(shop.shopper, own).status_code == 200


FULL_WIDTH = {ord(digit): chr(ord(digit) + 0xFEE0) for digit in "0123456789"}


def test_a_member_limited_to_another_store_sees_nothing_of_it(shop: Shop) -> None:
    document = publish(shop, "退货", "七天。")
    limited = make_member(shop.tenant, Role.ADVISOR, stores=(make_store(shop.tenant),))
    everywhere = make_member(shop.tenant, Role.ADVISOR)
    for member, status in ((limited, 404), (everywhere, 200)):
        client = staff_client(member)
        token = references.mint(credentials.member_scope(member), document.public_id)
        assert resolve(client, token).status_code == status


def test_old_keys_verify_while_new_ones_sign(shop: Shop, settings: Settings) -> None:
    document = publish(shop, "退货", "七天。")
    before = references.mint(shop.customer_scope, document.public_id)
    settings.REFERENCE_KEYS = ["a new key".ljust(64, "n"), *settings.REFERENCE_KEYS]
    after = references.mint(shop.customer_scope, document.public_id)
    assert parts(before)[-1] != parts(after)[-1]
    assert resolve(shop.shopper, before).status_code == resolve(shop.shopper, after).status_code == 200
    settings.REFERENCE_KEYS = settings.REFERENCE_KEYS[:1]
    assert resolve(shop.shopper, before).status_code == 404
    assert resolve(shop.shopper, after).status_code == 200


def test_the_signature_covers_the_tenant(shop: Shop, other_shop: Shop) -> None:
    token = references.mint(shop.customer_scope, uuid4())
    assert references._source(shop.customer_scope, token)
    with pytest.raises(NotFound):
        references._source(replace(shop.customer_scope, tenant_id=other_shop.tenant.pk), token)


def test_nobody_signed_in_is_told_so(shop: Shop) -> None:
    assert resolve(APIClient(), "kr1.x").status_code == 401


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(token=st.text() | st.lists(st.text(max_size=8), min_size=5, max_size=5).map(".".join))
def test_any_text_may_be_a_token_and_finds_nothing(shop: Shop, token: str) -> None:
    with pytest.raises(NotFound):
        references.resolve(shop.customer_scope, token)


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(place=st.integers(0, 200), sign=st.characters(min_codepoint=33, max_codepoint=126))
def test_a_token_changed_anywhere_is_not_genuine(shop: Shop, place: int, sign: str) -> None:
    token = references.mint(shop.customer_scope, UUID(int=7, version=4))
    place %= len(token)
    changed = token[:place] + sign + token[place + 1 :]
    if changed != token:
        with pytest.raises(NotFound):
            references._source(shop.customer_scope, changed)
