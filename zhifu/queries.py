"""Doors to the house's rows."""

from uuid import UUID

from zhifu.errors import NotFound
from zhifu.models import Store
from zhifu.scope import Scope


def get_store(scope: Scope, public_id: UUID) -> Store:
    """Return an open store the caller may work in. Raises NotFound for any other."""
    store: Store | None = (
        Store.objects.in_scope(scope).filter(public_id=public_id, is_open=True, tenant__is_active=True).first()
    )
    if store is None:
        raise NotFound
    return store


def at_store(scope: Scope, public_id: UUID) -> Scope:
    """Return `scope` narrowed to an open store the caller may work in. Raises NotFound for any other."""
    # A customer's credential was read together with its store, a moment ago.
    if scope.is_customer and scope.store_public_id == public_id:
        return scope
    return scope.at_store(get_store(scope, public_id).pk)
