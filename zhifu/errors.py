"""The errors of the product. What HTTP makes of them is said in `problems.py`.

Each carries a stable `code` for programs, a sentence for people that says what to do next, and the
data a caller needs to go on (`details`).
"""

from typing import Any


class Failure(Exception):
    """Base of every expected failure; never raised itself."""

    code = "INVALID"

    def __init__(self, message: str, *, code: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.details = details


class Invalid(Failure):
    """The input cannot be accepted as it is."""

    code = "INVALID"


class Unauthenticated(Failure):
    """Nobody is signed in, or the credential is no longer good."""

    code = "UNAUTHENTICATED"


class Forbidden(Failure):
    """The caller is known and may not do this."""

    code = "FORBIDDEN"


class NotFound(Failure):
    """There is no such thing in the caller's scope; a foreign one answers exactly the same."""

    code = "NOT_FOUND"

    def __init__(self, message: str = "没有找到 / Not found.", **details: Any) -> None:
        super().__init__(message, **details)


class Conflict(Failure):
    """The world has moved since the caller looked."""

    code = "CONFLICT"


class Unavailable(Failure):
    """Something this needs is down or full; the same request may work later."""

    code = "SEARCH_UNAVAILABLE"
    retry_after: int | None = 5


class Broken(Failure):
    """The installation contradicts itself (a vector dimension, say); trying again cannot help."""

    code = "INTERNAL"


class DimensionMismatch(Broken):
    """A vector's dimension differs from its index; answering would be silently wrong."""

    code = "EMBEDDING_DIMENSION_MISMATCH"


class LeaseLost(Exception):
    """Another worker has taken this job over, or it was cancelled: write nothing more."""
