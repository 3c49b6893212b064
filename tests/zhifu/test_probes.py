"""Liveness, readiness and metrics."""

from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import Client

from zhifu import probes, queue


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


@pytest.mark.django_db
def test_everything_the_product_stands_on_is_asked() -> None:
    assert set(probes.report()) == {"database", "cache", "broker", "memory", "milvus", "embedding"}


@pytest.mark.django_db
def test_not_ready_while_the_database_does_not_answer_and_alive_all_the_same() -> None:
    def gone(*_: Any) -> None:
        raise OperationalError("Server has gone away at secret-host")

    with connection.execute_wrapper(gone):
        response = Client().get("/readyz")
        assert Client().get("/healthz").status_code == 200
    assert response.status_code == 503
    assert response.json()["status"] == "unavailable"
    assert "database" in response.json()["degraded"]
    assert b"secret-host" not in response.content


def test_without_a_broker_nothing_is_asked_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "TASKS_IN_PROCESS", True)
    monkeypatch.setattr(settings, "CELERY_BROKER_URL", "redis://127.0.0.1:1")
    queue.ping()
