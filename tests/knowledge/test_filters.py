"""Filters: what they refuse, what Milvus is told, and that they only take away what a plain predicate would."""

import random
import re
import time
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import hypothesis
import pytest
from django.apps import apps
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from knowledge import retrieval, targets, vectors
from knowledge.filters import NO_FILTERS, Filters
from knowledge.models import Audience, Collection, DocumentVersion, KnowledgeDocument, SourceType, VersionTag
from knowledge.results import DegradationReason, SearchResult
from knowledge.where import Where
from tests import servers
from tests.factories import Shop
from tests.knowledge.publishing import draft, publish, publish_newest, revise
from tests.knowledge.test_vectors import row, vector_of
from zhifu.errors import Invalid
from zhifu.scope import Scope
from zhifu.transactions import database_now

QUESTION = "键盘"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def everything_counts(settings: Settings) -> None:
    """No threshold, and as many of each collection as a search may give."""
    routes = {name: {"collection": name, "top_k": 20} for name in Collection.values}
    settings.KNOWLEDGE = {"similarity_threshold": 0.0, "collections": routes}


def search(scope: Scope, **filters: Any) -> SearchResult:
    return retrieval.search(scope, QUESTION, filters=Filters(**filters), limit=20)


def titles(result: SearchResult) -> list[str]:
    return sorted(passage.title for passage in result.passages)


def live_since(document: KnowledgeDocument, moment: datetime) -> None:
    DocumentVersion.objects.filter(document=document, version=document.live_version).update(live_from=moment)


def put_in_index(document: KnowledgeDocument, **values: Any) -> None:
    """Overwrite the document's vectors with rows that say `values`."""
    target = targets.active_target("faq")
    text = document.versions.get(version=document.live_version).source_text
    known = {"store": document.store_id, "build": document.live_build}
    vectors.upsert(
        target,
        [row(document.tenant_id, document.pk, text, **(known | values))],
        deadline=time.monotonic() + 5,
    )


def lose(document: KnowledgeDocument) -> None:
    vectors.remove_builds(
        targets.active_target("faq"),
        tenant_id=document.tenant_id,
        document_id=document.pk,
        builds=[document.live_build],
    )


# --- What is refused ---
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source_type", ("mail",)),
        ("source_type", ("manual", "MANUAL")),
        ("collection", ("fin_faq_collection",)),
        ("audience", ("customer",)),
        ("audience", ("",)),
        ("entity_ref", ("",)),
        ("entity_ref", (" A-1",)),
        ("entity_ref", ("a\0b",)),
        ("tags", ("\u3000",)),
        ("tags", ("\u200b",)),
        ("tags", ("\ud800",)),
        ("tags", tuple(map(str, range(21)))),
        ("all_tags", ("新品", "")),
        ("updated_after", datetime(2026, 5, 1)),  # noqa: DTZ001  # what is refused
        ("updated_before", datetime(2026, 5, 1)),  # noqa: DTZ001  # as above
    ],
)
def test_a_value_that_says_nothing_is_refused_with_its_field(field: str, value: Any) -> None:
    with pytest.raises(Invalid) as refused:
        Filters(**{field: value})
    assert refused.value.details["field"] == field


@pytest.mark.parametrize("later", [timedelta(0), HOUR])
def test_a_time_that_ends_before_it_begins_is_refused(later: timedelta) -> None:
    with pytest.raises(Invalid) as refused:
        Filters(updated_after=NOON + later, updated_before=NOON)
    assert refused.value.details["field"] == "updated_before"


# --- What Milvus is told ---
PLAIN = Where(tenant_id=1, store_id=2, customers_only=True)
_EXPRESSION = re.compile(
    r"""(tenant|store)\ ==\ \d+ | (audience|source_type)\ in\ \[("(CUSTOMER|STAFF|manual|file|web)"(,\ )?)*\]
    | entity\ in\ \[(-?\d+(,\ )?)+\] | array_contains_(any|all)\(tags,\ \[(-?\d+(,\ )?)+\]\)
    | updated_at\ (>=|<)\ -?\d+""",
    re.VERBOSE,
)
_NAMES = st.text(min_size=1, max_size=64).map(str.strip).filter(lambda name: _is_name(name))


