"""The one door through which customers come into being, with what other apps keep beside each."""

from collections.abc import Callable

from django.db import transaction

from zhifu.models import Customer

_companions: list[Callable[[Customer], None]] = []


def register(make: Callable[[Customer], None]) -> None:
    """Have `make` called in the transaction that inserts a customer; apps call this from AppConfig.ready()."""
    _companions.append(make)


def ensure(*, tenant_id: int, external_ref: str, display_name: str = "") -> Customer:
    """Return the customer that the merchant calls `external_ref`, made on first sight; a new name replaces the old."""
    with transaction.atomic():
        customer, created = Customer.objects.get_or_create(
            tenant_id=tenant_id, external_ref=external_ref, defaults={"display_name": display_name}
        )
        if created:
            for make in _companions:
                make(customer)
        elif display_name and customer.display_name != display_name:
            customer.display_name = display_name
            customer.save(update_fields=["display_name"])
    return customer
