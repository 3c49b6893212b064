"""Statements and steps that lose a deadlock, against the real database."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection, transaction

from zhifu.models import Store, Tenant
from zhifu.transactions import commit, run_statement

WEIGHT = 200


@pytest.fixture
def tenants(transactional_db: None) -> list[Tenant]:
    return [Tenant.objects.create(name=f"商户{number}") for number in range(2)]


def _rename_both(tenants: list[Tenant]) -> int:
    return Tenant.objects.filter(pk__in=[tenant.pk for tenant in tenants]).update(name="改名")


def _rename_one_then_both(tenants: list[Tenant]) -> int:
    Tenant.objects.filter(pk=tenants[0].pk).update(name="改名")
    return _rename_both(tenants)


def _make_it_lose(tenants: list[Tenant], lose: Callable[[], int]) -> int:
    """Return what `lose` returns, which is to rename both tenants, the first one first: a transaction with more rows
    to undo holds the second and asks for the first once `lose` waits, so that the database ends what `lose` began."""
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            for number in range(WEIGHT):
                Store.objects.create(tenant=tenants[1], name=f"店{number}")
            Tenant.objects.filter(pk=tenants[1].pk).update(name="占用")
            losing = pool.submit(_in_its_own_connection, lose)
            _until_somebody_waits()
            Tenant.objects.filter(pk=tenants[0].pk).update(name="占用")
        return losing.result(20)


def _in_its_own_connection(step: Callable[[], int]) -> int:
    try:
        return step()
    finally:
        connection.close()


def _until_somebody_waits() -> None:
    # The database renews what it says here only when nobody has asked for a tenth of a second.
    for _ in range(50):
        time.sleep(0.15)
        with connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM information_schema.innodb_lock_waits")
            if cursor.fetchone()[0]:
                return
    raise AssertionError("nobody waits")


def test_the_database_ends_the_one_with_less_to_undo(tenants: list[Tenant]) -> None:
    with pytest.raises(OperationalError, match="1213"):
        _make_it_lose(tenants, lambda: _rename_both(tenants))


def test_a_statement_that_lost_a_deadlock_is_run_again(tenants: list[Tenant]) -> None:
    assert _make_it_lose(tenants, lambda: run_statement(_rename_both, tenants)) == 2
    assert set(Tenant.objects.filter(pk__in=[tenant.pk for tenant in tenants]).values_list("name", flat=True)) == {
        "改名"
    }


def test_a_step_that_lost_a_deadlock_is_run_again(tenants: list[Tenant]) -> None:
    assert _make_it_lose(tenants, lambda: commit(_rename_one_then_both, tenants)) == 2


def test_a_statement_inside_a_transaction_is_not_run_again(tenants: list[Tenant]) -> None:
    def lose() -> int:
        with transaction.atomic():
            return run_statement(_rename_both, tenants)

    with pytest.raises(OperationalError, match="1213"):
        _make_it_lose(tenants, lose)
