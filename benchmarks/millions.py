"""Millions of chunk rows, as a platform of many tenants has them after some years, written by the database itself.

Each document has two archived versions and a live one, written at different times, so that what belongs together lies
apart. One tenant has a store with 15 % of all documents and one with 3 %, nearly all of them of one collection; the
others have stores of about 63 documents each. One document in ten is for staff. MariaDB only; no vector store.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection

from benchmarks import setting
from zhifu.scope import PERMISSIONS, ActorKind, Scope

VERSIONS = 3
CHUNKS_PER_VERSION = 8
LARGE_STORE, MIDDLE_STORE, SMALL_STORE = 1, 2, 3
_DOCUMENTS_PER_STORE = 63
_DOCUMENTS_AT_ONCE = 5000
_TABLES = ("knowledgedocument", "documentversion", "knowledgechunk", "versiontag")

_DOCUMENTS = """
INSERT INTO knowledge_knowledgedocument
    (id, public_id, version, status, live_version, live_build, created_at, updated_at, store_id, tenant_id)
SELECT seq, UUID(), {versions}, 'PUBLISHED', {versions}, CONCAT('0-', LPAD(HEX(seq), 32, '0')),
    '2026-01-01', '2026-01-01', @store := CASE
        WHEN seq % 20 < 3 THEN {large}
        WHEN seq % 100 < 6 THEN {middle}
        ELSE {small} + seq * 7919 % {stores}
    END, IF(@store < {small}, 1, 2 + @store DIV 2)
FROM seq_1_to_{documents}
"""
_A_VERSION = """
INSERT INTO knowledge_documentversion
    (version, title, source_text, collection, source_type, entity_ref, tags, audience, content_hash, status,
    live_from, live_until, created_at, document_id)
SELECT {version},
    CONCAT(ELT(1 + CRC32(CONCAT('s', id)) % 10, {subjects}), ELT(1 + CRC32(CONCAT('a', id)) % 10, {actions})), '略',
    IF(store_id < {small} AND CRC32(id) % 500 > 3, 'product',
        ELT(1 + CRC32(id) % 4, 'faq', 'product', 'policy', 'general')),
    'manual', '', '[]', IF(CRC32(CONCAT('c', id)) % 10 = 0, 'STAFF', 'CUSTOMER'), SHA2(id, 256),
    IF({version} = {versions}, 'PUBLISHED', 'ARCHIVED'), '2026-01-01', IF({version} = {versions}, NULL, '2026-01-02'),
    '2026-01-01', id
FROM knowledge_knowledgedocument
"""
# About 420 characters each.
_CHUNKS = """
INSERT INTO knowledge_knowledgechunk (position, text, start, end, embedded_hash, document_version_id)
SELECT seq, CONCAT(title, document_id, '号', seq, '：', REPEAT('请先关闭电源，再用软布擦拭表面。', 25)),
    0, 1, SHA2(CONCAT(document_id, seq), 256), id
FROM knowledge_documentversion JOIN seq_0_to_{last_position}
WHERE version = {version} AND document_id BETWEEN {first} AND {first} + {at_once} - 1 ORDER BY id, seq
"""


@dataclass(frozen=True)
class Schema:
    """A database that holds the tables of knowledge, with about `rows` chunks."""

    name: str
    rows: int

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have this connection's queries go to this schema."""
        old = connection.settings_dict["NAME"]
        _run(f"USE `{self.name}`")
        try:
            yield
        finally:
            _run(f"USE `{old}`")


def schemas(few: int, many: int) -> tuple[Schema, Schema]:
    """Return two filled schemas, with `few` and with `many` chunk rows: one beside the present database, and it."""
    large = Schema(connection.settings_dict["NAME"], many)
    small = Schema(f"{large.name}_small", few)
    # The pool must hold what is read again and again, as that of any server which is not too small.
    _run("SET GLOBAL innodb_buffer_pool_size = 6 * 1024 * 1024 * 1024")
    _run(f"CREATE OR REPLACE DATABASE `{small.name}`")
    for table in _TABLES:
        _run(f"CREATE TABLE `{small.name}`.knowledge_{table} LIKE `{large.name}`.knowledge_{table}")
    for schema in (small, large):
        with schema.in_use():
            _fill(schema.rows // (VERSIONS * CHUNKS_PER_VERSION))
    return small, large


def customer_at(store: int) -> Scope:
    """Return the scope of a customer at one of the three stores above."""
    return Scope(
        tenant_id=1 if store < SMALL_STORE else 2 + store // 2,
        actor_kind=ActorKind.CUSTOMER,
        actor_id=0,
        actor_public_id=None,
        role="customer",
        permissions=PERMISSIONS["customer"],
        store_id=store,
    )


def _fill(documents: int) -> None:
    words = {"subjects": _listed(setting.SUBJECTS), "actions": _listed(setting.ACTIONS)}
    stores = {"large": LARGE_STORE, "middle": MIDDLE_STORE, "small": SMALL_STORE}
    values = {"versions": VERSIONS, "last_position": CHUNKS_PER_VERSION - 1, **words, **stores}
    # Tenants and stores have no rows here: nothing that is measured reads them.
    _run("SET foreign_key_checks = 0, unique_checks = 0")
    _run(_DOCUMENTS.format(documents=documents, stores=max(1, documents * 82 // 100 // _DOCUMENTS_PER_STORE), **values))
    for version in range(1, VERSIONS + 1):
        _run(_A_VERSION.format(version=version, **values))
        # One statement must not take longer than a connection waits.
        for first in range(1, documents + 1, _DOCUMENTS_AT_ONCE):
            _run(_CHUNKS.format(version=version, first=first, at_once=_DOCUMENTS_AT_ONCE, **values))
    _run("SET foreign_key_checks = 1, unique_checks = 1")
    for table in _TABLES:
        _run(f"ANALYZE TABLE knowledge_{table}")


def _listed(words: list[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def _run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
