"""The Celery application. Tasks are hints: an id in, nothing out; the row says what is to be done."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zhifu.settings")

app = Celery("zhifu")
# By name, so that it is read on first use and not while the settings themselves are being imported.
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
