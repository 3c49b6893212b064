"""Tasks of this app: hints that a job is ready, that keys wait for erasure, that the store is to be looked through."""

from celery import shared_task

from memory import content, extracting


@shared_task(name="memory.run_extraction")
def run_extraction(job_id: int) -> None:
    extracting.run_extraction(job_id)


@shared_task(name="memory.erase_pending")
def erase_pending() -> None:
    content.erase_pending()


@shared_task(name="memory.scan_store")
def scan_store() -> None:
    content.scan()
