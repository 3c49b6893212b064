"""Documents, their versions and chunks; index jobs; and which index is in force.

MySQL is the truth. A reader sees a document only through `live_version` and `live_build`; Milvus is a copy
whose rows carry the build that wrote them.
"""

from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from zhifu.jobs import LeasedJob
from zhifu.models import Store, Tenant
from zhifu.scope import ScopedQuerySet
from zhifu.transactions import database_now


class Collection(models.TextChoices):
    """The whitelist of collections; callers name intents, never these."""

    FAQ = "faq", _("常见问题")
    PRODUCT = "product", _("产品")
    POLICY = "policy", _("政策")
    GENERAL = "general", _("其他")


class Audience(models.TextChoices):
    CUSTOMER = "CUSTOMER", _("客户可见")
    STAFF = "STAFF", _("仅员工")


class SourceType(models.TextChoices):
    MANUAL = "manual", _("手工录入")
    FILE = "file", _("文件导入")
    WEB = "web", _("网页")


class DocumentStatus(models.TextChoices):
    DRAFT = "DRAFT", _("草稿")
    PUBLISHED = "PUBLISHED", _("已发布")
    REVOKED = "REVOKED", _("已撤回")


class VersionStatus(models.TextChoices):
    DRAFT = "DRAFT", _("草稿")
    APPROVED = "APPROVED", _("已审核")
    PUBLISHED = "PUBLISHED", _("已发布")
    ARCHIVED = "ARCHIVED", _("已归档")
    REVOKED = "REVOKED", _("已撤回")


class TargetStatus(models.TextChoices):
    BUILDING = "BUILDING"
    ACTIVE = "ACTIVE"
    RETIRED = "RETIRED"


class KnowledgeDocument(models.Model):
    """One document of a store. `version` is the newest number, `status` what became of it;
    `live_version` and `live_build` say what answers right now, whatever is being edited."""

    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    store = models.ForeignKey(Store, models.PROTECT, related_name="documents", verbose_name=_("店铺"))
    version = models.PositiveIntegerField(_("最新版本"), default=1)
    status = models.CharField(_("状态"), max_length=16, choices=DocumentStatus.choices, default=DocumentStatus.DRAFT)
    live_version = models.PositiveIntegerField(_("在线版本"), null=True, editable=False)
    live_build = models.CharField(max_length=80, blank=True, editable=False)
    # Hash of store, person and Idempotency-Key: the same request again makes no second document. Null: no key given.
    creation_key = models.CharField(max_length=64, null=True, unique=True, editable=False)  # noqa: DJ001  # unique where set
    created_at = models.DateTimeField(default=database_now, editable=False)
    updated_at = models.DateTimeField(_("更新时间"), default=database_now, editable=False)

    objects = ScopedQuerySet.as_manager()

    class Meta:
        verbose_name = _("知识文档")
        verbose_name_plural = _("知识文档")
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(live_version=None, live_build="") | (Q(live_version__isnull=False) & ~Q(live_build="")),
                name="document_live_version_with_build",
            )
        ]
        indexes = [
            # The keyword fallback and "is anything live here?" of one store.
            models.Index(fields=["tenant", "store", "live_version"], name="document_live_in_store"),
        ]

    def __str__(self) -> str:
        # Screens read documents together with their newest title.
        return str(getattr(self, "newest_title", None) or self.public_id)


class DocumentVersionQuerySet(ScopedQuerySet):
    tenant_path = "document__tenant_id"
    store_path = "document__store_id"


class DocumentVersion(models.Model):
    """What was written under one number. The text never changes; only status and the live moments do."""

    document = models.ForeignKey(KnowledgeDocument, models.PROTECT, related_name="versions")
    version = models.PositiveIntegerField(_("版本"))
    title = models.CharField(_("标题"), max_length=200)
    source_text = models.TextField(_("正文"))
    collection = models.CharField(_("集合"), max_length=16, choices=Collection.choices)
    source_type = models.CharField(_("来源"), max_length=16, choices=SourceType.choices, default=SourceType.MANUAL)
    # What the document is about in the merchant's own numbers, an article number for example.
    entity_ref = models.CharField(_("关联对象"), max_length=128, blank=True)
    tags = models.JSONField(_("标签"), default=list, blank=True)
    audience = models.CharField(_("受众"), max_length=16, choices=Audience.choices, default=Audience.CUSTOMER)
    # Valid from inclusive, to exclusive; null is open.
    effective_from = models.DateTimeField(_("生效时间"), null=True, blank=True)
    expires_at = models.DateTimeField(_("失效时间"), null=True, blank=True)
    content_hash = models.CharField(max_length=64, editable=False)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", verbose_name=_("作者")
    )
    status = models.CharField(_("状态"), max_length=16, choices=VersionStatus.choices, default=VersionStatus.DRAFT)
    live_from = models.DateTimeField(_("上线时间"), null=True, editable=False)
    live_until = models.DateTimeField(_("下线时间"), null=True, editable=False)
    created_at = models.DateTimeField(_("保存时间"), default=database_now, editable=False)

    objects = DocumentVersionQuerySet.as_manager()

    class Meta:
        verbose_name = _("文档版本")
        verbose_name_plural = _("文档版本")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["document", "version"], name="version_number_per_document"),
            models.CheckConstraint(
                condition=Q(live_until=None) | Q(live_from__isnull=False), name="version_ends_only_after_start"
            ),
            models.CheckConstraint(
                condition=Q(effective_from=None) | Q(expires_at=None) | Q(expires_at__gt=models.F("effective_from")),
                name="version_validity_in_order",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.title} v{self.version}"


