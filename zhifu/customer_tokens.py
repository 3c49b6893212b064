"""The customer's short-lived token: minted for a store key, signed with a key of its own."""

from typing import Any
from uuid import UUID

import jwt
from django.conf import settings
from django.utils import timezone

from zhifu.errors import Unauthenticated

_AUDIENCE = "zhifu-customer"
_ALGORITHM = "HS256"


def mint(customer_public_id: UUID, store_public_id: UUID) -> str:
    """Return a token good for settings.CUSTOMER_TOKEN_SECONDS; it carries ids and nothing else."""
    now = int(timezone.now().timestamp())
    claims = {
        "token_type": "customer",
        "aud": _AUDIENCE,
        "sub": str(customer_public_id),
        "store": str(store_public_id),
        "iat": now,
        "exp": now + settings.CUSTOMER_TOKEN_SECONDS,
    }
    return jwt.encode(claims, settings.CUSTOMER_TOKEN_KEY, algorithm=_ALGORITHM)


def read(token: str) -> tuple[UUID, UUID]:
    """Return (customer, store) of a token. Raises Unauthenticated for anything but a valid customer token."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            settings.CUSTOMER_TOKEN_KEY,
            algorithms=[_ALGORITHM],
            audience=_AUDIENCE,
            leeway=10,
            options={"require": ["exp", "aud", "sub", "store", "token_type"]},
        )
        if claims["token_type"] != "customer":  # noqa: S105  # a kind, no secret
            raise Unauthenticated("这不是客户凭证 / This is not a customer's token.")
        return UUID(claims["sub"]), UUID(claims["store"])
    except (jwt.InvalidTokenError, ValueError, TypeError, AttributeError) as error:
        raise Unauthenticated("客户凭证无效或已过期 / The customer token is not valid or has expired.") from error
