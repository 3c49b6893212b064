"""Where a question is looked for: what intents, the configuration and filters make of it, and nothing else."""

from typing import Any

import pytest

from config.knowledge import KnowledgeSettings, Route
from knowledge import routing
from knowledge.filters import NO_FILTERS, Filters
from knowledge.models import Audience
from zhifu.errors import Forbidden, Invalid
from zhifu.scope import PERMISSIONS, ActorKind, Scope

DEFAULT = KnowledgeSettings()
# Two intents share a collection, the greater first and the smaller first.
SHARED = KnowledgeSettings(
    collections={
        "small": Route(collection="faq", top_k=2),
        "large": Route(collection="faq", top_k=7),
        "medium": Route(collection="faq", top_k=4),
        "rules": Route(collection="policy", top_k=1),
    }
)
BEYOND = KnowledgeSettings(
    collections={"faq": Route(collection="faq", top_k=3), "other": Route(collection="secrets", top_k=3)}
)
STAFF_ONLY = Filters(audience=(Audience.STAFF,))
EITHER = Filters(audience=(Audience.STAFF, Audience.CUSTOMER))


def scope(kind: str, role: str) -> Scope:
    return Scope(
        tenant_id=1,
        actor_kind=kind,
        actor_id=1,
        actor_public_id=None,
        role=role,
        permissions=PERMISSIONS[role],
        store_id=1,
    )


CUSTOMER = scope(ActorKind.CUSTOMER, "customer")
MEMBER = scope(ActorKind.MEMBER, "advisor")


def route(
    *intents: str, config: KnowledgeSettings = DEFAULT, filters: Filters = NO_FILTERS, by: Scope = CUSTOMER
) -> dict[str, int]:
    return routing.route(by, config, intents, filters)


@pytest.mark.parametrize(
    ("intents", "expected"),
    [
        (["faq"], {"faq": 3}),
        (["policy_explain", "faq"], {"policy": 5, "faq": 3}),
        (["faq", "faq"], {"faq": 3}),
        (["faq", "policy_explain", "faq", "product_inquiry"], {"faq": 3, "policy": 5, "product": 5}),
        ([], {"faq": 3, "product": 5, "policy": 5, "general": 5}),
    ],
)
def test_intents_choose_collections_and_none_chooses_all(intents: list[str], expected: dict[str, int]) -> None:
    assert route(*intents) == expected


@pytest.mark.parametrize("intents", [["small", "large"], ["large", "small"], ["large", "medium", "small"]])
def test_of_two_intents_for_one_collection_the_greater_top_k_holds(intents: list[str]) -> None:
    assert route(*intents, config=SHARED) == {"faq": 7}


def test_without_an_intent_too_the_greatest_top_k_holds() -> None:
    assert route(config=SHARED) == {"faq": 7, "product": 5, "policy": 1, "general": 5}


def test_a_smaller_intent_alone_keeps_its_own_top_k() -> None:
    assert route("small", config=SHARED) == {"faq": 2}
    assert route("small", "medium", "rules", config=SHARED) == {"faq": 4, "policy": 1}


@pytest.mark.parametrize("intents", [["faq"] * 5, ["faq", "product_inquiry", "policy_explain", "faq", "unknown"]])
def test_five_intents_are_too_many_even_of_one_name(intents: list[str]) -> None:
    with pytest.raises(Invalid, match="At most 4 intents"):
        route(*intents)
    assert route(*["faq"] * 4) == {"faq": 3}


@pytest.mark.parametrize("unknown", ["unknown", "", "FAQ", "product", "secrets"])
def test_an_unknown_intent_is_refused_with_those_that_are_known(unknown: str) -> None:
    with pytest.raises(Invalid, match="known are faq, product_inquiry, policy_explain") as refused:
        route("faq", unknown)
    assert refused.value.details == {"field": "intents"}


@pytest.mark.parametrize("intents", [["other"], ["faq", "other"], []])
@pytest.mark.parametrize("filters", [NO_FILTERS, Filters(collection=("faq",)), STAFF_ONLY])
@pytest.mark.parametrize("by", [CUSTOMER, MEMBER], ids=["customer", "member"])
def test_a_configuration_that_leaves_the_whitelist_is_refused_whoever_asks_for_what(
    intents: list[str], filters: Filters, by: Scope, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Forbidden) as refused:
        route(*intents, config=BEYOND, filters=filters, by=by)
    assert refused.value.code == "COLLECTION_NOT_ALLOWED"
    assert "secrets" not in refused.value.message
    assert [record.collection for record in caplog.records] == ["secrets"]


def test_an_intent_beside_the_one_that_leaves_the_whitelist_still_serves() -> None:
    assert route("faq", config=BEYOND) == {"faq": 3}


@pytest.mark.parametrize(
    ("by", "filters", "is_searched"),
    [
        (CUSTOMER, STAFF_ONLY, False),
        (CUSTOMER, EITHER, True),
        (CUSTOMER, Filters(audience=(Audience.CUSTOMER,)), True),
        (CUSTOMER, NO_FILTERS, True),
        (MEMBER, STAFF_ONLY, True),
        (MEMBER, EITHER, True),
        (MEMBER, NO_FILTERS, True),
    ],
)
def test_only_a_customer_who_asks_for_what_staff_sees_is_not_searched_for(
    by: Scope, filters: Filters, is_searched: bool
) -> None:
    assert route("faq", filters=filters, by=by) == ({"faq": 3} if is_searched else {})


@pytest.mark.parametrize(
    ("intents", "collection", "expected"),
    [
        (["faq"], ["policy"], {}),
        (["faq", "policy_explain"], ["policy"], {"policy": 5}),
        (["faq", "policy_explain"], ["policy", "general"], {"policy": 5}),
        ([], ["general", "faq"], {"faq": 3, "general": 5}),
    ],
)
def test_a_filter_on_collections_takes_some_away_and_adds_none(
    intents: list[str], collection: list[str], expected: dict[str, Any]
) -> None:
    assert route(*intents, filters=Filters(collection=tuple(collection))) == expected


@pytest.mark.parametrize("intents", [["unknown"], ["faq"] * 5])
def test_filters_that_leave_nothing_excuse_no_mistake(intents: list[str]) -> None:
    with pytest.raises(Invalid):
        route(*intents, filters=STAFF_ONLY)
