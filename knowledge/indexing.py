"""What a worker does to bring a version live: embed, write, then one short locked transaction, the flip.

No transaction is open while anything slow runs. Whatever this worker writes carries its own build; a build that
does not go live is named dead, and only then removed.
"""

import logging
import time
from collections.abc import Iterator

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db.models import Exists, OuterRef

from knowledge import builds, chunking, embedding, targets, vectors
from knowledge.embedding import Kind
from knowledge.models import (
    DeadBuild,
    DocumentStatus,
    DocumentVersion,
    IndexedVersion,
    IndexJob,
    IndexTarget,
    KnowledgeChunk,
    KnowledgeDocument,
    VersionStatus,
)
from zhifu import credentials, faults, queue
from zhifu.errors import Failure, LeaseLost, Unavailable
from zhifu.jobs import JobStatus, holds
from zhifu.models import Store
from zhifu.transactions import commit, database_now, run_statement

logger = logging.getLogger(__name__)

BATCH = 32
# Embedding and writing one batch together stay well under the lease.
_EMBED_SECONDS = 60.0
_RETRY_SECONDS = 5.0
_RETRY_SECONDS_MOST = 300.0
# How many dead builds one round removes.
_REMOVE_AT_ONCE = 1000


class _Stopped(Exception):
    """This job ends here, without going live."""

    def __init__(self, status: JobStatus, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class _TargetChanged(Exception):
    """Another index came into force meanwhile: what was written lies in the wrong one."""


def run_index_job(job_id: int) -> None:
    """Bring the job's version into the active target and take it live.

    Does nothing when the job is not due, done, or held by another worker; safe to call at any time. Every
    failure ends in the row: to be tried again, FAILED or CANCELLED with a reason.
    """
    job = commit(_claim, job_id)
    if job is None:
        return
    faults.point("index.after_claim")
    try:
        _run(job)
    except LeaseLost:
        # Another worker has the job, or it was cancelled: all that is ours is our build.
        logger.info("lease lost", extra={"job": job.pk})
        commit(builds.bury_job, job)


def _claim(job_id: int) -> IndexJob | None:
    before = IndexJob.objects.select_for_update().filter(pk=job_id).first()
    job = IndexJob.claim(job_id)
    if before is None or job is None:
        return None
    if before.status == JobStatus.RUNNING:
        builds.bury_job(before)
    job.write_held(target=None, chunks_done=0)
    return job


def _run(job: IndexJob) -> None:
    try:
        if job.attempts > settings.MAX_ATTEMPTS:
            raise _Stopped(
                JobStatus.FAILED,
                "ATTEMPTS_EXHAUSTED",
                "索引多次中断，请重新发布 / Indexing was interrupted too often; publish again.",
            )
        _check_still_wanted(job)
        _index(job)
    except _Stopped as stop:
        commit(_end, job, stop)
    except _TargetChanged:
        commit(_try_again, job, "INDEX_SWITCHED", "索引已切换，重新写入 / The index was switched; writing again.", 0.0)
    except Unavailable as failure:
        _try_later(job, failure)
    except Failure as failure:
        logger.error("index job cannot succeed", extra={"job": job.pk, "code": failure.code})
        commit(_end, job, _Stopped(JobStatus.FAILED, failure.code, failure.message))


def _index(job: IndexJob) -> None:
    """Write the build, see that it is complete, and take it live."""
    target = targets.active_target(job.document_version.collection)
    # Before the first vector: whoever follows a worker that died finds what it may have left.
    job.write_held(target=target)
    vectors.ensure_collection(target)
    for batch in _batches(job):
        _write(job, target, batch)
    vectors.finish_writing(target)
    job.renew()
    held = vectors.count_build(target, tenant_id=job.document.tenant_id, document_id=job.document_id, build=job.build)
    if held != job.chunks_total:
        raise Unavailable(
            "索引不完整 / The index did not keep all chunks.", code="INDEX_INCOMPLETE", held=held, of=job.chunks_total
        )
    faults.point("index.before_flip")
    commit(_flip, job, target)
    faults.point("index.after_flip")


def _batches(job: IndexJob) -> Iterator[list[KnowledgeChunk]]:
    chunks = list(job.document_version.chunks.order_by("position"))
    for start in range(0, len(chunks), BATCH):
        yield chunks[start : start + BATCH]


def _write(job: IndexJob, target: IndexTarget, batch: list[KnowledgeChunk]) -> None:
    texts = [chunking.embedded_text(job.document_version.title, chunk.text) for chunk in batch]
    found = embedding.embed(texts, Kind.PASSAGE, model=target.model, deadline=time.monotonic() + _EMBED_SECONDS)
    job.renew()
    faults.point("index.after_embed")
    rows = [_row(job, chunk, text, vector) for chunk, text, vector in zip(batch, texts, found, strict=True)]
    vectors.upsert(target, rows, deadline=time.monotonic() + settings.MILVUS_WRITE_TIMEOUT_SECONDS)
    faults.point("index.after_upsert")
    job.renew()
    job.write_held(chunks_done=job.chunks_done + len(batch))


def _row(job: IndexJob, chunk: KnowledgeChunk, text: str, vector: vectors.Vector) -> vectors.VectorRow:
    document, version = job.document, job.document_version
    return vectors.VectorRow(
        tenant=document.tenant_id,
        store=document.store_id,
        document=document.pk,
        version=version.version,
        build=job.build,
        position=chunk.position,
        collection=version.collection,
        source_type=version.source_type,
        audience=version.audience,
        entity_ref=version.entity_ref,
        tags=tuple(version.tags),
        updated_at=int(time.time()),
        text=text,
        vector=vector,
    )


def _check_still_wanted(job: IndexJob) -> None:
    """Raise _Stopped unless who asked may still publish, and the store is open."""
    document = job.document
    try:
        # Read again each time: the person may have been switched off since the job was loaded.
        requested_by = IndexJob.objects.select_related("requested_by").get(pk=job.pk).requested_by
        scope = credentials.staff_scope(requested_by or AnonymousUser())
        scope.require("knowledge:publish")
    except Failure as failure:
        raise _Stopped(
            JobStatus.FAILED,
            "FORBIDDEN",
            "发起人已没有发布权限，请由有权限的人重新发布 / Who asked may no longer publish; ask somebody who may.",
        ) from failure
    stores = Store.objects.in_scope(scope).filter(pk=document.store_id, tenant_id=document.tenant_id)
    if not stores.filter(is_open=True, tenant__is_active=True).exists():
        raise _Stopped(
            JobStatus.FAILED,
            "STORE_CLOSED",
            "店铺已停业或发起人已不能管理它 / The store is closed, or who asked may no longer work in it.",
        )


def _flip(job: IndexJob, target: IndexTarget) -> None:
    """Take the build live. Raises LeaseLost, _TargetChanged or _Stopped when the world has moved meanwhile."""
    active = IndexTarget.objects.select_for_update().filter(active=target.collection).first()
    document = KnowledgeDocument.objects.select_for_update().get(pk=job.document_id)
    versions = {
        row.version: row
        for row in DocumentVersion.objects.select_for_update()
        .filter(document=document, version__in=[job.document_version.version, document.live_version or 0])
        .order_by("version")
    }
    if not holds(IndexJob.objects.select_for_update().get(pk=job.pk), job.lease_token):
        raise LeaseLost(f"index job {job.pk}")
    if active != target:
        raise _TargetChanged
    version = versions[job.document_version.version]
    if document.live_version is not None and version.version <= document.live_version:
        raise _Stopped(JobStatus.CANCELLED, "SUPERSEDED", "更新的版本已经上线 / A newer version has gone live.")
    _check_still_wanted(job)
    _take_live(job, target, document, version)
    faults.point("index.in_flip")
    queue.send("knowledge.remove_dead_builds")


def _take_live(job: IndexJob, target: IndexTarget, document: KnowledgeDocument, version: DocumentVersion) -> None:
    """Write the flip; everything is locked and checked."""
    now = database_now()
    if document.live_version is not None:
        document.versions.filter(version=document.live_version).update(status=VersionStatus.ARCHIVED, live_until=now)
        builds.bury_live(document)
    document.versions.filter(pk=version.pk).update(status=VersionStatus.PUBLISHED, live_from=now, live_until=None)
    IndexedVersion.objects.create(
        target=target, document=document, version=version.version, build=job.build, chunks=job.chunks_total
    )
    document.live_version, document.live_build = version.version, job.build
    # A draft saved meanwhile stays what the document is about; this version is only what answers.
    if document.version == version.version:
        document.status = DocumentStatus.PUBLISHED
    document.updated_at = now
    document.save(update_fields=["live_version", "live_build", "status", "updated_at"])
    job.write_held(
        status=JobStatus.COMPLETED,
        open_document=None,
        lease_until=None,
        finished_at=now,
        error_code="",
        error_message="",
    )


def _end(job: IndexJob, stop: _Stopped) -> None:
    job.write_held(
        status=stop.status,
        open_document=None,
        lease_until=None,
        finished_at=database_now(),
        error_code=stop.code,
        error_message=stop.message[:500],
    )
    builds.bury_job(job)


def _try_later(job: IndexJob, failure: Unavailable) -> None:
    """Give the job back with a growing pause, or end it when it was tried often enough."""
    if job.attempts >= settings.MAX_ATTEMPTS:
        message = f"多次尝试仍未完成，请稍后重新发布 / Tried several times; publish again later: {failure.message}"
        commit(_end, job, _Stopped(JobStatus.FAILED, failure.code, message))
        return
    seconds = min(_RETRY_SECONDS * 2**job.attempts, _RETRY_SECONDS_MOST)
    commit(_try_again, job, failure.code, failure.message, seconds)


def _try_again(job: IndexJob, code: str, message: str, seconds: float) -> None:
    job.retry_later(code=code, message=message, seconds=seconds)
    builds.bury_job(job)
    if not seconds:
        job.hint()


def remove_dead_builds() -> int:
    """Remove dead builds from Milvus and return how many; with Milvus down, what is left waits for the next round.

    A build that some document answers from is never touched, whatever the rows say.
    """
    live = KnowledgeDocument.objects.filter(pk=OuterRef("document_id"), live_build=OuterRef("build"))
    dead = DeadBuild.objects.filter(~Exists(live)).select_related("target").order_by("pk")[:_REMOVE_AT_ONCE]
    removed = 0
    out_of_reach: set[int] = set()
    for row in dead:
        if row.target_id in out_of_reach:
            continue
        try:
            vectors.remove_builds(row.target, tenant_id=row.tenant_id, document_id=row.document_id, builds=[row.build])
        except Failure as failure:
            logger.warning("dead builds stay for now", extra={"target": row.target_id, "code": failure.code})
            out_of_reach.add(row.target_id)
            continue
        faults.point("index.after_removal")
        run_statement(DeadBuild.objects.filter(pk=row.pk).delete)
        removed += 1
    return removed
