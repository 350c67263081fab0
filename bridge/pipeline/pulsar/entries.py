"""Decodes a stored entry into its records, by the format that docs/design/entries.md describes."""

import base64
import binascii
import json
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any, NamedTuple

import cramjam
import lz4.block

from bridge.pipeline.pulsar import wire

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Header = tuple[str, bytes | None]

_MARK = b"base64:"
_MARKED_NULL = b"base64:!"
_OWN, _SIGNATURE = b"kafka.batch", b"kafka.batch.signature"
_U32 = struct.Struct(">I")
_NO_TIME = (1 << 64) - 1  # -1, as Kafka says it
_MAX_CHUNKED = 16  # messages being put together at once

# fields of MessageMetadata
_PUBLISH_TIME, _PROPERTIES, _KEY, _COMPRESSION, _SIZE, _COUNT, _EVENT_TIME, _ENCRYPTION = 3, 4, 6, 8, 9, 11, 12, 13
_KEY_B64, _ORDERING_KEY, _NULL_VALUE, _UUID, _CHUNKS, _CHUNK = 17, 18, 25, 26, 27, 29
# fields of SingleMessageMetadata
_S_PROPERTIES, _S_KEY, _S_SIZE, _S_COMPACTED, _S_EVENT_TIME, _S_KEY_B64, _S_ORDERING_KEY = 1, 2, 3, 4, 5, 6, 7
_S_NULL_VALUE = 9

_MAX_EXPANDED = 255  # bytes that one byte of lz4 can stand for; a forged size must not allocate more memory
_DECOMPRESS: dict[int, Callable[[bytes, int], bytes]] = {
    0: lambda data, size: data,
    1: lambda data, size: bytes(lz4.block.decompress(data, uncompressed_size=min(size, len(data) * _MAX_EXPANDED))),
    2: lambda data, size: zlib.decompressobj().decompress(data, max(size, 1)),
    3: lambda data, size: zstd.ZstdDecompressor().decompress(data, max(size, 1)) if data else b"",
    4: lambda data, size: bytes(cramjam.snappy.decompress_raw(data)),
}
_DAMAGE = (
    wire.WireError, LookupError, ValueError, struct.error, zlib.error, RuntimeError, zstd.ZstdError, EOFError,
    cramjam.DecompressionError, lz4.block.LZ4BlockError,
)  # fmt: skip


class Row(NamedTuple):
    """One record as a Kafka client should see it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class Unreadable(Exception):
    """An entry whose records cannot be decoded."""


class Chunks:
    """Puts chunked messages together (PIP-37): the record stands at its last chunk's offset."""

    def __init__(self) -> None:
        self._open: dict[str, list[bytes]] = {}

    def feed(self, entry: wire.Entry) -> bytes | None:
        """The whole payload with the last chunk, None before."""
        uuid, chunk = wire.text(entry.metadata, _UUID), wire.number(entry.metadata, _CHUNK)
        if chunk == 0:
            self._open[uuid] = []
            if len(self._open) > _MAX_CHUNKED:
                del self._open[next(iter(self._open))]
        pieces = self._open.get(uuid)
        if pieces is None or len(pieces) != chunk:  # its beginning was trimmed, or it was sent twice
            return None
        pieces.append(entry.payload)
        if chunk + 1 < wire.number(entry.metadata, _CHUNKS):
            return None
        return b"".join(self._open.pop(uuid))


def count(entry: wire.Entry) -> int:
    """How many offsets an entry takes."""
    return wire.number(entry.metadata, _COUNT, 1)


def is_chunk(entry: wire.Entry) -> bool:
    """Whether it is a piece of a chunked message."""
    return wire.number(entry.metadata, _CHUNKS) > 1


def rows(entry: wire.Entry, chunks: Chunks) -> Iterator[Row]:
    """The records of an entry; raises Unreadable."""
    if entry.last_offset is None:
        raise Unreadable("the broker tells no index: it needs exposingBrokerEntryMetadataToClientEnabled=true")
    try:
        yield from _rows(entry, entry.last_offset - count(entry) + 1, chunks)
    except _DAMAGE as error:
        raise Unreadable(f"the entry {entry.ledger}:{entry.entry} cannot be read: {error}") from error