def _is_name(name: str) -> bool:
    try:
        Filters(tags=(name,))
    except Invalid:
        return False
    return True


def any_filters(names: st.SearchStrategy[str], moments: st.SearchStrategy[datetime]) -> st.SearchStrategy[Filters]:
    def some(values: Any) -> Any:
        # Most fields not asked for: else hardly anything is left.
        return st.just(()) | st.just(()) | st.lists(values, min_size=1, max_size=3, unique=True).map(tuple)

    def made(period: tuple[datetime | None, datetime | None], values: dict[str, Any]) -> Filters:
        first, last = period
        if first and last and first >= last:
            first, last = last, first + timedelta(microseconds=1)
        return Filters(**values, updated_after=first, updated_before=last)

    fields = {
        "source_type": some(st.sampled_from(SourceType.values)),
        "entity_ref": some(names),
        "tags": some(names),
        "all_tags": some(names),
        "collection": some(st.sampled_from(Collection.values)),
        "audience": some(st.sampled_from(Audience.values)),
    }
    return st.builds(made, st.tuples(st.none() | moments, st.none() | moments), st.fixed_dictionaries(fields))


@given(any_filters(_NAMES, st.datetimes(timezones=st.just(UTC))), st.booleans())
def test_milvus_is_told_numbers_and_known_words_only(filters: Filters, customers_only: bool) -> None:
    expression = Where(tenant_id=1, store_id=2, customers_only=customers_only, filters=filters).expression
    assert all(_EXPRESSION.fullmatch(term) for term in expression.split(" and "))
    assert expression.startswith("tenant == 1 and store == 2 and audience in [")
    assert not customers_only or "STAFF" not in expression


def test_no_filters_leave_the_expression_as_it_is() -> None:
    assert PLAIN.expression == 'tenant == 1 and store == 2 and audience in ["CUSTOMER"]'


def hits(scope: Shop, **filters: Any) -> set[int]:
    """Return the documents that the index itself proposes."""
    where = Where(tenant_id=scope.tenant.pk, store_id=scope.store.pk, customers_only=False, filters=Filters(**filters))
    target = targets.active_target("faq")
    dense = vectors.dense_search(target, vector_of(QUESTION), where, limit=30, timeout=5)
    words = vectors.keyword_search(target, QUESTION, where, limit=30, timeout=5).hits(vector_of(QUESTION))
    assert {hit.document_id for hit in dense} == {hit.document_id for hit in words}
    return {hit.document_id for hit in dense}


def test_the_index_itself_filters_before_it_ranks(shop: Shop) -> None:
    one = publish(shop, "一", "键盘一", tags=("新品", "外设"), entity_ref="A-1", source_type="web").pk
    two = publish(shop, "二", "键盘二", tags=("外设",), entity_ref="A-2").pk
    three = publish(shop, "三", "键盘三", audience="STAFF").pk
    assert hits(shop) == {one, two, three}
    assert hits(shop, tags=("外设",)) == {one, two}
    assert hits(shop, tags=("新品", "没有")) == {one}
    assert hits(shop, all_tags=("外设", "新品")) == {one}
    assert hits(shop, all_tags=("外设", "没有")) == set()
    assert hits(shop, entity_ref=("A-2", "A-3")) == {two}
    assert hits(shop, source_type=("web", "file")) == {one}
    assert hits(shop, audience=("STAFF",)) == {three}


def test_the_index_filters_by_moments_with_an_hour_to_spare(shop: Shop) -> None:
    document = publish(shop, "一", "键盘一")
    put_in_index(document, updated_at=int(NOON.timestamp()))
    for bounds, found in (
        ({"updated_after": NOON + HOUR}, True),
        ({"updated_after": NOON + HOUR + timedelta(seconds=1)}, False),
        ({"updated_before": NOON - HOUR + timedelta(seconds=1)}, True),
        ({"updated_before": NOON - HOUR}, False),
    ):
        assert hits(shop, **bounds) == ({document.pk} if found else set()), bounds


