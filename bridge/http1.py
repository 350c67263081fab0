"""HTTP/1.1 as far as the bridge speaks it (RFC 9112): heads and bodies, read from a stream.

The admin interface's client and the operator's side are small enough for it; a whole HTTP library took a third of the
time that a start takes.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

_BODILESS = (204, 304)


class HttpError(Exception):
    """What came is not HTTP/1.1, or not all of it."""


class Head(NamedTuple):
    """What comes before a body; `first` is the request line or the status line, names of headers are in lower case."""

    first: str
    headers: Mapping[str, str]


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head, as far as the reader's limit goes; None where the stream ends before it."""
    try:
        block = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise HttpError("the connection was closed in the midst of a head") from None
    except asyncio.LimitOverrunError:
        raise HttpError("the head is too long") from None
    first, *lines = block[:-4].decode("latin-1").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpError(f"not a header: {line[:100]!r}")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Head(first, headers)


def status_of(head: Head) -> tuple[int, str]:
    """Status code and reason of an answer."""
    version, _, rest = head.first.partition(" ")
    code, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdecimal():
        raise HttpError(f"not an answer: {head.first[:100]!r}")
    return int(code), reason


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """The body of an answer (RFC 9112, 6.3)."""
    status, _ = status_of(head)
    if status < 200 or status in _BODILESS:
        return b""
    try:
        coding = head.headers.get("transfer-encoding", "").lower()
        if coding == "chunked":
            return await _read_chunks(reader)
        if coding:
            raise HttpError(f"transfer coding {coding[:100]!r} is not known here")
        length = head.headers.get("content-length")
        return await (reader.read() if length is None else reader.readexactly(_size(length, 10)))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise HttpError("the connection was closed in the midst of a body") from None


def ends_with_connection(head: Head) -> bool:
    """Whether nothing more comes behind this answer."""
    status, _ = status_of(head)
    sized = {"content-length", "transfer-encoding"} & head.headers.keys() or status in _BODILESS
    options = [option.strip() for option in head.headers.get("connection", "").lower().split(",")]
    return not sized or "close" in options or (head.first.startswith("HTTP/1.0") and "keep-alive" not in options)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    chunks = bytearray()
    while True:
        line = await reader.readuntil(b"\r\n")
        size = _size(line.decode("latin-1").partition(";")[0].strip(), 16)
        if not size:
            break
        chunks += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise HttpError("a chunk does not end where it says")
    while await reader.readuntil(b"\r\n") != b"\r\n":  # trailers
        pass
    return bytes(chunks)


def _size(text: str, base: int) -> int:
    """Digits alone: `int` would take signs, blanks and underscores too."""
    if not text.isascii() or not text.isalnum():
        raise HttpError(f"not a size: {text[:100]!r}")
    try:
        return int(text, base)
    except ValueError:
        raise HttpError(f"not a size: {text[:100]!r}") from None
