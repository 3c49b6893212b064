"""Input and output of the memory addresses."""

from typing import Any

from rest_framework import serializers

from memory.communication import FIELDS, ContactChannel, Language, ResponseStyle, canonical_language
from memory.models import EventKind, Source
from zhifu.fields import StrictSerializer
from zhifu.pagination import Page
from zhifu.scope import ActorKind


class CodeField(serializers.ChoiceField):
    """One of the codes that can be remembered."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or data not in self.choices:
            known = ", ".join(map(str, self.choices))
            raise serializers.ValidationError(f"不能记住这个值，可以是 / This cannot be remembered; one of: {known}.")
        return data


class LanguageField(CodeField):
    """A BCP-47 tag of a language that can be remembered; `en-US` is stored as `en`, `zh-TW` as `zh-Hant`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(Language.choices, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        known = canonical_language(data) if isinstance(data, str) else None
        return super().to_internal_value(known or data)


class RevisionField(serializers.IntegerField):
    """A JSON number: DRF takes its text too, and refuses true and false."""

    def to_internal_value(self, data: Any) -> int:
        if not isinstance(data, int):
            raise serializers.ValidationError("必须是整数 / Must be an integer.")
        return int(super().to_internal_value(data))


class ChoiceOfConsent(serializers.BooleanField):
    """true or false: whether somebody consents is not read out of "yes", 1 or "off"."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            raise serializers.ValidationError("必须是 true 或 false / Must be true or false.")
        return data


class RevisionInput(StrictSerializer):
    expected_revision = RevisionField(
        min_value=0, max_value=2**63 - 1, help_text="`revision` as it was last read; another one is answered 409"
    )


class ConsentInput(RevisionInput):
    enabled = ChoiceOfConsent(help_text="whether to remember; what was remembered goes in either case")


class ChangeInput(RevisionInput):
    """At least one field; null removes it, a field that is left out stays as it is."""

    response_style = CodeField(ResponseStyle.choices, required=False, allow_null=True)
    language = LanguageField(required=False, allow_null=True)
    contact_channel = CodeField(ContactChannel.choices, required=False, allow_null=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not set(attrs) & set(FIELDS):
            raise serializers.ValidationError(f"至少给出一个字段 / Give at least one field: {', '.join(FIELDS)}.")
        return attrs


class CommunicationOutput(serializers.Serializer[Any]):
    response_style = serializers.ChoiceField(ResponseStyle.choices, allow_null=True)
    language = serializers.ChoiceField(Language.choices, allow_null=True)
    contact_channel = serializers.ChoiceField(ContactChannel.choices, allow_null=True)


class OriginOutput(serializers.Serializer[Any]):
    """Who set a field: the customer (`user`), or a job that read a message (`extraction`)."""

    field = serializers.ChoiceField(FIELDS)
    source = serializers.ChoiceField(Source.choices)  # type: ignore[assignment]  # its name in the API
    message_id = serializers.UUIDField(source="message.public_id", allow_null=True, default=None)
    job_id = serializers.UUIDField(source="job.public_id", allow_null=True, default=None)
    stated_at = serializers.DateTimeField()
    confidence = serializers.FloatField(help_text="when it was stated; it halves every 60 days, below 0.5 it is unused")


class MemoryOutput(serializers.Serializer[Any]):
    """What is remembered about the customer who asks; `communication` is empty without consent."""

    consent = serializers.BooleanField(source="profile.consent")
    epoch = serializers.IntegerField(source="profile.epoch")
    revision = serializers.IntegerField(source="profile.revision")
    communication = CommunicationOutput()
    origins = OriginOutput(many=True)
    expires_at = serializers.DateTimeField(allow_null=True, help_text="until when this is kept, unless said again")


class MemoryEventOutput(serializers.Serializer[Any]):
    """What happened: names of fields, never what was remembered."""

    kind = serializers.ChoiceField(EventKind.choices)
    epoch = serializers.IntegerField()
    revision = serializers.IntegerField()
    fields = serializers.ListField(child=serializers.CharField())  # type: ignore[assignment]  # its name in the API
    by = serializers.ChoiceField(ActorKind.choices, source="actor_kind", allow_blank=True)
    message_id = serializers.UUIDField(source="job.message.public_id", allow_null=True, default=None)
    job_id = serializers.UUIDField(source="job.public_id", allow_null=True, default=None)
    run_id = serializers.UUIDField(source="run.public_id", allow_null=True, default=None)
    created_at = serializers.DateTimeField()


class MemoryEventPage(Page):
    results = MemoryEventOutput(many=True)