# --- What MySQL says of it ---
def test_equal_hashes_of_other_strings_are_told_apart_by_the_strings(shop: Shop) -> None:
    document = publish(shop, "一", "键盘一", tags=("甲",), entity_ref="A-1")
    # As if 甲 and 乙, A-1 and A-2 had the same hash.
    put_in_index(document, tags=("乙",), entity_ref="A-2")
    assert hits(shop, tags=("乙",), entity_ref=("A-2",)) == {document.pk}
    for filters in ({"tags": ("乙",)}, {"all_tags": ("乙",)}, {"entity_ref": ("A-2",)}):
        result = search(shop.customer_scope, **filters)
        assert (titles(result), result.degraded) == ([], False)


@pytest.mark.parametrize("written", [timedelta(0), -50 * timedelta(minutes=1), 50 * timedelta(minutes=1)])
def test_moments_are_exact_whatever_the_clock_of_the_worker_said(shop: Shop, written: timedelta) -> None:
    document = publish(shop, "一", "键盘一")
    moment = NOON + timedelta(microseconds=500)
    live_since(document, moment)
    put_in_index(document, updated_at=int((moment + written).timestamp()))
    tick = timedelta(microseconds=1)
    for bounds, found in (
        ({"updated_after": moment}, ["一"]),
        ({"updated_after": moment + tick}, []),
        ({"updated_before": moment}, []),
        ({"updated_before": moment + tick}, ["一"]),
        ({"updated_after": moment, "updated_before": moment + tick}, ["一"]),
    ):
        result = search(shop.customer_scope, **bounds)
        assert (titles(result), result.degraded) == (found, False), bounds


def test_a_filter_sees_what_is_live_and_not_the_draft(shop: Shop) -> None:
    document = publish(shop, "旧", "键盘旧", tags=("旧",))
    revise(shop, document, "新", "键盘新", tags=("新",))
    assert titles(search(shop.customer_scope, tags=("旧",))) == ["旧"]
    assert titles(search(shop.customer_scope, tags=("新",))) == []
    publish_newest(shop, document)
    assert titles(search(shop.customer_scope, tags=("旧",))) == []
    assert titles(search(shop.customer_scope, tags=("新",))) == ["新"]


# --- An index that lost something ---
def test_what_is_lost_under_a_filter_counts_as_unavailable_and_nothing_else_does(shop: Shop) -> None:
    lost = publish(shop, "一", "键盘一", tags=("甲",))
    publish(shop, "二", "键盘二", tags=("乙",))
    live_since(lost, database_now() - HOUR)
    lose(lost)
    assert not search(shop.customer_scope, tags=("乙",)).degraded
    assert not search(shop.customer_scope, tags=("丙",)).degraded
    result = search(shop.customer_scope, tags=("甲",))
    assert (titles(result), result.degradation_reason) == (["一"], DegradationReason.MILVUS_UNAVAILABLE)


@pytest.mark.parametrize("bound", ["updated_after", "updated_before"])
def test_what_the_index_gives_beside_a_time_does_not_hide_what_it_lost(shop: Shop, bound: str) -> None:
    lost, beside = publish(shop, "一", "键盘一"), publish(shop, "二", "键盘二")
    now = database_now()
    early, late = now - timedelta(minutes=40), now - timedelta(minutes=20)
    live_since(lost, late if bound == "updated_after" else early)
    live_since(beside, early if bound == "updated_after" else late)
    between = {bound: now - timedelta(minutes=30)}
    assert titles(search(shop.customer_scope, **between)) == ["一"]
    lose(lost)
    result = search(shop.customer_scope, **between)
    assert (titles(result), result.degradation_reason) == (["一"], DegradationReason.MILVUS_UNAVAILABLE)


def test_what_went_live_while_milvus_was_asked_is_not_missed_under_a_time(shop: Shop) -> None:
    publish(shop, "一", "键盘一")
    new = publish(shop, "二", "键盘二")
    lose(new)
    result = search(shop.customer_scope, updated_after=database_now() - HOUR)
    assert (titles(result), result.degraded) == (["一"], False)


# --- Tags as rows ---
def tags_as_rows() -> dict[int, list[str]]:
    rows: dict[int, list[str]] = {version: [] for version in DocumentVersion.objects.values_list("pk", flat=True)}
    for version, tag in VersionTag.objects.values_list("document_version_id", "tag"):
        rows[version].append(tag)
    return {version: sorted(tags) for version, tags in rows.items()}


