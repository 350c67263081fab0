"""A look at the records of one partition: the newest, or those from an offset or a time on, or those with a key.

Off unless `http.show_records` is set, and each look is told to the audit log. It changes nothing: a reader of Pulsar's
lasts for one answer, no group and no producer knows of it. Records of open and of aborted transactions are shown, too.

What is read and what is shown is bounded, and one look is under way at a time. Keys, values and headers are whatever
some client has written: they leave here as JSON text, and the page's script puts them into text nodes alone.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterator
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bridge.codec import CONTROL, Record
from bridge.errors import BridgeError
from bridge.http.response import ASKED_BY
from bridge.http.status.query import BadQuery, Query
from bridge.storage.entries import ATTRIBUTES_AT, each_record
from bridge.telemetry import log

if TYPE_CHECKING:
    from bridge.http.status.sources import Services

USUAL_RECORDS: Final = 20
MOST_RECORDS: Final = 100
MOST_READ_BYTES: Final = 8 * 1024 * 1024
"""Of one look."""
SECONDS: Final = 8.0
_BACK: Final = 20_000
"""So many offsets before the end the newest records with a key are looked for."""
_MOST_UNPACKED: Final = 16 * 1024 * 1024
"""Of one batch."""
_MOST_IN_BATCH: Final = 50_000
_MOST_VALUE, _MOST_KEY, _MOST_HEADER = 4096, 512, 256
"""Bytes that are shown of each."""
_MOST_HEADERS: Final = 20
_MOST_INDENTED: Final = 4 * _MOST_VALUE
_DEEPEST: Final = 50
_SPACE: Final = "  "

_audit = log.get("bridge.audit")


class Shown(NamedTuple):
    """What is shown of a key, a value or a header."""

    kind: str
    """`none`, `text`, `json` or `hex`."""
    text: str
    bytes: int
    """Of all of it."""
    cut: bool
    """Whether the text is of the beginning alone."""


class _Found:
    """The rows of the records that are wanted, as they are met. Records themselves are not kept: they may be large."""

    def __init__(self, query: Query, since: int, most: int) -> None:
        self._key = wanted_key(query.key)
        self._since_time = query.at if query.start == "time" else None
        self._since = since
        self._most = most
        self._is_newest = query.start in ("", "newest")
        self._rows: deque[dict[str, Any]] = deque(maxlen=most)
        self.next = since

    @property
    def is_full(self) -> bool:
        """Whether what follows is not shown."""
        return not self._is_newest and len(self._rows) >= self._most

    def add(self, batches: bytes, *, by_kafka: bool) -> bool:
        """Take what is wanted of a stored entry; False where it has more records than are looked at. What only brokers
        write is left out."""
        if len(batches) > ATTRIBUTES_AT and batches[ATTRIBUTES_AT] & CONTROL:
            return True
        wanted: deque[Record] = deque(maxlen=self._most)
        is_whole = True
        for number, record in enumerate(each_record(batches, _MOST_UNPACKED)):
            is_whole = number < _MOST_IN_BATCH
            if not is_whole or (not self._is_newest and len(self._rows) + len(wanted) >= self._most):
                break
            self.next = record.offset + 1
            if record.offset >= self._since and self._is_wanted(record):
                wanted.append(record)
        self._rows.extend(_row(record, by_kafka=by_kafka) for record in wanted)
        return is_whole

    def rows(self) -> list[dict[str, Any]]:
        """What was found, as it is shown."""
        return list(self._rows)

    def _is_wanted(self, record: Record) -> bool:
        if self._since_time is not None and record.timestamp < self._since_time:
            return False
        return self._key is None or record.key == self._key


class RecordLook:
    """Looks at records for the page."""

    def __init__(self) -> None:
        self._looking = asyncio.Lock()

    async def answer(self, services: "Services", topic: str, query: Query) -> dict[str, object]:
        """What is found; BadQuery says why nothing can be."""
        wanted_key(query.key)  # an unfit one is told at once
        if self._looking.locked():
            raise BadQuery("someone looks at records at this moment: try again")
        async with self._looking:
            try:
                async with asyncio.timeout(2 * SECONDS):
                    found = await self._look(services, topic, query)
            except TimeoutError:
                audit(query, outcome="no answer")
                raise BadQuery("Pulsar did not answer in time") from None
            except BridgeError as error:
                audit(query, outcome="failed")
                raise BadQuery(f"Pulsar does not give these records: {error}") from None
        audit(query, outcome="shown", records=len(found["records"]), bytes=found["read"])
        return found

    async def _look(self, services: "Services", topic: str, query: Query) -> dict[str, Any]:
        logs, number = services.closed_logs, query.partition
        known = await services.topics.get(topic)
        end = None if known is None else await logs.end(topic, number)
        if known is None or end is None or number >= known.partitions:
            raise BadQuery("there is no such partition")
        start = await logs.start(topic, number, end)
        most = min(query.most or USUAL_RECORDS, MOST_RECORDS)
        since = max(start, end.offset - (_BACK if query.key else most))
        if query.start == "offset":
            since = max(start, query.at)
        elif query.start == "time":
            at = await logs.offset_at(topic, number, query.at)
            since = end.offset if at is None else max(start, at)
        found = _Found(query, since, most)
        read, stopped = 0, ""
        if since < end.offset:
            read, stopped = await _read(services, topic, number, since, found)
        return {
            "records": found.rows(),
            "start": start,
            "end": end.offset,
            "since": since,
            "next": found.next,
            "read": read,
            "stopped": stopped,
        }


async def _read(services: "Services", topic: str, number: int, since: int, found: _Found) -> tuple[int, str]:
    """Read from an offset on into `found`; the bytes that were read, and what was left out, or ended it early."""
    read, left_out = 0, ""
    try:
        async with asyncio.timeout(SECONDS), aclosing(services.closed_logs.entries(topic, number, since)) as entries:
            async for batch, by_kafka in entries:
                data = batch.kafka()
                read += len(data)
                try:
                    is_whole = await asyncio.to_thread(found.add, data, by_kafka=by_kafka)
                except BridgeError as error:
                    is_whole, left_out = True, f"the batch at {batch.base} cannot be read: {error}"
                if found.is_full:
                    return read, left_out
                found.next = batch.next
                if not is_whole:
                    left_out = f"of the batch at {batch.base} the first {_MOST_IN_BATCH:,} records alone"
                if read >= MOST_READ_BYTES:
                    return read, f"{read:,} bytes were read"
    except TimeoutError:
        return read, f"{SECONDS:.0f} seconds have passed"
    except BridgeError as error:
        if not read:
            raise
        return read, f"what follows cannot be read: {error}"
    return read, left_out


def audit(query: Query, **more: object) -> None:
    """Tell the audit log that someone looks, at what, and from where; never the key."""
    fields = {
        "listener": "http", "peer": ASKED_BY.get(), "topic": query.item[:500], "partition": query.partition,
        "start": query.start or "newest", "at": query.at, "by_key": bool(query.key),
    }  # fmt: skip
    _audit.info("= records looked at", extra={**fields, **more})


def wanted_key(text: str) -> bytes | None:
    """The key that is asked for: text, or after `0x` its bytes; BadQuery."""
    if not text.startswith("0x"):
        return text.encode() if text else None
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise BadQuery("a key that begins with 0x is written in hexadecimal digits") from None


# ---- how they are shown ----------------------------------------------------------------------------------------------


def _row(record: Record, *, by_kafka: bool) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": None if record.timestamp < 0 else record.timestamp,
        "writer": "Kafka" if by_kafka else "Pulsar",
        "key": shown(record.key, _MOST_KEY)._asdict(),
        "value": shown(record.value, _MOST_VALUE)._asdict(),
        "headers": [
            [shown(name, _MOST_HEADER).text, shown(value, _MOST_HEADER)._asdict()]
            for name, value in islice(record.headers, _MOST_HEADERS)
        ],
        "more_headers": max(0, len(record.headers) - _MOST_HEADERS),
    }


def shown(data: bytes | None, most: int) -> Shown:
    """Text as it is, JSON with a line for each element, all else as hexadecimal bytes."""
    if data is None:
        return Shown("none", "", 0, False)
    size, cut = len(data), len(data) > most
    text = _text(data[:most], cut=cut)
    if text is None:
        return Shown("hex", data[: most // 4].hex(" "), size, size > most // 4)
    if not cut and text[:1] in ("{", "["):
        lines = indented(text)
        if lines is not None and len(lines) <= _MOST_INDENTED:
            return Shown("json", lines, size, False)
    return Shown("text", text, size, cut)


def _text(data: bytes, *, cut: bool) -> str | None:
    """UTF-8 without control characters; None where it is something else. `cut`: a character may lack its end."""
    for missing in range(4 if cut else 1):
        try:
            text = data[: len(data) - missing].decode()
        except UnicodeDecodeError:
            continue
        return None if any((one < " " and one not in "\t\n\r") or one == "\x7f" for one in text) else text
    return None


def indented(text: str) -> str | None:
    """JSON with a line for each element, and else unchanged: numbers keep their digits, names may come twice.

    None where it is no JSON, or nested too deeply to be read.
    """
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    depth = 0
    for token in _tokens(text):
        if token in ("}", "]"):
            depth -= 1
            if parts[-1] in ("{", "["):
                parts.append(token)
                continue
            parts.append("\n" + _SPACE * depth + token)
            continue
        if parts and parts[-1] in ("{", "["):
            parts.append("\n" + _SPACE * depth)
        if token in ("{", "["):
            depth += 1
            if depth > _DEEPEST:
                return None
        parts.append({",": ",\n" + _SPACE * depth, ":": ": "}.get(token, token))
    return "".join(parts)


def _tokens(text: str) -> Iterator[str]:
    """The brackets, commas, colons, strings and other values of what is JSON."""
    at = 0
    while at < len(text):
        one = text[at]
        end = at + 1
        if one == '"':
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            end += 1
        elif one not in "{}[],: \t\n\r":
            while end < len(text) and text[end] not in "{}[],: \t\n\r":
                end += 1
        if not one.isspace():
            yield text[at:end]
        at = end
