"""The end of a build: what no reader will be sent to again is named dead, and later removed from Milvus.

Only named builds are ever removed, never "all but the live one": a worker that lost its lease cannot harm
another's vectors.
"""

from knowledge.models import DeadBuild, IndexedVersion, IndexJob, KnowledgeDocument
from zhifu import queue


def bury_live(document: KnowledgeDocument) -> None:
    """Name the live build of a locked `document` dead, in every target that holds it; the caller takes it out of
    force in the same transaction."""
    held = IndexedVersion.objects.filter(document=document, build=document.live_build)
    _bury(document, document.live_build, list(held.values_list("target_id", flat=True)))
    held.delete()


def bury_job(job: IndexJob) -> None:
    """Name the build of a job's present claim dead: it failed, was cancelled, or its worker died or lost its lease.
    Does nothing for a claim that had not begun to write."""
    if job.target_id is not None:
        _bury(job.document, job.build, [job.target_id])


def _bury(document: KnowledgeDocument, build: str, target_ids: list[int]) -> None:
    rows = [
        DeadBuild(target_id=target_id, tenant_id=document.tenant_id, document_id=document.pk, build=build)
        for target_id in target_ids
    ]
    DeadBuild.objects.bulk_create(rows, ignore_conflicts=True)
    queue.send("knowledge.remove_dead_builds")
