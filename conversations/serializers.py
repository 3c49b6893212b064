"""Input and output of the conversation addresses."""

from typing import Any

from rest_framework import serializers

from agents.citations import Support
from conversations.models import ConversationStatus, MessageRole
from conversations.services import MAX_TEXT
from zhifu.fields import NameField, StrictSerializer, TextField
from zhifu.jobs import JobStatus
from zhifu.pagination import Page


class ConversationInput(StrictSerializer):
    """Nothing to say: the store is the token's."""


class ConversationOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="public_id")
    status = serializers.ChoiceField(ConversationStatus.choices)
    created_at = serializers.DateTimeField()


class ConversationPage(Page):
    results = ConversationOutput(many=True)


class MessageInput(StrictSerializer):
    text = TextField(max_length=MAX_TEXT)
    client_message_id = NameField(
        max_length=64,
        required=False,
        help_text="The client's own id of this message: sending it again changes nothing and answers the same.",
    )


class MessageQuery(StrictSerializer):
    after = serializers.IntegerField(min_value=0, max_value=2**31 - 1, default=0, help_text="the last sequence seen")
    page_size = serializers.IntegerField(min_value=1, max_value=200, default=50)


class SourceRefOutput(serializers.Serializer[Any]):
    source_id = serializers.UUIDField()
    version = serializers.IntegerField()
    updated_at = serializers.DateTimeField(allow_null=True)
    title = serializers.CharField()
    quote = serializers.CharField()
    support = serializers.ChoiceField(Support.choices)
    reference_token = serializers.CharField(help_text="signed for this reader, good for an hour")


class AnswerOutput(serializers.Serializer[Any]):
    """What the assistant said, and what it stands on; [1] in the text is the first source."""

    text = serializers.CharField()
    generated_by = serializers.CharField(help_text="always `ai`")
    degraded = serializers.BooleanField()
    degradation_reason = serializers.CharField(allow_blank=True)
    source_refs = SourceRefOutput(many=True)


class RunStateOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="public_id")
    status = serializers.ChoiceField(JobStatus.choices)
    error_code = serializers.CharField(allow_blank=True)
    error_message = serializers.CharField(allow_blank=True)
    warning_code = serializers.CharField(
        allow_blank=True, help_text="`MEMORY_UNAVAILABLE`: answered without what is remembered, which cannot be read"
    )


class MessageOutput(serializers.Serializer[Any]):
    """A message: a customer's has a `run` (null while it waits), an assistant's has an `answer`."""

    id = serializers.UUIDField(source="message.public_id")
    sequence = serializers.IntegerField(source="message.sequence")
    role = serializers.ChoiceField(MessageRole.choices, source="message.role")
    text = serializers.CharField(source="message.text")
    committed_at = serializers.DateTimeField(source="message.committed_at")
    client_message_id = serializers.CharField(source="message.client_message_id", allow_null=True)
    run = RunStateOutput(allow_null=True)
    in_reply_to = serializers.UUIDField(allow_null=True)
    answer = AnswerOutput(allow_null=True)


class MessagePage(serializers.Serializer[Any]):
    results = MessageOutput(many=True)
    next_after = serializers.IntegerField(allow_null=True, help_text="`after` of the next page; null on the last")


class AcceptedOutput(serializers.Serializer[Any]):
    """The stored message. `run` is null while an earlier message is being answered: this one is next."""

    message = MessageOutput()
    run = RunStateOutput(allow_null=True)


class RunOutput(RunStateOutput):
    """A run. One that failed because the knowledge changed names the run that asks again."""

    id = serializers.UUIDField(source="run.public_id")
    status = serializers.ChoiceField(JobStatus.choices, source="run.status")
    error_code = serializers.CharField(source="run.error_code", allow_blank=True)
    error_message = serializers.CharField(source="run.error_message", allow_blank=True)
    warning_code = serializers.CharField(source="run.warning_code", allow_blank=True)
    conversation_id = serializers.UUIDField(source="run.conversation.public_id")
    message_id = serializers.UUIDField(source="run.trigger.public_id")
    created_at = serializers.DateTimeField(source="run.created_at")
    finished_at = serializers.DateTimeField(source="run.finished_at", allow_null=True)
    retried_by = serializers.UUIDField(allow_null=True)
    answer = AnswerOutput(allow_null=True)
