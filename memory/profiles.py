"""A customer's memory begins with the customer, switched off; each decision about it begins an epoch."""

from memory.models import MemoryProfile
from zhifu.models import Customer


def make_profile(customer: Customer) -> None:
    """Insert the profile of a customer that is being inserted."""
    MemoryProfile.objects.create(tenant_id=customer.tenant_id, customer=customer)


def begin_epoch(profile: MemoryProfile) -> None:
    """Save the locked `profile` in a new epoch: what was said before can never be written any more."""
    profile.epoch += 1
    profile.revision += 1
    profile.save()
