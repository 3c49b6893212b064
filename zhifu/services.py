"""What a merchant's server may ask of the house: a token for one of its customers."""

from django.db import transaction

from zhifu import customer_tokens
from zhifu.errors import Forbidden, Invalid, NotFound
from zhifu.models import Customer, Store
from zhifu.scope import Scope


def mint_customer_token(*, scope: Scope, store: Store, external_ref: str, display_name: str) -> tuple[Customer, str]:
    """Return the customer, made on first sight, and a fresh token for `store`.

    Raises Forbidden for a customer the merchant has switched off, NotFound for a store not of this key.
    """
    scope.require("customer:token")
    if store.pk != scope.store_id:
        raise NotFound
    if external_ref != external_ref.strip():
        raise Invalid("external_ref 前后不能有空格 / external_ref must have no blanks around it.")
    with transaction.atomic():
        customer, created = Customer.objects.get_or_create(
            tenant_id=store.tenant_id, external_ref=external_ref, defaults={"display_name": display_name}
        )
        if not created and display_name and customer.display_name != display_name:
            customer.display_name = display_name
            customer.save(update_fields=["display_name"])
    if not customer.is_active:
        raise Forbidden("该客户已停用 / This customer has been switched off.")
    return customer, customer_tokens.mint(customer.public_id, store.public_id)
