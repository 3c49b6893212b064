"""Reference tokens: a person's own, short-lived pointer to a document, signed, and checked again at each use.

`kr1.{c-|m-}{person uuid}.{document uuid}.{expires, epoch seconds}.{signature}`; the signature is HMAC-SHA256 over
the rest and the tenant. A token proves nothing by itself: the document must be live in the caller's scope when it is
resolved, and only what the document is comes back, never its text.
"""

import base64
import hashlib
import hmac
import re
import time
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings

from knowledge import queries
from knowledge.models import DocumentVersion
from zhifu.errors import NotFound
from zhifu.scope import Scope

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TOKEN = re.compile(rf"(kr1\.([cm]-{_UUID})\.({_UUID})\.([0-9]{{1,12}}))\.([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True)
class Reference:
    """What a reference shows of the live version; `updated_at` is its live_from."""

    source_id: UUID
    version: int
    title: str
    tags: tuple[str, ...]
    collection: str
    updated_at: datetime


def mint(scope: Scope, source_id: UUID) -> str:
    """Return a token for this person and document, good for settings.REFERENCE_SECONDS."""
    expires = int(time.time()) + settings.REFERENCE_SECONDS
    signed = f"kr1.{scope.reference_person}.{source_id}.{expires}"
    return f"{signed}.{_signature(settings.REFERENCE_KEYS[0], signed, scope.tenant_id)}"


def resolve(scope: Scope, token: str) -> Reference:
    """Return what the token points to, for the person it was made for and while the document is live for them.

    Raises Forbidden without `knowledge:reference:read`, and the same NotFound for everything that is wrong.
    """
    scope.require("knowledge:reference:read")
    row: DocumentVersion | None = (
        queries.live_versions(scope).filter(document__public_id=_source(scope, token)).defer("source_text").first()
    )
    if row is None or row.live_from is None:
        raise NotFound
    return Reference(
        source_id=row.document.public_id,
        version=row.version,
        title=row.title,
        tags=tuple(row.tags),
        collection=row.collection,
        updated_at=row.live_from,
    )


def _source(scope: Scope, token: str) -> UUID:
    """Return the document of a token that is genuine, this person's and not expired. Raises NotFound."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        raise NotFound
    signed, person, source_id, expires, signature = parts.groups()
    genuine = [_is(signature, _signature(key, signed, scope.tenant_id)) for key in settings.REFERENCE_KEYS]
    if not any(genuine) or not _is(person, scope.reference_person) or int(expires) <= time.time():
        raise NotFound
    return UUID(source_id)


def _signature(key: str, signed: str, tenant_id: int | None) -> str:
    digest = hmac.new(key.encode(), f"{signed}.{tenant_id}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _is(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
