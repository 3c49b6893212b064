"""What a search can be narrowed by, besides its words and intents. A filter takes passages away, never adds any.

The index filters first, by integers and whitelisted words; MySQL then compares the real strings and moments.
"""

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from knowledge import words
from knowledge.chunking import is_blank
from knowledge.models import Audience, Collection, SourceType
from zhifu.errors import Invalid

MAX_VALUES = 20
_WORDS = {"source_type": SourceType, "collection": Collection, "audience": Audience}


@dataclass(frozen=True)
class Filters:
    """All given fields must match, each by any one of its values; every one of `all_tags`. Empty or None: not asked.

    Values match exactly as stored. `updated_after` is inclusive, `updated_before` exclusive, over the moment the live
    version went live. Raises Invalid, naming the field, for a value that can match nothing a document may hold.
    """

    source_type: tuple[str, ...] = ()
    entity_ref: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    all_tags: tuple[str, ...] = ()
    updated_after: datetime | None = None
    updated_before: datetime | None = None
    collection: tuple[str, ...] = ()
    audience: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in ("source_type", "entity_ref", "tags", "all_tags", "collection", "audience"):
            _check_values(field, getattr(self, field))
        for field in ("updated_after", "updated_before"):
            moment = getattr(self, field)
            if moment is not None and timezone.is_naive(moment):
                raise Invalid(f"{field} 要写明时区 / {field} must say its time zone.", field=field)
        if self.updated_after and self.updated_before and self.updated_after >= self.updated_before:
            raise Invalid(
                "updated_before 必须晚于 updated_after / updated_before must be after updated_after.",
                field="updated_before",
            )


def _check_values(field: str, values: tuple[str, ...]) -> None:
    if len(values) > MAX_VALUES:
        raise Invalid(f"{field} 最多 {MAX_VALUES} 个值 / {field} takes at most {MAX_VALUES} values.", field=field)
    known = _WORDS[field].values if field in _WORDS else values
    for value in values:
        if value not in known:
            raise Invalid(
                f"{field} 只能是 {'、'.join(known)} 之一 / {field} must be one of {', '.join(known)}.", field=field
            )
        if is_blank(value) or value != value.strip() or not words.is_storable(value):
            raise Invalid(
                f"{field} 的值不能为空白，前后不能有空格 / {field} takes no blank value, and no blanks around one.",
                field=field,
            )


NO_FILTERS = Filters()
