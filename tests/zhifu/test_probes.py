"""Liveness, readiness and metrics."""

import pytest
from django.test import Client

from zhifu import probes


@pytest.mark.django_db
def test_ready_while_the_database_answers_and_the_rest_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def down() -> None:
        raise ConnectionError("milvus://secret-host refused")

    monkeypatch.setitem(probes._services, "something", down)
    response = Client().get("/readyz")
    assert response.status_code == 200
    assert "something" in response.json()["degraded"]
    assert b"secret-host" not in response.content
    assert "secret-host" in probes.report()["something"]


def test_alive_and_measured() -> None:
    assert Client().get("/healthz").json() == {"status": "ok"}
    assert b"python_info" in Client().get("/metrics").content
