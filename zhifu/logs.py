"""Log lines: a constant message, and the data apart, as key=value."""

import logging
import time

_OWN = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    """Appends what a call gave as `extra`; times are UTC."""

    @staticmethod
    def converter(seconds: float | None) -> time.struct_time:
        return time.gmtime(seconds)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the library's name
        data = [f"{name}={value!r}" for name, value in record.__dict__.items() if name not in _OWN]
        return " ".join([super().formatMessage(record), *data])
