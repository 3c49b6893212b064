"""What must be true of a deployment. `manage.py migrate` says it, and `manage.py check --database default`; what needs
no database is said by every command."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections


@register(Tags.database)
def database_is_binary_and_read_committed(databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Names must not be equal that only look alike, and commits rely on READ COMMITTED."""
    problems: list[CheckMessage] = []
    for alias in databases or []:
        connection = connections[alias]
        if connection.vendor != "mysql":
            continue
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT @@collation_database, @@session.tx_isolation"
                if _is_mariadb(connection)
                else "SELECT @@collation_database, @@session.transaction_isolation"
            )
            collation, isolation = cursor.fetchone()
        if not str(collation).endswith("_bin"):
            problems.append(
                Error(
                    f"The database's default collation is {collation}; identifiers would match that only look alike.",
                    hint="ALTER DATABASE ... CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, before the first migrate.",
                    id="zhifu.E001",
                )
            )
        if str(isolation).upper().replace("-", " ") != "READ COMMITTED":
            problems.append(Warning(f"Isolation level is {isolation}, expected READ COMMITTED.", id="zhifu.W001"))
    return problems


@register()
def a_lease_outlasts_a_model_call(**kwargs: Any) -> list[CheckMessage]:
    """A lease that ends while the model still thinks gives the run to another worker, and the call is paid twice."""
    if settings.LEASE_SECONDS > settings.CHAT_TIMEOUT_SECONDS:
        return []
    return [
        Warning(
            f"A lease lasts {settings.LEASE_SECONDS} s, a model call up to {settings.CHAT_TIMEOUT_SECONDS:g} s: "
            "slow answers will be asked for, and paid, more than once.",
            hint="Make ZHIFU_LEASE_SECONDS longer than ZHIFU_CHAT_TIMEOUT_SECONDS.",
            id="zhifu.W002",
        )
    ]


def _is_mariadb(connection: Any) -> bool:
    return bool(connection.mysql_is_mariadb)
