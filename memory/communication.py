"""How a customer likes to be spoken to: three fields with closed values, and nothing else can be remembered.

Values are codes, never words of a message: nothing that a customer or a model wrote reaches a prompt through them.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

logger = logging.getLogger(__name__)


class ResponseStyle(models.TextChoices):
    CONCISE = "concise", _("简洁")
    DETAILED = "detailed", _("详细")


class Language(models.TextChoices):
    """BCP-47 codes. `zh` is Chinese whose script was not said."""

    CHINESE = "zh", "中文"
    SIMPLIFIED = "zh-Hans", "简体中文"
    TRADITIONAL = "zh-Hant", "繁體中文"
    CANTONESE = "yue", "粵語"
    ENGLISH = "en", "English"
    JAPANESE = "ja", "日本語"
    KOREAN = "ko", "한국어"
    FRENCH = "fr", "Français"
    GERMAN = "de", "Deutsch"
    SPANISH = "es", "Español"
    ITALIAN = "it", "Italiano"
    PORTUGUESE = "pt", "Português"
    RUSSIAN = "ru", "Русский"
    ARABIC = "ar", "العربية"
    THAI = "th", "ไทย"
    VIETNAMESE = "vi", "Tiếng Việt"
    INDONESIAN = "id", "Bahasa Indonesia"
    MALAY = "ms", "Bahasa Melayu"


class ContactChannel(models.TextChoices):
    EMAIL = "email", _("电子邮件")
    PHONE = "phone", _("电话")
    SMS = "sms", _("短信")
    WECHAT = "wechat", _("微信")
    WHATSAPP = "whatsapp", "WhatsApp"
    IN_APP = "in_app", _("在线消息")


# Where tags differ from the codes above. The script of Chinese may be said by a region.
_PRIMARY = {"cmn": "zh", "in": "id"}
_SCRIPTS = {"hans": "zh-Hans", "cn": "zh-Hans", "sg": "zh-Hans"} | dict.fromkeys(("hant", "tw", "hk", "mo"), "zh-Hant")


def canonical_language(tag: str) -> str | None:
    """Return the code of `Language` that a BCP-47 tag comes down to (`en-US` is `en`, `zh-TW` is `zh-Hant`), None
    for a language that cannot be remembered."""
    primary, *rest = tag.strip().lower().replace("_", "-").split("-")
    primary = _PRIMARY.get(primary, primary)
    if primary == "zh":
        if "yue" in rest:
            return Language.CANTONESE.value
        return next((_SCRIPTS[part] for part in rest if part in _SCRIPTS), Language.CHINESE.value)
    return primary if primary in Language.values else None


def _one_of(choices: type[models.TextChoices]) -> Callable[[str], str | None]:
    return lambda value: value if value in choices.values else None


# Field -> what makes a stated value one that can be remembered, or None.
_CANONICAL: dict[str, Callable[[str], str | None]] = {
    "response_style": _one_of(ResponseStyle),
    "language": canonical_language,
    "contact_channel": _one_of(ContactChannel),
}
FIELDS = tuple(_CANONICAL)


def canonical(field: str, value: Any) -> str | None:
    """Return `value` as it is stored under `field`; None when it cannot be."""
    return _CANONICAL[field](value) if isinstance(value, str) else None


@dataclass(frozen=True)
class Communication:
    """What is known; None: nothing."""

    response_style: str | None = None
    language: str | None = None
    contact_channel: str | None = None

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> "Communication":
        """Return what the stored content says. Fields and values of another schema are skipped, and logged."""
        known = {field: canonical(field, stored[field]) for field in FIELDS if stored.get(field) is not None}
        odd = sorted(set(stored) - set(FIELDS)) + sorted(field for field, value in known.items() if value is None)
        if odd:
            # How many, not which: even the name of a key is content that somebody else wrote.
            logger.warning("stored memory has fields or values of another schema", extra={"skipped": len(odd)})
        return cls(**known)

    def stored(self) -> dict[str, str]:
        """Return the content to store: only what is known."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in values if value is not None}

    def only(self, names: Iterable[str]) -> "Communication":
        """Return this with every field forgotten that is not among `names`."""
        return replace(self, **dict.fromkeys(set(FIELDS) - set(names)))

    def __bool__(self) -> bool:
        return bool(self.stored())


# A value that was said long ago counts for less: after each half-life half of its confidence is left, and below the
# least it is no longer used. Said by the customer in the settings: 60 days; understood from a message: 51 days.
HALF_LIFE = timedelta(days=60)
LEAST_CONFIDENCE = 0.5
USER_CONFIDENCE = 1.0
EXTRACTED_CONFIDENCE = 0.9


def confidence_now(confidence: float, stated_at: datetime, now: datetime) -> float:
    """Return what is left, in 0..1, of a `confidence` given at `stated_at`."""
    age = max(now - stated_at, timedelta(0))
    return float(confidence * 0.5 ** (age / HALF_LIFE))
