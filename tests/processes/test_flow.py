"""The main flow over HTTP twice: embedded in one process, and with every server and worker a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.factories import Shop
from tests.processes.story import CLEANING_CHANGED, Story, assert_promises_kept
from tests.processes.system import ROOT, System

pytestmark = pytest.mark.processes


def test_the_flow_with_separate_workers(system: System, merchant: Shop) -> None:
    system.start_everything()
    assert requests.get(f"{system.url}/readyz", timeout=30).json() == {"status": "ok", "degraded": []}
    story = Story(system, merchant)
    document = story.write()
    story.publish(document)
    first = story.ask()
    assert "软毛刷" in first["text"]
    assert [(source["source_id"], source["version"]) for source in first["source_refs"]] == [(document, 1)]
    assert first["generated_by"] == "ai"

    story.rewrite(document, CLEANING_CHANGED, expected_version=1)
    assert "软毛刷" in story.ask()["text"], "a draft changes nothing"
    story.publish(document, 2)
    second = story.ask()
    assert "温水" in second["text"]
    assert {source["version"] for source in second["source_refs"]} == {2}
    reference = f"/api/v1/knowledge-references/{second['source_refs'][0]['reference_token']}"
    assert story.customer.get(reference)["version"] == 2

    story.revoke(document, 2)
    third = story.ask()
    assert third["source_refs"] == []
    assert "温水" not in third["text"]
    assert story.customer.session.get(system.url + reference, timeout=10).status_code == 404
    assert_promises_kept()


def test_the_demo_shows_the_flow_in_one_process_on_sqlite(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ZHIFU_", "DJANGO_"))}
    demo = subprocess.run(
        [sys.executable, "manage.py", "demo"],
        cwd=ROOT,
        env=environment | {"ZHIFU_ENV_FILE": os.devnull, "ZHIFU_VAR_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout[-3000:] + demo.stderr[-3000:]
    assert "All promises are kept." in demo.stdout
