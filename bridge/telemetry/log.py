"""Structured logs: one event a line, its fields as key=value or JSON, nothing a client sent able to forge a line.

Events start with `<` (in), `>` (out), `=` (state) or `!` (error). Records are never logged:
they are other people's secrets.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TextIO

from bridge.config import LogSettings
from bridge.config.urls import without_secrets

Fields = Mapping[str, object]
MOST_CHARACTERS: Final = 500
"""Of a field: clients name what they like, a group by 32,767 bytes."""


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger whose `extra` becomes the event's fields, whatever their names.

    (Plain `extra` refuses names such as `name`, `message` or `args`, and only when the level is enabled.)
    """

    def __init__(self, logger: logging.Logger, fields: Fields | None = None) -> None:
        super().__init__(logger, {})
        self._fields: dict[str, object] = dict(fields or {})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Move `extra` into one attribute of the record."""
        kwargs["extra"] = {"fields": {**self._fields, **(kwargs.get("extra") or {})}}
        return msg, kwargs

    def bind(self, **fields: object) -> "Log":
        """The same log with these fields on every event, such as `conn=7`."""
        return Log(self.logger, {**self._fields, **fields})


def get(name: str) -> Log:
    """The log of one module."""
    return Log(logging.getLogger(name))


class Flood:
    """Lines of one kind that may come by thousands: so many are told in so many seconds, others are counted."""

    def __init__(self, most: int = 10, now: Callable[[], float] = time.monotonic, seconds: float = 1.0) -> None:
        self._most = most
        self._seconds = seconds
        self._now = now
        self._until = float("-inf")
        self._told = self._left_out = 0

    def next_line(self) -> Fields | None:
        """What one more line has beside its own fields: how many were left out before it. None: it is left out."""
        now = self._now()
        if now >= self._until:
            self._until, self._told = now + self._seconds, 0
        if self._told >= self._most:
            self._left_out += 1
            return None
        self._told += 1
        left_out, self._left_out = self._left_out, 0
        return {"left_out": left_out} if left_out else {}


def configure(settings: LogSettings, stream: TextIO | None = None, fields: Fields | None = None) -> None:
    """Send every event, also of the libraries, to the stream (standard error unless told), with these fields."""
    handler = logging.StreamHandler(stream or sys.stderr)
    if fields:
        handler.addFilter(partial(_add_fields, fields))
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(settings.level.upper())
    logging.captureWarnings(True)


def _add_fields(fields: Fields, record: logging.LogRecord) -> bool:
    record.fields = {**fields, **_fields(record)}
    return True


class TextFormatter(logging.Formatter):
    """`2026-01-31T23:59:59.123Z INFO bridge.node.server = listening kafka=127.0.0.1:9092`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback follows indented, so that no line of it can pass for an event."""
        parts = [_time(record), record.levelname, record.name, escape(record.getMessage())]
        parts += [f"{escape(key)}={_text_value(value)}" for key, value in _fields(record).items()]
        lines = [" ".join(parts)]
        lines += [f"    | {escape(line)}" for line in _traceback(self, record).splitlines()]
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """JSON escapes control characters itself; a field cannot replace one of the four fixed keys."""
        line: dict[str, object] = {key: _json_value(value) for key, value in _fields(record).items()}
        traceback = _traceback(self, record)
        if traceback:
            line["traceback"] = traceback
        fixed = {"time": _time(record), "level": record.levelname, "logger": record.name, "event": record.getMessage()}
        return json.dumps({**fixed, **{k: v for k, v in line.items() if k not in fixed}})


def escape(text: str) -> str:
    """The text with line ends, control, bidirectional and other unprintable characters spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def _text_value(value: object) -> str:
    text = "" if value is None else _cut(str(value))
    if text and text.isprintable() and not any(c in ' "=\\' for c in text):
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape(quoted)}"'


def _json_value(value: object) -> object:
    return value if isinstance(value, bool | int | float | None) else _cut(str(value))


def _cut(text: str) -> str:
    """What a line shows of a value."""
    shown = without_secrets(text)
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[:MOST_CHARACTERS]}… of {len(text)} characters"


def _fields(record: logging.LogRecord) -> Fields:
    fields: Fields = getattr(record, "fields", {})
    return fields


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts: list[str] = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return without_secrets("\n".join(parts))
