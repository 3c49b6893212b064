"""Input and output of documents, versions and index jobs."""

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from knowledge import content as contents
from knowledge.models import (
    Audience,
    Collection,
    DocumentStatus,
    SourceType,
    VersionStatus,
)
from knowledge.services import Content
from zhifu.fields import NameField, StrictSerializer, TextField
from zhifu.jobs import JobStatus
from zhifu.pagination import Cursor


class MomentField(serializers.DateTimeField):
    """A moment that says its time zone; what is meant by one without is anybody's guess."""

    def enforce_timezone(self, value: datetime) -> datetime:
        if timezone.is_naive(value):
            raise serializers.ValidationError("要写明时区 / Say the time zone, as in 2026-01-31T08:00:00+08:00.")
        try:
            return value.astimezone(UTC)
        except OverflowError as error:
            raise serializers.ValidationError("年份超出范围 / The year is out of range.") from error


class ContentInput(StrictSerializer):
    """Everything that can be edited; PUT replaces all of it."""

    title = TextField(max_length=contents.MAX_TITLE)
    source_text = TextField(max_length=contents.MAX_TEXT)
    collection = serializers.ChoiceField(Collection.choices)
    source_type = serializers.ChoiceField(SourceType.choices, default=SourceType.MANUAL)
    entity_ref = NameField(max_length=contents.MAX_ENTITY_REF, allow_blank=True, default="")
    tags = serializers.ListField(
        child=NameField(max_length=contents.MAX_TAG), max_length=contents.MAX_TAGS, default=list
    )
    audience = serializers.ChoiceField(Audience.choices, default=Audience.CUSTOMER)
    effective_from = MomentField(allow_null=True, default=None)
    expires_at = MomentField(allow_null=True, default=None)

    def content(self) -> Content:
        """Return the validated input as content."""
        fields = {name: value for name, value in self.validated_data.items() if name != "expected_version"}
        return Content(**(fields | {"tags": tuple(fields["tags"])}))


class ReviseInput(ContentInput):
    expected_version = serializers.IntegerField(min_value=1, max_value=2**31 - 1)


class ExpectedVersionInput(StrictSerializer):
    expected_version = serializers.IntegerField(min_value=1, max_value=2**31 - 1)


class VersionSummary(serializers.Serializer[Any]):
    """A version without its text."""

    version = serializers.IntegerField()
    status = serializers.ChoiceField(VersionStatus.choices)
    title = serializers.CharField()
    collection = serializers.ChoiceField(Collection.choices)
    source_type = serializers.ChoiceField(SourceType.choices)
    entity_ref = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())
    audience = serializers.ChoiceField(Audience.choices)
    effective_from = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    author = serializers.CharField(source="author.username", allow_null=True, default=None)
    live_from = serializers.DateTimeField(allow_null=True)
    live_until = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class VersionOutput(VersionSummary):
    source_text = serializers.CharField()


class DocumentSummary(serializers.Serializer[Any]):
    """A document and what was written into it last. `version` is the number to expect; revoking takes one too."""

    id = serializers.UUIDField(source="public_id")
    version = serializers.IntegerField()
    status = serializers.ChoiceField(DocumentStatus.choices)
    live_version = serializers.IntegerField(allow_null=True, help_text="what answers right now")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    newest = serializers.SerializerMethodField()

    @extend_schema_field(VersionSummary)
    def get_newest(self, document: Any) -> dict[str, Any]:
        return dict(VersionSummary(document.newest[0]).data)


class DocumentOutput(DocumentSummary):
    @extend_schema_field(VersionOutput)
    def get_newest(self, document: Any) -> dict[str, Any]:
        return dict(VersionOutput(document.newest[0]).data)


class PageQuery(StrictSerializer):
    cursor = serializers.CharField(required=False, help_text="from `next` or `previous`")
    page_size = serializers.IntegerField(min_value=1, max_value=Cursor.max_page_size, required=False)


class DocumentPage(serializers.Serializer[Any]):
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = DocumentSummary(many=True)


class VersionPage(serializers.Serializer[Any]):
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = VersionSummary(many=True)


class JobOutput(serializers.Serializer[Any]):
    """How far a publication is; a job that failed says why."""

    id = serializers.UUIDField(source="public_id")
    document_id = serializers.UUIDField(source="document.public_id")
    version = serializers.IntegerField(source="document_version.version")
    status = serializers.ChoiceField(JobStatus.choices)
    chunks_total = serializers.IntegerField()
    chunks_done = serializers.IntegerField()
    attempts = serializers.IntegerField()
    run_after = serializers.DateTimeField()
    error_code = serializers.CharField()
    error_message = serializers.CharField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class JobPage(serializers.Serializer[Any]):
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = JobOutput(many=True)
