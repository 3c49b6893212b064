"""What can be written into a document version: its fields, their bounds, and their hash."""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from django.utils import timezone

from knowledge.chunking import is_blank
from knowledge.models import Audience, Collection, SourceType
from zhifu.errors import Invalid

MAX_TITLE = 200
# More than MAX_CHUNKS passages can hold: a longer text is refused before it is cut.
MAX_TEXT = 100_000
MAX_ENTITY_REF = 128
MAX_TAGS = 20
MAX_TAG = 64
# Moments that every database stores and every time zone can show.
_FIRST_YEAR, _LAST_YEAR = 1970, 9998


@dataclass(frozen=True)
class Content:
    """Everything that can be edited. Validity is from-inclusive, to-exclusive; None is open."""

    title: str
    source_text: str
    collection: str
    source_type: str = SourceType.MANUAL
    entity_ref: str = ""
    tags: tuple[str, ...] = ()
    audience: str = Audience.CUSTOMER
    effective_from: datetime | None = None
    expires_at: datetime | None = None

    @property
    def hash(self) -> str:
        """SHA-256 of all fields: equal content has equal hashes, whatever time zone its moments came in."""
        fields = asdict(self) | {
            "effective_from": _moment(self.effective_from),
            "expires_at": _moment(self.expires_at),
        }
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def check_content(content: Content) -> None:
    """Raise Invalid, naming the field, for content that cannot be saved. The text's chunks are checked by split."""
    _check_text("title", content.title, MAX_TITLE, "标题", "title")
    if is_blank(content.title):
        raise Invalid("标题不能为空 / The title is empty.", field="title")
    _check_text("source_text", content.source_text, MAX_TEXT, "正文", "text")
    _check_name("entity_ref", content.entity_ref, MAX_ENTITY_REF)
    _check_tags(content.tags)
    for field, value, allowed in (
        ("collection", content.collection, Collection.values),
        ("source_type", content.source_type, SourceType.values),
        ("audience", content.audience, Audience.values),
    ):
        if value not in allowed:
            raise Invalid(
                f"{field} 只能是 {'、'.join(allowed)} 之一 / {field} must be one of {', '.join(allowed)}.", field=field
            )
    _check_validity(content.effective_from, content.expires_at)


def _check_text(field: str, value: str, limit: int, name: str, english: str) -> None:
    if len(value) > limit:
        raise Invalid(f"{name}最多 {limit} 个字符 / The {english} has at most {limit} characters.", field=field)
    if "\x00" in value:
        raise Invalid(f"{name}不能含空字符 / The {english} contains a NUL character.", field=field)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Invalid(
            f"{name}含有不成对的代理字符 / The {english} contains a lone surrogate; send valid UTF-8.", field=field
        ) from error


def _check_name(field: str, value: str, limit: int) -> None:
    """Check an identifier typed by a person."""
    _check_text(field, value, limit, field, field)
    if value != value.strip():
        raise Invalid(f"{field} 前后不能有空格 / {field} must have no blanks around it.", field=field)


def _check_tags(tags: tuple[str, ...]) -> None:
    if len(tags) > MAX_TAGS:
        raise Invalid(f"标签最多 {MAX_TAGS} 个 / At most {MAX_TAGS} tags.", field="tags")
    if len(set(tags)) != len(tags):
        raise Invalid("标签重复 / A tag is given twice.", field="tags")
    for tag in tags:
        _check_name("tags", tag, MAX_TAG)
        if is_blank(tag):
            raise Invalid("标签不能为空 / A tag is empty.", field="tags")


def _check_validity(effective_from: datetime | None, expires_at: datetime | None) -> None:
    for field, moment in (("effective_from", effective_from), ("expires_at", expires_at)):
        if moment is None:
            continue
        if timezone.is_naive(moment):
            raise Invalid(f"{field} 要写明时区 / {field} must say its time zone.", field=field)
        if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
            raise Invalid(f"{field} 年份超出范围 / The year of {field} is out of range.", field=field)
    if effective_from is not None and expires_at is not None and expires_at <= effective_from:
        raise Invalid("失效时间必须晚于生效时间 / expires_at must be after effective_from.", field="expires_at")


def _moment(value: datetime | None) -> str | None:
    return value.astimezone(UTC).isoformat() if value is not None else None
