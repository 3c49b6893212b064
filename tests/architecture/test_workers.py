"""Processes of one test run that work side by side share nothing."""

import os

from django.conf import settings


def test_each_worker_has_collections_and_a_folder_of_its_own() -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    assert f"t{worker.removeprefix('gw')}_" == settings.MILVUS_PREFIX
    assert settings.VAR_PATH.name.endswith(worker)
