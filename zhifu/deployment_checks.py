"""What must be true of a deployment; `manage.py check --database default` says it, and so does every start."""

from typing import Any

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


def _is_mariadb(connection: Any) -> bool:
    return bool(connection.mysql_is_mariadb)
