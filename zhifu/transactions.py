"""Short locked transactions: the database's clock, and repeating a step that lost a deadlock."""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from django.db import OperationalError, connection, transaction
from django.db.models import DateTimeField, Func, Value
from django.utils import timezone

# MariaDB and MySQL: lock wait timeout, deadlock. SQLite says it in words.
_REPEATABLE_CODES = (1205, 1213)
_TRIES = 3

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def database_now() -> datetime:
    """Return the database's clock in UTC; call it after the locks are held."""
    if connection.vendor != "mysql":
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT UTC_TIMESTAMP(6)")
        moment: datetime = cursor.fetchone()[0]
    return moment.replace(tzinfo=UTC)


class DatabaseNow(Func):
    """The database's clock inside a statement: the same moment as database_now, without a query of its own."""

    template = "UTC_TIMESTAMP(6)"
    output_field = DateTimeField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # SQLite's clock is this process's.
        return Value(timezone.now(), output_field=DateTimeField()).as_sql(compiler, connection)


def commit(step: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Run `step` in one durable transaction, repeating it when the database chose it as a deadlock's victim.

    Raises what `step` raises; the third OperationalError of that kind is raised as it is.
    """

    def committed() -> Result:
        with transaction.atomic(durable=True):
            return step(*args, **kwargs)

    return _repeated(committed)


def change(step: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """As commit, for services: called inside a transaction (Django admin's views are one), `step` runs once as a part
    of it, because a deadlock has then undone more than the step.
    """
    if connection.in_atomic_block:
        with transaction.atomic():
            return step(*args, **kwargs)
    return commit(step, *args, **kwargs)


def run_statement(statement: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Run one statement, which outside of a transaction is one of its own, repeating it then as commit does."""
    if connection.in_atomic_block:
        return statement(*args, **kwargs)
    return _repeated(lambda: statement(*args, **kwargs))


def _repeated(attempt: Callable[[], Result]) -> Result:
    for number in range(1, _TRIES + 1):
        try:
            return attempt()
        except OperationalError as error:
            if number == _TRIES or not _is_repeatable(error):
                raise
            time.sleep(random.uniform(0.01, 0.05) * number)  # noqa: S311  # jitter, no secret
    raise AssertionError("unreachable")


def _is_repeatable(error: OperationalError) -> bool:
    return bool(error.args) and (error.args[0] in _REPEATABLE_CODES or "database is locked" in str(error))