def _rows(entry: wire.Entry, base: int, chunks: Chunks) -> Iterator[Row]:
    metadata = entry.metadata
    properties = [_property(item) for item in metadata.get(_PROPERTIES, ())]
    if (b"entry.format", b"kafka") in _before_own(properties):
        raise Unreadable("it holds Kafka batches as they are, which only the bridge reads")
    payload: bytes | None = entry.payload
    if is_chunk(entry):
        payload = chunks.feed(entry)
    if payload is None:
        return
    if _ENCRYPTION not in metadata:
        payload = _DECOMPRESS[wire.number(metadata, _COMPRESSION)](payload, wire.number(metadata, _SIZE))
    if _COUNT in metadata and _ENCRYPTION not in metadata:
        yield from _batch(payload, base, metadata, properties)
        return
    value = None if wire.number(metadata, _NULL_VALUE) else payload
    key = _key(metadata, _KEY, _KEY_B64, _ORDERING_KEY)
    own = _own(properties)
    if own is None:
        time = wire.number(metadata, _EVENT_TIME) or wire.number(metadata, _PUBLISH_TIME)
    else:  # a record that no batch entry holds: its headers stand behind the mark and its signature
        time = wire.number(metadata, _EVENT_TIME, _NO_TIME)
        for name in (_OWN, _SIGNATURE):
            found = next((item for item in properties if item[0] == name), None)
            if found is not None:
                properties.remove(found)
    marked = own is not None and "e" in own
    yield Row(base, wire.signed(time), key, value, [_header(item, marked) for item in properties])


def _before_own(properties: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """What stands before the bridge's mark: behind it are a record's headers."""
    return list(takewhile(lambda item: item[0] != _OWN, properties))


def _own(properties: list[tuple[bytes, bytes]]) -> dict[str, Any] | None:
    """What the bridge has written beside an entry's records; None for other writers' entries."""
    own = json.loads(next((text for name, text in properties if name == _OWN), b"null"))
    if own is not None and not isinstance(own, dict):
        raise Unreadable(f"the property {_OWN.decode()} is not the bridge's")
    return own


def _batch(payload: bytes, base: int, metadata: wire.Fields, properties: list[tuple[bytes, bytes]]) -> Iterator[Row]:
    own = _own(properties)
    marked = own is not None and "e" in own
    publish_time = wire.number(metadata, _PUBLISH_TIME)
    pos = 0
    for offset in range(base, base + wire.number(metadata, _COUNT)):
        (size,) = _U32.unpack_from(payload, pos)
        start = pos + 4 + size
        single = wire.fields(payload[pos + 4 : start])
        pos = start + wire.number(single, _S_SIZE)
        if pos > len(payload):
            raise Unreadable("a message ends in the middle")
        if wire.number(single, _S_COMPACTED):
            continue
        if own is None:
            time = wire.number(single, _S_EVENT_TIME) or publish_time
        else:
            time = wire.number(single, _S_EVENT_TIME, _NO_TIME)
        value = None if wire.number(single, _S_NULL_VALUE) else payload[start:pos]
        key = _key(single, _S_KEY, _S_KEY_B64, _S_ORDERING_KEY)
        headers = [_header(_property(item), marked) for item in single.get(_S_PROPERTIES, ())]
        yield Row(offset, wire.signed(time), key, value, headers)


def _key(of: wire.Fields, key: int, b64: int, ordering: int) -> bytes | None:
    if key not in of:
        return wire.data(of, ordering) if ordering in of else None
    found = wire.data(of, key)
    return base64.b64decode(found, validate=True) if wire.number(of, b64) else found


def _property(item: wire.Value) -> tuple[bytes, bytes]:
    if not isinstance(item, bytes):
        raise Unreadable("a property is a number")
    of = wire.fields(item)
    return wire.data(of, 1), wire.data(of, 2)


def _header(item: tuple[bytes, bytes], marked: bool) -> Header:
    """A property as a header; Kafka's clients show a name that is not UTF-8 with the replacement character."""
    name, text = item
    if not marked:
        return name.decode(errors="replace"), text
    return (_unmark(name) or b"").decode(errors="replace"), _unmark(text)


def _unmark(data: bytes) -> bytes | None:
    if not data.startswith(_MARK):
        return data
    if data == _MARKED_NULL:
        return None
    try:
        return base64.b64decode(data[len(_MARK) :], validate=True)
    except binascii.Error as error:
        raise Unreadable("a header's mark hides nothing") from error
