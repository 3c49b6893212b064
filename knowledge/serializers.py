"""Input and output of documents, versions, index jobs, search and references."""

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from knowledge import content as contents
from knowledge.filters import MAX_VALUES, Filters
from knowledge.models import (
    Audience,
    Collection,
    DocumentStatus,
    SourceType,
    VersionStatus,
)
from knowledge.results import DegradationReason, Rerank, ScoreKind
from knowledge.retrieval import MAX_QUERY
from knowledge.routing import MAX_INTENTS
from knowledge.services import Content
from zhifu.errors import Invalid
from zhifu.fields import NameField, StrictSerializer, TextField
from zhifu.jobs import JobStatus
from zhifu.pagination import Page

# Over HTTP; inside the product a search may give more.
_MAX_LIMIT = 10


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


class DocumentPage(Page):
    results = DocumentSummary(many=True)


class VersionPage(Page):
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


class JobPage(Page):
    results = JobOutput(many=True)


class OneOrMore(serializers.ListField):
    """One value or a list of up to MAX_VALUES; a single string is a list of one, a repeated one is one."""

    def to_internal_value(self, data: Any) -> tuple[str, ...]:  # type: ignore[override]  # what Filters holds
        values = [data] if isinstance(data, str) else data
        # Before each of a million is looked at.
        if isinstance(values, list) and not 1 <= len(values) <= MAX_VALUES:
            raise serializers.ValidationError(f"要有 1 至 {MAX_VALUES} 个值 / Give 1 to {MAX_VALUES} values.")
        return tuple(dict.fromkeys(super().to_internal_value(values)))


class OneOrMoreSchema(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]  # its registration is untyped
    """How the schema says OneOrMore."""

    target_class = OneOrMore

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        # As the library does for the child of a list.
        one = auto_schema._map_serializer_field(self.target.child, direction)
        auto_schema._insert_field_validators(self.target.child, one)
        return {"oneOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": MAX_VALUES}]}


class FiltersInput(StrictSerializer):
    """What a passage must match, in every field that is given: any one of its values. Valid, it is a Filters."""

    source_type = OneOrMore(child=serializers.ChoiceField(SourceType.choices), required=False)
    entity_ref = OneOrMore(child=NameField(max_length=contents.MAX_ENTITY_REF), required=False)
    tags = OneOrMore(child=NameField(max_length=contents.MAX_TAG), required=False, help_text="any of these tags")
    all_tags = OneOrMore(child=NameField(max_length=contents.MAX_TAG), required=False, help_text="every one of these")
    updated_after = MomentField(required=False, help_text="live since this moment or later")
    updated_before = MomentField(required=False, help_text="live since before this moment")
    collection = OneOrMore(
        child=serializers.ChoiceField(Collection.choices),
        required=False,
        help_text="of those that the intents choose; what both name is searched",
    )
    audience = OneOrMore(
        child=serializers.ChoiceField(Audience.choices),
        required=False,
        help_text="of what the caller may see; customers see CUSTOMER only",
    )

    def validate(self, attrs: dict[str, Any]) -> Any:
        try:
            return Filters(**attrs)
        except Invalid as failure:
            raise serializers.ValidationError({failure.details["field"]: [failure.message]}) from failure


class SearchInput(StrictSerializer):
    query = TextField(max_length=MAX_QUERY, help_text="what to look for, in words")
    limit = serializers.IntegerField(min_value=1, max_value=_MAX_LIMIT, default=5)
    intents = serializers.ListField(
        child=TextField(max_length=64),
        min_length=1,
        max_length=MAX_INTENTS,
        required=False,
        default=list,
        help_text="where to look: faq, product_inquiry, policy_explain; left out: everywhere",
    )
    filters = FiltersInput(required=False, help_text="what passages must match")

    def validate_query(self, value: str) -> str:
        if not value.strip():
            raise serializers.ValidationError("不能为空白 / Must not be blank.")
        return value


class ResultOutput(serializers.Serializer[Any]):
    source_id = serializers.UUIDField()
    version = serializers.IntegerField()
    position = serializers.IntegerField()
    title = serializers.CharField()
    snippet = serializers.CharField(help_text="the passage, or the part of it around what was asked")
    score = serializers.FloatField(allow_null=True, help_text="0 to 1; null when degraded")
    score_kind = serializers.ChoiceField(choices=[kind.value for kind in ScoreKind], allow_null=True)
    collection = serializers.ChoiceField(choices=Collection.choices)
    tags = serializers.ListField(child=serializers.CharField())
    updated_at = serializers.DateTimeField(help_text="since when this version answers")
    reference_token = serializers.CharField(help_text="this person's pointer to the document, for an hour")


class SearchOutput(serializers.Serializer[Any]):
    query = serializers.CharField()
    results = ResultOutput(many=True)
    total_candidates = serializers.IntegerField()
    truncated = serializers.BooleanField(help_text="more would have qualified")
    degraded = serializers.BooleanField(help_text="found by keywords in the database only")
    degradation_reason = serializers.ChoiceField(
        choices=[reason.value for reason in DegradationReason], allow_null=True
    )
    searched_collections = serializers.ListField(child=serializers.ChoiceField(choices=Collection.choices))
    rerank = serializers.ChoiceField(
        choices=[outcome.value for outcome in Rerank],
        help_text="whether a reranker ordered the results; failed: it could not be asked, the order is that without it",
    )


class ReferenceOutput(serializers.Serializer[Any]):
    """What a reference points to; never its text."""

    source_id = serializers.UUIDField()
    version = serializers.IntegerField()
    title = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())
    collection = serializers.ChoiceField(choices=Collection.choices)
    updated_at = serializers.DateTimeField()
