"""Tasks of the house itself."""

from celery import shared_task

from zhifu import sweeping


@shared_task(name="zhifu.sweep")
def sweep() -> None:
    sweeping.run()