class VersionTag(models.Model):
    """A tag of a version as a row, which every database can filter by; `tags` of the version is what is shown."""

    document_version = models.ForeignKey(DocumentVersion, models.CASCADE, related_name="tag_rows")
    tag = models.CharField(max_length=64)

    class Meta:
        ordering = ["document_version_id", "tag"]
        # Also what "does this version carry the tag?" is looked up by.
        constraints = [models.UniqueConstraint(fields=["document_version", "tag"], name="version_tag_once")]

    def __str__(self) -> str:
        return f"{self.document_version_id}:{self.tag}"


class KnowledgeChunkQuerySet(ScopedQuerySet):
    tenant_path = "document_version__document__tenant_id"
    store_path = "document_version__document__store_id"


class KnowledgeChunk(models.Model):
    """A passage: `text == source_text[start:end]`, offsets in characters."""

    document_version = models.ForeignKey(DocumentVersion, models.CASCADE, related_name="chunks")
    position = models.PositiveIntegerField()
    text = models.TextField()
    start = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    # SHA-256 of exactly what was embedded, so that unchanged chunks can reuse their vectors.
    embedded_hash = models.CharField(max_length=64)

    objects = KnowledgeChunkQuerySet.as_manager()

    class Meta:
        ordering = ["document_version_id", "position"]
        constraints = [
            models.UniqueConstraint(fields=["document_version", "position"], name="chunk_position_per_version"),
            models.CheckConstraint(condition=Q(end__gt=models.F("start")), name="chunk_is_not_empty"),
        ]

    def __str__(self) -> str:
        return f"{self.document_version_id}:{self.position}"


class IndexTarget(models.Model):
    """A physical Milvus collection and the model its vectors come from. The ACTIVE one of a collection is what
    searches and publishes use; model and physical name are always read together, from this one row."""

    collection = models.CharField(max_length=16, choices=Collection.choices)
    model = models.CharField(max_length=64)
    revision = models.CharField(max_length=64)
    dimension = models.PositiveIntegerField()
    physical_name = models.CharField(max_length=200, unique=True)
    status = models.CharField(max_length=16, choices=TargetStatus.choices, default=TargetStatus.BUILDING)
    # The collection's code while ACTIVE, else null: one ACTIVE target per collection.
    active = models.CharField(max_length=16, null=True, unique=True, editable=False)  # noqa: DJ001  # unique only where set
    retired_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=database_now, editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(status="ACTIVE", active=models.F("collection")) | (~Q(status="ACTIVE") & Q(active=None)),
                name="target_active_matches_status",
            )
        ]

    def __str__(self) -> str:
        return self.physical_name


class IndexedVersion(models.Model):
    """What a target holds completely: a version under a build."""

    target = models.ForeignKey(IndexTarget, models.CASCADE, related_name="indexed")
    document = models.ForeignKey(KnowledgeDocument, models.CASCADE, related_name="+")
    version = models.PositiveIntegerField()
    build = models.CharField(max_length=80)
    chunks = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=database_now, editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["target", "document", "build"], name="indexed_build_per_target"),
        ]

    def __str__(self) -> str:
        return f"{self.document_id}:{self.version}:{self.build}"


class IndexJobQuerySet(ScopedQuerySet):
    tenant_path = "document__tenant_id"
    store_path = "document__store_id"


class IndexJob(LeasedJob):
    """Bring one version into the active target and make it live."""

    task_name = "knowledge.run_index_job"

    public_id = models.UUIDField(default=uuid4, unique=True, editable=False)
    document = models.ForeignKey(KnowledgeDocument, models.PROTECT, related_name="jobs", verbose_name=_("文档"))
    document_version = models.ForeignKey(DocumentVersion, models.PROTECT, related_name="jobs")
    # The document while this job is open, else null: one open job per document.
    open_document = models.OneToOneField(
        KnowledgeDocument, models.PROTECT, null=True, related_name="open_job", editable=False
    )
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", verbose_name=_("发起人")
    )
    # Where this claim writes its build. No database constraint here and in DeadBuild: it would lock the target after
    # the job, and a flip locks them the other way round.
    target = models.ForeignKey(IndexTarget, models.SET_NULL, null=True, related_name="+", db_constraint=False)
    chunks_total = models.PositiveIntegerField(_("分段数"), default=0)
    chunks_done = models.PositiveIntegerField(_("已完成"), default=0)

    objects = IndexJobQuerySet.as_manager()

    class Meta:
        verbose_name = _("索引任务")
        verbose_name_plural = _("索引任务")
        ordering = ["-id"]
        indexes = [
            # The sweeper: what is due, what is dead.
            models.Index(fields=["status", "run_after"], name="index_job_due"),
        ]

    def __str__(self) -> str:
        return f"#{self.pk}"

    @property
    def build(self) -> str:
        """The build this claim writes: job and lease token, never reused."""
        return f"{self.pk}-{self.lease_token.hex if self.lease_token else ''}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise TypeError("A job row is changed by named UPDATEs that state what they expect.")
        super().save(*args, **kwargs)


class DeadBuild(models.Model):
    """Vectors that nothing will ever make live: to be removed from Milvus, and nothing else with it."""

    target = models.ForeignKey(IndexTarget, models.CASCADE, related_name="+", db_constraint=False)
    tenant_id = models.BigIntegerField()
    document_id = models.BigIntegerField()
    build = models.CharField(max_length=80)
    created_at = models.DateTimeField(default=database_now, editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["target", "document_id", "build"], name="dead_build_once")]

    def __str__(self) -> str:
        return f"{self.document_id}:{self.build}"
