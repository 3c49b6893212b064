"""Tasks of this app: hints that a run is ready."""

from celery import shared_task

from conversations import turns


@shared_task(name="conversations.run_turn")
def run_turn(run_id: int) -> None:
    turns.run_turn(run_id)
