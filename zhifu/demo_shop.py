"""The merchant that `demo` and `run` show the product with: made once, its logins and key kept in VAR_PATH."""

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User

from zhifu.local_secrets import local_secret
from zhifu.models import Member, Role, Store, StoreKey, Tenant

MERCHANT = "merchant"
PLATFORM = "platform"


@dataclass(frozen=True)
class DemoShop:
    tenant: Tenant
    store: Store
    member: Member
    merchant_password: str
    platform_password: str
    store_key: str


def ensure_demo_shop() -> DemoShop:
    """Return the demo merchant, making what is missing. Running it again changes nothing."""
    tenant, _ = Tenant.objects.get_or_create(name="演示商家")
    store, _ = Store.objects.get_or_create(tenant=tenant, name="演示旗舰店")
    merchant_password = local_secret(settings.VAR_PATH, "DEMO_MERCHANT_PASSWORD")[:16]
    platform_password = local_secret(settings.VAR_PATH, "DEMO_PLATFORM_PASSWORD")[:16]
    merchant = _ensure_user(MERCHANT, merchant_password, is_superuser=False)
    _ensure_user(PLATFORM, platform_password, is_superuser=True)
    member, _ = Member.objects.get_or_create(user=merchant, defaults={"tenant": tenant, "role": Role.ADMIN})
    store_key = f"zk_{local_secret(settings.VAR_PATH, 'DEMO_STORE_KEY')}"
    StoreKey.objects.get_or_create(
        secret_hash=StoreKey.hash_secret(store_key), defaults={"tenant": tenant, "store": store, "name": "演示密钥"}
    )
    return DemoShop(tenant, store, member, merchant_password, platform_password, store_key)


def _ensure_user(username: str, password: str, *, is_superuser: bool) -> User:
    users = get_user_model().objects
    user = users.filter(username=username).first()
    if user is None:
        user = users.create_user(username, password=password, is_staff=True, is_superuser=is_superuser)
    elif not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
    return user
