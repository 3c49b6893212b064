"""Serializer pieces that every app's input uses."""

from typing import Any

from rest_framework import serializers


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that refuses what it does not know: a misspelt or smuggled field is an error, never ignored."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = sorted(set(data) - set(self.fields))
            if unknown:
                raise serializers.ValidationError({name: ["没有这个字段 / Unknown field."] for name in unknown})
        return super().to_internal_value(data)


class TextField(serializers.CharField):
    """Text as people type it: kept exactly (no trimming); NUL and lone surrogates are refused."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("trim_whitespace", False)
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError("必须是文本 / Must be a string.")
        value: str = super().to_internal_value(data)
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise serializers.ValidationError(
                "含有不成对的代理字符 / Contains a lone surrogate; send valid UTF-8."
            ) from error
        return value


class NameField(TextField):
    """An identifier typed by a person: as TextField, and no blanks around it."""

    def to_internal_value(self, data: Any) -> str:
        value = super().to_internal_value(data)
        if value != value.strip():
            raise serializers.ValidationError("前后不能有空格 / No blanks around it.")
        return value
