"""Input and output of search and references."""

from typing import Any

from rest_framework import serializers

from knowledge.models import Collection
from knowledge.results import DegradationReason, ScoreKind
from knowledge.retrieval import MAX_INTENTS, MAX_QUERY
from zhifu.fields import StrictSerializer, TextField

MAX_LIMIT = 10


class SearchInput(StrictSerializer):
    query = TextField(max_length=MAX_QUERY, help_text="what to look for, in words")
    limit = serializers.IntegerField(min_value=1, max_value=MAX_LIMIT, default=5)
    intents = serializers.ListField(
        child=TextField(max_length=64),
        min_length=1,
        max_length=MAX_INTENTS,
        required=False,
        default=list,
        help_text="where to look: faq, product_inquiry, policy_explain; left out: everywhere",
    )

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


class ReferenceOutput(serializers.Serializer[Any]):
    """What a reference points to; never its text."""

    source_id = serializers.UUIDField()
    version = serializers.IntegerField()
    title = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())
    collection = serializers.ChoiceField(choices=Collection.choices)
    updated_at = serializers.DateTimeField()
