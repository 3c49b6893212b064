"""Milvus through its one door: filters, both legs, builds, and what goes wrong."""

import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil
import pytest
from django.conf import settings as django_settings
from pymilvus import MilvusClient, MilvusException
from pytest_django.fixtures import Settings

from knowledge import milvus, vectors
from knowledge.models import IndexTarget
from knowledge.vectors import VectorRow
from knowledge.where import Where
from tests import servers
from tests.fakes import DIMENSION, HashingEncoder
from zhifu.errors import DimensionMismatch, Unavailable

ENCODER = HashingEncoder()
_tenants = count(900_000_000)


@pytest.fixture(scope="module")
def target() -> Iterator[IndexTarget]:
    made = target_named("vectors")
    vectors.ensure_collection(made)
    yield made
    vectors.drop_collection(made)


@pytest.fixture
def tenant() -> int:
    return next(_tenants)


@pytest.fixture
def private_milvus(tmp_path: Path, settings: Settings) -> Iterator[subprocess.Popen]:
    """A milvus-lite server of this test's own, which settings.MILVUS_URL names."""
    with ExitStack() as stack:
        port = servers.free_port()
        process = start_milvus(tmp_path, port, stack)
        settings.MILVUS_URL = f"http://127.0.0.1:{port}"
        yield process


def start_milvus(folder: Path, port: int, stack: ExitStack) -> subprocess.Popen:
    program = Path(servers.sys.executable).parent / "milvus-lite"
    arguments = [str(program), "server", "--data-dir", str(folder / "milvus"), "--host", "127.0.0.1"]
    return servers.start([*arguments, "--port", str(port)], port, folder, stack)


def target_named(name: str, dimension: int = DIMENSION) -> IndexTarget:
    return IndexTarget(
        collection="faq",
        model="hashing",
        revision="1",
        dimension=dimension,
        physical_name=f"{django_settings.MILVUS_PREFIX}test_{name}",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def vector_of(text: str) -> np.ndarray:
    return ENCODER.encode([text], "query")[0]


def row(tenant: int, document: int, text: str, **values: object) -> VectorRow:
    made = VectorRow(
        tenant=tenant,
        store=1,
        document=document,
        version=1,
        build="7-ab",
        position=0,
        collection="faq",
        source_type="manual",
        audience="CUSTOMER",
        entity_ref="",
        tags=(),
        updated_at=1_700_000_000,
        text=text,
        vector=vector_of(text),
    )
    return replace(made, **values)


def write(target: IndexTarget, *rows: VectorRow) -> None:
    vectors.upsert(target, rows, deadline=time.monotonic() + 10)


def by_meaning(target: IndexTarget, tenant: int, text: str, **where: object) -> list[int]:
    scope = Where(**({"tenant_id": tenant, "store_id": 1, "customers_only": True} | where))
    found = vectors.dense_search(target, vector_of(text), scope, limit=30, timeout=5)
    return [hit.document_id for hit in found]


def by_words(target: IndexTarget, tenant: int, text: str, **where: object) -> list[int]:
    scope = Where(**({"tenant_id": tenant, "store_id": 1, "customers_only": True} | where))
    found = vectors.keyword_search(target, text, scope, limit=30, timeout=5).hits(vector_of(text))
    return [hit.document_id for hit in found]


def count_of(target: IndexTarget, tenant: int, document: int, build: str = "7-ab") -> int:
    return vectors.count_build(target, tenant_id=tenant, document_id=document, build=build)


@pytest.mark.parametrize("search", [by_meaning, by_words])
def test_both_legs_see_only_the_tenant_the_store_and_the_audience_asked_for(target, tenant, search) -> None:
    text = "键盘怎么清洁 keyboard"
    write(
        target,
        row(tenant, 1, text),
        row(tenant, 2, text, store=2),
        row(tenant, 3, text, audience="STAFF"),
        row(next(_tenants), 4, text),
    )
    assert search(target, tenant, text) == [1]
    assert sorted(search(target, tenant, text, customers_only=False)) == [1, 3]
    assert search(target, tenant, text, store_id=2) == [2]
    assert search(target, tenant + 50_000_000, text) == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("退货政策：七天无理由退货，运费自理。", "怎么退货"),
        ("Returns are free within seven days.", "how do RETURNS work"),
        ("介绍 Transformer 中的多头注意力机制", "Transformer中多头注意力"),
        ("我们的知识库用 rerank 精排模型", "我们最近配置的rerank精排是什么模型"),
        ("maxkb 是一个知识库系统", "请问什么是 maxkb"),
        ("传感器-温度-TH01 的接线方法", "TH01"),
        ("传感器-温度-TH01 的接线方法", "ｔｈ０１"),
        ("型号 A-100/B 的配件", "A-100/B"),
        ("订单 #8821 已发出", "#8821"),
        ("客服电话 400-820-8820", "400-820-8820"),
    ],
)
def test_the_keyword_leg_alone_finds_chinese_english_mixed_text_and_codes(target, tenant, text, query) -> None:
    write(target, row(tenant, 1, text), row(tenant, 2, "与此无关的一段话"))
    assert by_words(target, tenant, query)[:1] == [1]


