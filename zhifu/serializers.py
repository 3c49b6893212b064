"""Input and output of the house's own addresses."""

from typing import Any

from rest_framework import serializers

from zhifu.fields import NameField, StrictSerializer, TextField


class CustomerTokenInput(StrictSerializer):
    external_ref = NameField(max_length=128)
    display_name = TextField(max_length=100, required=False, allow_blank=True, default="")


class CustomerTokenOutput(serializers.Serializer[Any]):
    access = serializers.CharField()
    expires_in = serializers.IntegerField(help_text="seconds")
    customer_id = serializers.UUIDField()


class ProblemOutput(serializers.Serializer[Any]):
    """RFC 9457 problem details; `code` is stable, `detail` is for people."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField()
    detail = serializers.CharField()
