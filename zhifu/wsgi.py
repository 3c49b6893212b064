"""WSGI entry: `gunicorn zhifu.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zhifu.settings")

application = get_wsgi_application()
