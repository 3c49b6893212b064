"""Tasks of this app: load nothing, call the work function."""

from celery import shared_task

from knowledge import indexing


@shared_task(name="knowledge.run_index_job")
def run_index_job(job_id: int) -> None:
    indexing.run_index_job(job_id)


@shared_task(name="knowledge.remove_dead_builds")
def remove_dead_builds() -> None:
    indexing.remove_dead_builds()
