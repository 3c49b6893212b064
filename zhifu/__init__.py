"""Customer service that answers only from what is published right now."""

from zhifu.celery import app as celery_app

__all__ = ["celery_app"]
