"""What every app stands on: tenants, their stores and people, keys, and the audit trail."""

import hashlib
import secrets
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from zhifu.scope import ScopedQuerySet
from zhifu.transactions import database_now


def refuse_outer_blanks(value: str) -> None:
    """Validate an identifier typed by a person: blanks around it would make two that look the same."""
    if value != value.strip():
        raise ValidationError(_("前后不能有空格 / No blanks around it."), code="outer_blanks")


class TenantQuerySet(ScopedQuerySet):
    tenant_path = "id"
    store_path = None
    platform_sees = True


class Tenant(models.Model):
    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    name = models.CharField(_("名称"), max_length=100, validators=[refuse_outer_blanks])
    is_active = models.BooleanField(_("有效"), default=True)
    created_at = models.DateTimeField(default=database_now, editable=False)

    objects = TenantQuerySet.as_manager()

    class Meta:
        verbose_name = _("租户")
        verbose_name_plural = _("租户")
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name


class StoreQuerySet(ScopedQuerySet):
    store_path = "id"
    platform_sees = True


class Store(models.Model):
    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="stores", verbose_name=_("租户"))
    name = models.CharField(_("名称"), max_length=100, validators=[refuse_outer_blanks])
    is_open = models.BooleanField(_("营业中"), default=True)
    created_at = models.DateTimeField(default=database_now, editable=False)

    objects = StoreQuerySet.as_manager()

    class Meta:
        verbose_name = _("店铺")
        verbose_name_plural = _("店铺")
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="store_name_per_tenant")]

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    OPERATOR = "operator", _("运营")
    ADVISOR = "advisor", _("顾问")
    RISK_OPERATOR = "risk_operator", _("风控")
    ADMIN = "admin", _("管理员")


class MemberQuerySet(ScopedQuerySet):
    store_path = None
    platform_sees = True


class Member(models.Model):
    """A Django user's place in one tenant."""

    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="members", verbose_name=_("租户"))
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.PROTECT, related_name="member", verbose_name=_("用户"))
    role = models.CharField(_("角色"), max_length=20, choices=Role.choices)
    # None chosen: all stores of the tenant.
    stores = models.ManyToManyField(Store, blank=True, related_name="members", verbose_name=_("限于店铺"))
    is_active = models.BooleanField(_("有效"), default=True)
    created_at = models.DateTimeField(default=database_now, editable=False)

    objects = MemberQuerySet.as_manager()

    class Meta:
        verbose_name = _("成员")
        verbose_name_plural = _("成员")
        ordering = ["id"]

    def __str__(self) -> str:
        return str(self.user)


class CustomerQuerySet(ScopedQuerySet):
    store_path = None
    customer_path = "id"


class Customer(models.Model):
    """A merchant's customer, known by the merchant's own reference."""

    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="customers", verbose_name=_("租户"))
    external_ref = models.CharField(_("外部编号"), max_length=128, validators=[refuse_outer_blanks])
    display_name = models.CharField(_("称呼"), max_length=100, blank=True)
    is_active = models.BooleanField(_("有效"), default=True)
    created_at = models.DateTimeField(default=database_now, editable=False)

    objects = CustomerQuerySet.as_manager()

    class Meta:
        verbose_name = _("客户")
        verbose_name_plural = _("客户")
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["tenant", "external_ref"], name="customer_ref_per_tenant")]

    def __str__(self) -> str:
        return self.display_name or self.external_ref


class StoreKey(models.Model):
    """A merchant's server proves itself with this; all it can do is mint customer tokens for its store."""

    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="store_keys", verbose_name=_("租户"))
    store = models.ForeignKey(Store, models.PROTECT, related_name="keys", verbose_name=_("店铺"))
    name = models.CharField(_("名称"), max_length=100, validators=[refuse_outer_blanks])
    # Only the hash is kept; 32 random bytes need no slow hash.
    secret_hash = models.CharField(max_length=64, unique=True, editable=False)
    revoked_at = models.DateTimeField(_("停用时间"), null=True, blank=True)
    created_at = models.DateTimeField(default=database_now, editable=False)

    objects = ScopedQuerySet.as_manager()

    class Meta:
        verbose_name = _("店铺密钥")
        verbose_name_plural = _("店铺密钥")
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def new_secret() -> str:
        """Return a fresh secret; it is shown once and never stored."""
        return f"zk_{secrets.token_urlsafe(32)}"

    @staticmethod
    def hash_secret(secret: str) -> str:
        return hashlib.sha256(secret.encode()).hexdigest()


class AuditOutcome(models.TextChoices):
    OK = "OK"
    REFUSED = "REFUSED"
    FAILED = "FAILED"


class AuditEventQuerySet(ScopedQuerySet):
    store_path = None


class AuditEvent(models.Model):
    """Who did what to which object, how it ended and how long it took. Queries appear only as a hash."""

    # No foreign keys: the trail outlives what it names, and writing it locks nothing.
    tenant_id = models.BigIntegerField(null=True)
    actor_kind = models.CharField(max_length=20)
    actor_id = models.BigIntegerField(null=True)
    action = models.CharField(max_length=64)
    object_kind = models.CharField(max_length=64, blank=True)
    object_id = models.CharField(max_length=64, blank=True)
    outcome = models.CharField(max_length=16, choices=AuditOutcome.choices)
    code = models.CharField(max_length=64, blank=True)
    data = models.JSONField(default=dict)
    duration_ms = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(default=database_now, editable=False)

    objects = AuditEventQuerySet.as_manager()

    class Meta:
        verbose_name = _("审计记录")
        verbose_name_plural = _("审计记录")
        ordering = ["-id"]
        indexes = [
            # The audit list of one tenant, newest first.
            models.Index(fields=["tenant_id", "-id"], name="audit_of_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.object_id}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise TypeError("An audit event is never changed.")
        super().save(*args, **kwargs)