def tags_as_shown() -> dict[int, list[str]]:
    return {version: sorted(tags) for version, tags in DocumentVersion.objects.values_list("pk", "tags")}


def test_every_version_is_written_with_the_rows_of_its_tags(shop: Shop) -> None:
    document = draft(shop, "一", "键盘一", tags=("新品", "外设"))
    revise(shop, document, "一", "键盘一", tags=("😀", "外设", 'a"b\\'))
    draft(shop, "二", "键盘二")
    assert tags_as_rows() == tags_as_shown()
    assert sorted(map(len, tags_as_rows().values())) == [0, 2, 3]


def test_versions_from_before_get_the_rows_of_their_tags(shop: Shop) -> None:
    for number in range(3):
        draft(shop, "一", "键盘一", tags=(f"标签{number}", "😀"))
    VersionTag.objects.exclude(tag="标签1").delete()
    fill = import_module("knowledge.migrations.0003_tags_of_versions").fill
    for _again in range(2):
        fill(apps, None)
        assert tags_as_rows() == tags_as_shown()


# --- The same as filtering afterwards ---
_TAGS = ["新品", "外设", "😀", 'x" or tenant == 1', "外设2"]
_ENTITIES = ["A-1", "A-2", "a-1", "Ａ-1"]
# Of different words, so that none counts as a repetition of another.
_MATTERS = ["退货期限", "清洁方法", "价格表", "保修条款", "驱动下载", "颜色选择", "发货时间", "接线图", "耗材", "培训"]


def admits(filters: Filters, version: DocumentVersion) -> bool:
    """Filters, said once more, plainly."""
    fields = ("source_type", "entity_ref", "collection", "audience")
    return (
        all(getattr(version, field) in getattr(filters, field) for field in fields if getattr(filters, field))
        and (not filters.tags or bool(set(filters.tags) & set(version.tags)))
        and set(filters.all_tags) <= set(version.tags)
        and (filters.updated_after is None or version.live_from >= filters.updated_after)
        and (filters.updated_before is None or version.live_from < filters.updated_before)
    )


def publish_random(shop: Shop, chance: random.Random, moments: list[datetime]) -> None:
    for number, matter in enumerate(_MATTERS):
        document = publish(
            shop,
            f"{number}",
            f"键盘：{matter}",
            collection=chance.choice(Collection.values),
            source_type=chance.choice(SourceType.values),
            entity_ref=chance.choice([*_ENTITIES, ""]),
            tags=tuple(chance.sample(_TAGS, chance.randrange(len(_TAGS)))),
            audience=chance.choice(Audience.values),
        )
        live_since(document, chance.choice(moments))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("milvus", ["up", "down"])
def test_a_filtered_search_is_the_search_filtered_afterwards(
    shop: Shop, settings: Settings, seed: int, milvus: str
) -> None:
    now = database_now()
    moments = [now - timedelta(minutes=minutes) for minutes in (10, 20, 30)]
    publish_random(shop, random.Random(seed), moments)  # noqa: S311  # no secret
    if milvus == "down":
        settings.MILVUS_URL = f"http://127.0.0.1:{servers.free_port()}"

    def found(scope: Scope, filters: Filters) -> set[int]:
        result = retrieval.search(scope, QUESTION, filters=filters, limit=20)
        assert result.degraded == (milvus == "down")
        return {passage.document_id for passage in result.passages}

    scopes = (shop.customer_scope, shop.staff_scope)
    everything = {scope: found(scope, NO_FILTERS) for scope in scopes}
    assert len(everything[shop.staff_scope]) == len(_MATTERS)
    versions = {version.document_id: version for version in DocumentVersion.objects.filter(document__store=shop.store)}
    limits = st.sampled_from([*moments, *(moment + timedelta(microseconds=1) for moment in moments)])

    @hypothesis.settings(max_examples=40)
    @given(any_filters(st.sampled_from([*_TAGS, *_ENTITIES]), limits))
    def same(filters: Filters) -> None:
        for scope in scopes:
            wanted = {document for document in everything[scope] if admits(filters, versions[document])}
            impossible = scope.is_customer and filters.audience == (Audience.STAFF,)
            assert (set() if impossible else found(scope, filters)) == wanted

    same()
