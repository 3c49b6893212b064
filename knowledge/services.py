"""What a merchant may do with knowledge: save, publish, revoke. Each is one short transaction and one audit event.

Locks are taken in the order document, version, job. The worker's side of publishing is in `indexing.py`.
"""

import hashlib
from uuid import UUID

from django.db import IntegrityError

from knowledge import builds, chunking
from knowledge.chunking import Span
from knowledge.content import Content as Content
from knowledge.content import check_content
from knowledge.models import (
    DocumentStatus,
    DocumentVersion,
    IndexJob,
    KnowledgeChunk,
    KnowledgeDocument,
    VersionStatus,
    VersionTag,
)
from zhifu import audit
from zhifu.errors import Conflict, Invalid, NotFound
from zhifu.jobs import JobStatus
from zhifu.models import Store
from zhifu.scope import Scope
from zhifu.transactions import change, database_now

MAX_IDEMPOTENCY_KEY = 200


def create_document(*, scope: Scope, store: Store, content: Content, idempotency_key: str = "") -> DocumentVersion:
    """Save a new document as a draft and return its first version.

    The same `idempotency_key` of the same person and store returns what the first call made. Raises Conflict when
    that had other content, Invalid for content that cannot be saved, Forbidden without `knowledge:write`.
    """
    with audit.recorded(scope, "knowledge.create", "document") as entry:
        scope.require("knowledge:write")
        if not Store.objects.in_scope(scope).filter(pk=store.pk, is_open=True).exists():
            raise NotFound
        spans = _checked(content)
        key = _creation_key(scope, store, idempotency_key)
        try:
            version = change(_create, scope, store, content, spans, key)
        except IntegrityError:
            if key is None:
                raise
            version = _made_before(scope, key, content)
        entry.object_id = str(version.document.public_id)
        return version


def revise_document(*, scope: Scope, document_id: UUID, content: Content, expected_version: int) -> DocumentVersion:
    """Save `content` as a draft under the next number and return it; what is live goes on answering.

    Sent again by the same person with nothing in between, it returns the draft it made. Raises Conflict with code
    VERSION_CONFLICT and `current_version` when the document has moved on, else as create_document.
    """
    with audit.recorded(scope, "knowledge.revise", "document", str(document_id)):
        scope.require("knowledge:write")
        spans = _checked(content)
        return change(_revise, scope, document_id, content, spans, expected_version)


def publish_document(*, scope: Scope, document_id: UUID, expected_version: int) -> IndexJob:
    """Ask for the newest version to go live and return the job that does it.

    Asked again, it returns the open job, or for a version that is live the job that brought it there. A job of an
    older version is cancelled. A version whose `effective_from` lies ahead is indexed when that moment comes.
    Raises Conflict when the document was revoked or has moved on, Forbidden without `knowledge:publish`.
    """
    with audit.recorded(scope, "knowledge.publish", "document", str(document_id)):
        scope.require("knowledge:publish")
        return change(_publish, scope, document_id, expected_version)


def revoke_document(*, scope: Scope, document_id: UUID, expected_version: int) -> KnowledgeDocument:
    """Take a document out of force, at the next read; an index job under way is cancelled. Returns the document.

    Takes a number of its own, so that nobody publishes or revises what they saw before it. Sent again, it changes
    nothing. Raises Conflict when the document has moved on, Forbidden without `knowledge:publish`.
    """
    with audit.recorded(scope, "knowledge.revoke", "document", str(document_id)):
        scope.require("knowledge:publish")
        return change(_revoke, scope, document_id, expected_version)


def _create(
    scope: Scope, store: Store, content: Content, spans: list[Span], creation_key: str | None
) -> DocumentVersion:
    document = KnowledgeDocument.objects.create(tenant_id=store.tenant_id, store=store, creation_key=creation_key)
    return _write_version(scope, document, content, spans)


def _revise(
    scope: Scope, document_id: UUID, content: Content, spans: list[Span], expected_version: int
) -> DocumentVersion:
    document = _lock_document(scope, document_id)
    repeated = _adjacent_retry(scope, document, content, expected_version)
    if repeated is not None:
        return repeated
    _expect_version(document, expected_version)
    document.version += 1
    document.status = DocumentStatus.DRAFT
    _save(document)
    return _write_version(scope, document, content, spans)


def _publish(scope: Scope, document_id: UUID, expected_version: int) -> IndexJob:
    document = _lock_document(scope, document_id)
    _expect_version(document, expected_version)
    if document.status == DocumentStatus.REVOKED:
        raise Conflict(
            "文档已撤回，没有可发布的内容，请先保存新的草稿 / "
            "The document was revoked and there is nothing to publish; save a new draft first."
        )
    version = DocumentVersion.objects.select_for_update().get(document=document, version=document.version)
    if document.live_version == version.version:
        return _job_that_published(version)
    open_job = _lock_open_job(document)
    if open_job is not None and open_job.document_version_id == version.pk:
        return open_job
    if open_job is not None:
        _cancel(open_job, "SUPERSEDED", "已改为发布更新的版本 / A newer version is being published instead.")
    return _enqueue(scope, document, version)


