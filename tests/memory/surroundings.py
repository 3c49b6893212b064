"""What surrounds memory, made to order: a clock that stands still until it is moved, a store that can be cut off, and
a log that is read."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from django.core.cache import caches
from django.db import connection
from django_redis.cache import RedisCache
from redis.exceptions import ConnectionError as RedisGone

_BEGINNING = datetime(2027, 1, 15, 8, tzinfo=UTC)
_LOGGERS = ("memory", "agents", "conversations", "config", "zhifu")

# What customers say, and what each of it wishes; None: an earlier wish is taken back.
WISHES: dict[str, dict[str, str | None]] = {
    "以后请用简洁的方式回复我": {"response_style": "concise"},
    "以后请都讲得详细一些": {"response_style": "detailed"},
    "以后请都用繁体中文回复我": {"language": "zh-Hant"},
    "以后请都用粤语回复我": {"language": "yue"},
    "以后联系我请都用微信": {"contact_channel": "wechat"},
    "以后请都用繁体中文回复我，联系我请都用WhatsApp": {"language": "zh-Hant", "contact_channel": "whatsapp"},
    "之前说的要简洁回复就算了": {"response_style": None},
    "之前说的语言要求就算了": {"language": None},
    "键盘怎么清洁？": {},
}
# Values as they are stored: none of them stands in what customers say.
CODES = ("concise", "detailed", "zh-Hant", "yue", "wechat", "whatsapp")


class Clock:
    """The database's clock of this connection."""

    def __init__(self) -> None:
        self.now = _BEGINNING
        self._set(str(self.now.timestamp()))

    def move(self, by: timedelta = timedelta(seconds=1)) -> None:
        """Let time pass. Days also pass in the store; seconds are nothing to it."""
        self.now += by
        self._set(str(self.now.timestamp()))
        if by >= timedelta(days=1):
            age_store(by)

    def move_to(self, moment: datetime | None) -> None:
        if moment is not None and moment >= self.now:
            self.move(moment - self.now + timedelta(seconds=1))

    def run(self) -> None:
        """Let it go on by itself."""
        self._set("DEFAULT")

    def _set(self, value: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET timestamp = {value}")


class Line(StrEnum):
    """How the store is reached: well, not at all, or so that it does what it is told and the reply is lost."""

    UP = "up"
    CUT = "cut"
    DEAF = "deaf"


class CuttableRedis(RedisCache):
    """The store behind a line that can be cut; `line` is the same for every thread and instance."""

    line = Line.UP

    def add(self, *args: Any, **kwargs: Any) -> Any:
        return self._over_the_line(super().add, args, kwargs)

    def set(self, *args: Any, **kwargs: Any) -> Any:
        return self._over_the_line(super().set, args, kwargs)

    def get(self, *args: Any, **kwargs: Any) -> Any:
        return self._over_the_line(super().get, args, kwargs)

    def get_many(self, *args: Any, **kwargs: Any) -> Any:
        return self._over_the_line(super().get_many, args, kwargs)

    def iter_keys(self, *args: Any, **kwargs: Any) -> Any:
        return self._over_the_line(super().iter_keys, args, kwargs)

    def _over_the_line(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if CuttableRedis.line == Line.CUT:
            raise RedisGone
        result = call(*args, **kwargs)
        if CuttableRedis.line == Line.DEAF:
            raise RedisGone
        return result


@contextmanager
def _beside_the_line() -> Iterator[Any]:
    """Yield the store as somebody sees it who sits beside it."""
    line, CuttableRedis.line = CuttableRedis.line, Line.UP
    try:
        yield caches["memory"]
    finally:
        CuttableRedis.line = line


def contents() -> dict[str, str]:
    """Return everything the store holds; a tombstone is empty."""
    with _beside_the_line() as store:
        keys = list(store.iter_keys("*"))
        return store.get_many(keys) if keys else {}


def holding() -> set[str]:
    """Return every key that holds content."""
    return {key for key, text in contents().items() if text}


def put_back(key: str, text: str, keep: timedelta) -> None:
    """Be a store that was set up anew from an old copy of itself."""
    with _beside_the_line() as store:
        store.set(key, text, keep.total_seconds())


def lose(keys: Iterable[str]) -> None:
    with _beside_the_line() as store:
        store.delete_many(list(keys))


def age_store(by: timedelta) -> None:
    with _beside_the_line() as store:
        for key in list(store.iter_keys("*")):
            left = math.floor(store.pttl(key) - by.total_seconds() * 1000)
            if left > 0:
                store.pexpire(key, left)
            else:
                store.delete(key)


class LogReader(logging.Handler):
    """Reads every record of the product, and keeps those that tell what they must not, or that something broke."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.wrong: list[str] = []
        self._levels = {name: logging.getLogger(name).level for name in _LOGGERS}
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.DEBUG)
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.getMessage()} {record.__dict__}"
        if record.levelno >= logging.ERROR or tells(text):
            self.wrong.append(text)

    def stop(self) -> None:
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)
            logging.getLogger(name).removeHandler(self)


def tells(text: str) -> list[str]:
    """Return what of memory stands in a text: a stored value, or what a customer said."""
    return [word for word in (*CODES, *WISHES) if word in text]


def stated(text: str) -> dict[str, str]:
    """Return how a model states the wishes of a message, with its evidence."""
    return {
        key: word
        for name, value in WISHES[text].items()
        for key, word in ((name, value or "withdrawn"), (f"{name}_evidence", text))
    }
