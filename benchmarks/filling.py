"""A shop with as much published knowledge as asked for, written straight into the tables and the vector store.

What lies there afterwards is what publishing the documents one by one would have left: `check_promises` finds it whole.
Texts are generated; their vectors come from the encoder that the tests use.
"""

import hashlib
import random
import time
import uuid
from collections import defaultdict
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from benchmarks import setting
from knowledge import chunking, targets, vectors
from knowledge.content import Content
from knowledge.encoders import Encoder, Kind, get_encoder
from knowledge.models import (
    Collection,
    DocumentStatus,
    DocumentVersion,
    IndexedVersion,
    IndexTarget,
    KnowledgeChunk,
    KnowledgeDocument,
    VersionStatus,
)
from tests.factories import Shop, make_shop
from zhifu.transactions import database_now

CHUNKS_PER_DOCUMENT = 8
_ROWS_AT_ONCE = 400
# Longer than a search may take: only what has been live that long must be in the index.
_LIVE_FOR = timedelta(hours=1)

_Written = tuple[KnowledgeDocument, DocumentVersion, list[KnowledgeChunk]]


def shop_with_chunks(chunks: int, *, seed: int = 7) -> Shop:
    """Return a shop with `chunks` live chunks, rounded up to whole documents, over all collections."""
    shop = make_shop()
    draw = random.Random(seed)
    in_force = {target.collection: target for target in targets.active_targets(Collection.values)}
    for target in in_force.values():
        vectors.ensure_collection(target)
    rows: dict[str, list[vectors.VectorRow]] = defaultdict(list)
    for number in range(-(-chunks // CHUNKS_PER_DOCUMENT)):
        content, passages = _document(draw, number)
        target = in_force[content.collection]
        rows[content.collection] += _rows(target, *_write(shop, target, content, passages))
        if len(rows[content.collection]) >= _ROWS_AT_ONCE:
            _upsert(target, rows.pop(content.collection))
    for collection, target in in_force.items():
        _upsert(target, rows[collection])
    return shop


def _document(draw: random.Random, number: int) -> tuple[Content, list[str]]:
    """Return a document's content, and the passages that its text is made of."""
    subject, action = draw.choice(setting.SUBJECTS), draw.choice(setting.ACTIONS)
    passages = [
        "".join(setting.sentence(draw, subject) for _ in range(15))[: chunking.CHUNK_SIZE]
        for _ in range(CHUNKS_PER_DOCUMENT)
    ]
    collection = draw.choice(Collection.values)
    return Content(title=f"{subject}{action} {number}", source_text="".join(passages), collection=collection), passages


@transaction.atomic
def _write(shop: Shop, target: IndexTarget, content: Content, passages: list[str]) -> _Written:
    build = f"0-{uuid.uuid4().hex}"
    document = KnowledgeDocument.objects.create(
        tenant=shop.tenant, store=shop.store, status=DocumentStatus.PUBLISHED, live_version=1, live_build=build
    )
    version = DocumentVersion.objects.create(
        document=document,
        version=1,
        title=content.title,
        source_text=content.source_text,
        collection=content.collection,
        content_hash=content.hash,
        status=VersionStatus.PUBLISHED,
        live_from=database_now() - _LIVE_FOR,
    )
    chunks = [_chunk(version, position, passage) for position, passage in enumerate(passages)]
    KnowledgeChunk.objects.bulk_create(chunks)
    IndexedVersion.objects.create(target=target, document=document, version=1, build=build, chunks=len(chunks))
    return document, version, chunks


def _chunk(version: DocumentVersion, position: int, text: str) -> KnowledgeChunk:
    start = position * chunking.CHUNK_SIZE
    embedded = chunking.embedded_text(version.title, text)
    return KnowledgeChunk(
        document_version=version,
        position=position,
        text=text,
        start=start,
        end=start + len(text),
        embedded_hash=hashlib.sha256(embedded.encode()).hexdigest(),
    )


def _rows(
    target: IndexTarget, document: KnowledgeDocument, version: DocumentVersion, chunks: list[KnowledgeChunk]
) -> list[vectors.VectorRow]:
    encoder: Encoder = get_encoder(target.model)
    texts = [chunking.embedded_text(version.title, chunk.text) for chunk in chunks]
    return [
        vectors.VectorRow(
            tenant=document.tenant_id,
            store=document.store_id,
            document=document.pk,
            version=version.version,
            build=document.live_build,
            position=chunk.position,
            collection=version.collection,
            source_type=version.source_type,
            audience=version.audience,
            entity_ref=version.entity_ref,
            tags=(),
            updated_at=int(time.time()),
            text=text,
            vector=vector,
        )
        for chunk, text, vector in zip(chunks, texts, encoder.encode(texts, Kind.PASSAGE), strict=True)
    ]


def _upsert(target: IndexTarget, rows: list[vectors.VectorRow]) -> None:
    if rows:
        vectors.upsert(target, rows, deadline=time.monotonic() + settings.MILVUS_WRITE_TIMEOUT_SECONDS)
        # milvus-lite takes the longer for a row the more unsealed ones there are.
        vectors.finish_writing(target)