HOSTILE = [
    "-" * 33,
    '"',
    "\\",
    "()",
    "AND OR NOT",
    "*",
    "😀😀",
    "a",
    "退",
    "   ",
    "\u200f\u202e",
    'tenant"] != "" or metadata["x',
    '"] or tenant > 0 or build in ["',
    "' OR 1=1 --",
    "{tenant}",
    "%",
    "键盘" * 1000,
    "k" * 2000,
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_queries_are_plain_text_and_never_widen_the_filter(target, tenant, query) -> None:
    write(target, row(tenant, 1, "键盘怎么清洁"), row(next(_tenants), 2, f"键盘 {query[:500]}"))
    assert 2 not in by_words(target, tenant, query)
    assert by_meaning(target, tenant, query) == [1]


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_strings_of_people_are_stored_as_numbers(target, tenant, word) -> None:
    write(target, row(tenant, 1, f"退货 {word[:500]}", entity_ref=word[:128], tags=(word[:64], "其他")))
    assert by_words(target, tenant, "退货") == [1]


def test_the_keyword_leg_knows_the_cosine_of_what_it_found(target, tenant) -> None:
    write(target, row(tenant, 1, "键盘怎么清洁"))
    scope = Where(tenant_id=tenant, store_id=1, customers_only=True)
    (dense,) = vectors.dense_search(target, vector_of("键盘"), scope, limit=5, timeout=5)
    (keyword,) = vectors.keyword_search(target, "键盘", scope, limit=5, timeout=5).hits(vector_of("键盘"))
    assert keyword.cosine == pytest.approx(dense.cosine, abs=1e-4)
    assert keyword.score > 0
    assert keyword.key == dense.key == (1, 1, "7-ab", 0)


def test_the_better_match_has_the_higher_keyword_score(target, tenant) -> None:
    write(target, row(tenant, 1, "键盘清洁：断开电源，清洁键盘"), row(tenant, 2, "键盘与其他许多配件的清单和价格说明"))
    scope = Where(tenant_id=tenant, store_id=1, customers_only=True)
    found = vectors.keyword_search(target, "键盘清洁", scope, limit=5, timeout=5).hits(vector_of("键盘"))
    assert [hit.document_id for hit in found] == [1, 2]
    assert found[0].score > found[1].score


def test_writing_a_row_again_replaces_it_and_a_repeated_id_in_one_call_counts_once(target, tenant) -> None:
    write(target, row(tenant, 1, "旧的说明"), row(tenant, 1, "新的说明"))
    write(target, row(tenant, 1, "新的说明"))
    assert count_of(target, tenant, 1) == 1
    assert by_words(target, tenant, "新的") == [1]


def test_exactly_the_named_builds_are_removed(target, tenant) -> None:
    write(target, *[row(tenant, 1, "文本", build=build) for build in ("7-ab", "8-cd", "9-ef")], row(tenant, 2, "文本"))
    vectors.remove_builds(target, tenant_id=tenant, document_id=1, builds=["7-ab", "8-cd"])
    vectors.remove_builds(target, tenant_id=tenant, document_id=1, builds=[])
    assert [count_of(target, tenant, 1, build) for build in ("7-ab", "8-cd", "9-ef")] == [0, 0, 1]
    assert count_of(target, tenant, 2) == 1


def test_a_build_that_is_no_build_reaches_no_filter(target, tenant) -> None:
    with pytest.raises(ValueError, match="not a build"):
        vectors.remove_builds(target, tenant_id=tenant, document_id=1, builds=['x"] or tenant > 0 or build in ["'])


def test_a_text_longer_than_its_column_is_cut_between_characters(target, tenant) -> None:
    write(target, row(tenant, 1, "键盘" + "字" * 5000))
    assert by_words(target, tenant, "键盘") == [1]


def test_a_vector_of_another_dimension_is_a_mismatch_and_not_an_outage(target, tenant) -> None:
    short = np.ones(DIMENSION - 1, dtype=np.float32)
    with pytest.raises(DimensionMismatch):
        write(target, row(tenant, 1, "文本", vector=short))
    scope = Where(tenant_id=tenant, store_id=1, customers_only=True)
    with pytest.raises(DimensionMismatch):
        vectors.dense_search(target, short, scope, limit=5, timeout=5)
    # The row of the target lies about the physical collection.
    lying = target_named("vectors", DIMENSION - 1)
    with pytest.raises(DimensionMismatch):
        vectors.ensure_collection(lying)
    write(target, row(tenant, 1, "文本"))
    with pytest.raises(DimensionMismatch):
        write(lying, row(tenant, 1, "文本", vector=short))
    with pytest.raises(DimensionMismatch):
        vectors.dense_search(lying, short, scope, limit=5, timeout=5)


def test_a_collection_that_does_not_exist_is_empty_and_cannot_be_written(tenant) -> None:
    nowhere = target_named("nowhere")
    assert by_meaning(nowhere, tenant, "键盘") == by_words(nowhere, tenant, "键盘") == []
    assert count_of(nowhere, tenant, 1) == 0
    vectors.remove_builds(nowhere, tenant_id=tenant, document_id=1, builds=["7-ab"])
    vectors.drop_collection(nowhere)
    with pytest.raises(Unavailable) as failure:
        write(nowhere, row(tenant, 1, "文本"))
    assert failure.value.code == "MILVUS_UNAVAILABLE"


def test_several_may_ensure_a_collection_at_once() -> None:
    wanted = target_named("at_once")
    failures: list[Exception] = []

    def ensure() -> None:
        try:
            vectors.ensure_collection(wanted)
        except Exception as error:  # noqa: BLE001  # whatever it is, the test shows it
            failures.append(error)

    threads = [threading.Thread(target=ensure) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    vectors.drop_collection(wanted)


def test_a_new_collection_that_does_not_find_chinese_by_words_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    create = MilvusClient.create_collection

    def with_another_analyzer(client: MilvusClient, name: str, *, schema: Any, **values: Any) -> None:
        text = next(field for field in schema.fields if field.name == "text")
        text.params["analyzer_params"] = {"tokenizer": "standard"}
        create(client, name, schema=schema, **values)

    monkeypatch.setattr(MilvusClient, "create_collection", with_another_analyzer)
    other = target_named("test_vectors_deaf")
    with pytest.raises(Unavailable) as refused:
        vectors.ensure_collection(other)
    assert refused.value.code == "KEYWORD_SEARCH_BROKEN"
    monkeypatch.undo()
    vectors.ensure_collection(other)
    vectors.drop_collection(other)


def test_a_collection_whose_making_was_cut_short_is_finished(monkeypatch: pytest.MonkeyPatch, tenant: int) -> None:
    def cut(*_: Any, **__: Any) -> None:
        raise MilvusException(message="the connection broke")

    made = target_named("test_vectors_half_made")
    with monkeypatch.context() as patch:
        patch.setattr(MilvusClient, "create_index", cut)
        with pytest.raises(Unavailable):
            vectors.ensure_collection(made)
    vectors.ensure_collection(made)
    write(made, row(tenant, 1, "键盘"))
    assert by_words(made, tenant, "键盘") == [1]
    vectors.drop_collection(made)


def test_sealing_changes_nothing_but_speed(target, tenant) -> None:
    write(target, row(tenant, 1, "键盘"))
    vectors.finish_writing(target)
    assert by_words(target, tenant, "键盘") == [1]
    assert count_of(target, tenant, 1) == 1


def test_an_address_where_nobody_answers_is_unavailable_at_once_and_the_log_says_why_once(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.MILVUS_URL = f"http://127.0.0.1:{servers.free_port()}"
    milvus._said.clear()
    before = time.monotonic()
    with pytest.raises(Unavailable) as failure:
        vectors.ping()
    assert failure.value.code == "MILVUS_UNAVAILABLE"
    assert time.monotonic() - before < 4
    with pytest.raises(Unavailable):
        vectors.ping()
    (record,) = [
        record for record in caplog.records if record.name == "knowledge.milvus" and record.levelname != "DEBUG"
    ]
    assert "MilvusException" in record.cause


class Forwarder:
    """Passes one connection at a time on to a server, and cuts it when told to, once the next call is under way."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self.connections = 0
        self.cuts_left = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _address = self._door.accept()
            except OSError:
                return
            self.connections += 1
            with client, socket.create_connection(("127.0.0.1", self._port)) as server:
                self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            ready, _, _ = select.select([client, server], [], [])
            for one in ready:
                data = one.recv(65536)
                if one is client and self.cuts_left:
                    self.cuts_left -= 1
                    return
                if not data:
                    return
                (server if one is client else client).sendall(data)

    def close(self) -> None:
        self._door.close()


@pytest.fixture
def forwarder(settings: Settings) -> Iterator[Forwarder]:
    made = Forwarder(urlsplit(settings.MILVUS_URL).port or 0)
    settings.MILVUS_URL = f"http://127.0.0.1:{made.port}"
    yield made
    made.close()


def test_a_call_whose_connection_breaks_is_made_again_once(forwarder: Forwarder) -> None:
    vectors.ping()
    assert forwarder.connections == 1
    forwarder.cuts_left = 1
    vectors.ping()
    assert forwarder.connections == 2
    forwarder.cuts_left = 2
    with pytest.raises(Unavailable):
        vectors.ping()


def test_a_collection_that_is_not_there_yet_is_no_news_for_the_log(caplog: pytest.LogCaptureFixture) -> None:
    made = target_named("never_written")
    tenant = next(_tenants)
    vector = ENCODER.encode(["x"], "query")[0]
    assert vectors.dense_search(made, vector, Where(tenant, 1, False), limit=3, timeout=2.0) == []
    assert not [record for record in caplog.records if record.name == "knowledge.milvus"]


def test_an_address_that_accepts_and_says_nothing_is_unavailable_within_the_timeout(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.MILVUS_URL = f"http://127.0.0.1:{silent.getsockname()[1]}"
        before = time.monotonic()
        with pytest.raises(Unavailable):
            vectors.ping()
        assert time.monotonic() - before < 4


@pytest.mark.faults
def test_a_server_that_hangs_or_is_killed_and_comes_back_goes_on_where_it_was(
    private_milvus: subprocess.Popen, settings: Settings, tmp_path: Path, tenant: int
) -> None:
    target = target_named("private")
    vectors.ensure_collection(target)
    write(target, row(tenant, 1, "键盘"))
    assert by_words(target, tenant, "键盘") == [1]

    private_milvus.send_signal(signal.SIGSTOP)
    wait_until(lambda: psutil.Process(private_milvus.pid).status() == psutil.STATUS_STOPPED)
    before = time.monotonic()
    with pytest.raises(Unavailable):
        vectors.ping()
    assert time.monotonic() - before < 4
    private_milvus.send_signal(signal.SIGCONT)
    assert by_words(target, tenant, "键盘") == [1]

    private_milvus.kill()
    private_milvus.wait()
    with pytest.raises(Unavailable):
        vectors.ping()
    # It comes back with its data and without having loaded anything.
    with ExitStack() as stack:
        start_milvus(tmp_path, int(settings.MILVUS_URL.rpartition(":")[2]), stack)
        wait_until(lambda: by_words(target, tenant, "键盘") == [1])
        assert count_of(target, tenant, 1) == 1


def wait_until(condition) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            if condition():
                return
        except Unavailable:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.1)