def _revoke(scope: Scope, document_id: UUID, expected_version: int) -> KnowledgeDocument:
    document = _lock_document(scope, document_id)
    if document.status == DocumentStatus.REVOKED and document.version == expected_version + 1:
        return document
    _expect_version(document, expected_version)
    if document.status == DocumentStatus.REVOKED:
        return document
    if document.live_version is not None:
        DocumentVersion.objects.filter(document=document, version=document.live_version).update(
            status=VersionStatus.REVOKED, live_until=database_now()
        )
        builds.bury_live(document)
    open_job = _lock_open_job(document)
    if open_job is not None:
        _cancel(open_job, "REVOKED", "文档已撤回 / The document was revoked.")
    document.version += 1
    document.status = DocumentStatus.REVOKED
    document.live_version, document.live_build = None, ""
    _save(document)
    return document


def _checked(content: Content) -> list[Span]:
    """Return where the chunks of `content` lie. Raises Invalid for content that cannot be saved."""
    check_content(content)
    return chunking.split(content.source_text)


def _creation_key(scope: Scope, store: Store, idempotency_key: str) -> str | None:
    if not idempotency_key:
        return None
    if len(idempotency_key) > MAX_IDEMPOTENCY_KEY:
        raise Invalid(
            f"Idempotency-Key 最多 {MAX_IDEMPOTENCY_KEY} 个字符 / "
            f"Idempotency-Key has at most {MAX_IDEMPOTENCY_KEY} characters."
        )
    parts = f"{store.pk}\n{scope.actor_kind}\n{scope.actor_id}\n{idempotency_key}"
    return hashlib.sha256(parts.encode()).hexdigest()


def _made_before(scope: Scope, key: str, content: Content) -> DocumentVersion:
    """Return the first version of the document that was made with `key`. Raises Conflict for other content."""
    version: DocumentVersion = (
        DocumentVersion.objects.in_scope(scope).select_related("document").get(document__creation_key=key, version=1)
    )
    if version.content_hash != content.hash:
        raise Conflict(
            "这个 Idempotency-Key 已用于其他内容 / This Idempotency-Key was used for other content.",
            document_id=str(version.document.public_id),
        )
    return version


def _lock_document(scope: Scope, public_id: UUID) -> KnowledgeDocument:
    document: KnowledgeDocument | None = (
        KnowledgeDocument.objects.in_scope(scope).select_for_update().filter(public_id=public_id).first()
    )
    if document is None:
        raise NotFound
    return document


def _expect_version(document: KnowledgeDocument, expected_version: int) -> None:
    if document.version != expected_version:
        raise Conflict(
            f"文档已被他人修改，现在是第 {document.version} 版，请刷新后再试 / "
            f"Somebody changed the document, it is at version {document.version} now; reload and try again.",
            code="VERSION_CONFLICT",
            current_version=document.version,
        )


def _adjacent_retry(
    scope: Scope, document: KnowledgeDocument, content: Content, expected_version: int
) -> DocumentVersion | None:
    """Return the newest version if this very request made it and nothing happened since, else None."""
    if document.version != expected_version + 1 or document.status != DocumentStatus.DRAFT:
        return None
    newest = DocumentVersion.objects.select_for_update().get(document=document, version=document.version)
    same = newest.content_hash == content.hash and newest.author_id == scope.user_id
    return newest if same else None


def _write_version(scope: Scope, document: KnowledgeDocument, content: Content, spans: list[Span]) -> DocumentVersion:
    version = DocumentVersion.objects.create(
        document=document,
        version=document.version,
        title=content.title,
        source_text=content.source_text,
        collection=content.collection,
        source_type=content.source_type,
        entity_ref=content.entity_ref,
        tags=list(content.tags),
        audience=content.audience,
        effective_from=content.effective_from,
        expires_at=content.expires_at,
        content_hash=content.hash,
        author_id=scope.user_id,
    )
    VersionTag.objects.bulk_create([VersionTag(document_version=version, tag=tag) for tag in content.tags])
    KnowledgeChunk.objects.bulk_create(
        [_chunk(version, position, span) for position, span in enumerate(spans)],
    )
    return version


def _chunk(version: DocumentVersion, position: int, span: Span) -> KnowledgeChunk:
    text = version.source_text[span.start : span.end]
    embedded = chunking.embedded_text(version.title, text)
    return KnowledgeChunk(
        document_version=version,
        position=position,
        text=text,
        start=span.start,
        end=span.end,
        embedded_hash=hashlib.sha256(embedded.encode()).hexdigest(),
    )


def _save(document: KnowledgeDocument) -> None:
    """Write a locked document."""
    document.updated_at = database_now()
    document.save(update_fields=["version", "status", "live_version", "live_build", "updated_at"])


def _lock_open_job(document: KnowledgeDocument) -> IndexJob | None:
    return IndexJob.objects.select_for_update().filter(open_document=document).first()


def _cancel(job: IndexJob, code: str, message: str) -> None:
    """End a locked open job; a worker that is at it finds its lease gone."""
    IndexJob.objects.filter(pk=job.pk, status=job.status).update(
        status=JobStatus.CANCELLED,
        open_document=None,
        lease_until=None,
        error_code=code,
        error_message=message,
        finished_at=database_now(),
    )
    builds.bury_job(job)


def _job_that_published(version: DocumentVersion) -> IndexJob:
    job: IndexJob = version.jobs.filter(status=JobStatus.COMPLETED).latest("pk")
    return job


def _enqueue(scope: Scope, document: KnowledgeDocument, version: DocumentVersion) -> IndexJob:
    now = database_now()
    job = IndexJob.objects.create(
        document=document,
        document_version=version,
        open_document=document,
        requested_by_id=scope.user_id,
        chunks_total=version.chunks.count(),
        run_after=max(now, version.effective_from or now),
    )
    if job.run_after <= now:
        job.hint()
    return job
