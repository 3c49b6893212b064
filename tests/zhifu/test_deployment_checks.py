"""What is said of a deployment that would break a promise later."""

import pytest
from django.core.checks import run_checks
from django.db import connection
from pytest_django.fixtures import Settings


def said(databases: list[str] | None = None) -> list[str]:
    return [message.id for message in run_checks(databases=databases) if message.id.startswith("zhifu.")]


@pytest.mark.django_db
def test_a_deployment_as_it_should_be_is_not_complained_about() -> None:
    assert said(["default"]) == []


@pytest.mark.django_db
def test_a_session_that_is_not_read_committed_is_named() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@session.tx_isolation")
        (before,) = cursor.fetchone()
        cursor.execute("SET SESSION tx_isolation = 'REPEATABLE-READ'")
        try:
            assert said(["default"]) == ["zhifu.W001"]
        finally:
            cursor.execute("SET SESSION tx_isolation = %s", [before])


def test_a_lease_that_ends_during_a_model_call_is_named(settings: Settings) -> None:
    settings.CHAT_TIMEOUT_SECONDS = float(settings.LEASE_SECONDS)
    assert said() == ["zhifu.W002"]
