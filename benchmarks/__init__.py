"""Performance as ratios against the bare parts, measured in the same run; never a timed test."""

import logging
import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "zhifu.settings")
django.setup()
# It prints a traceback for each collection that does not exist yet.
logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
