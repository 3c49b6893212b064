"""A customer's memory begins with the customer, switched off."""

from memory.models import MemoryProfile
from zhifu.models import Customer


def make_profile(customer: Customer) -> None:
    """Insert the profile of a customer that is being inserted."""
    MemoryProfile.objects.create(tenant_id=customer.tenant_id, customer=customer)
