"""Pulsar's messages in a batch byte by byte: SingleMessageMetadata, its keys and properties.

Pulsar's property values are text. A header that is text stays what it is; one that is not UTF-8, is null, or itself
begins with the mark is stored as the mark and base64, and the entry's metadata says that marks are in use.
"""

import base64
import binascii
import struct

from bridge.codec._records import unsigned
from bridge.codec.types import Header, Rebuild, Record
from bridge.errors import CorruptEntry

MARK = b"base64:"
MARKED_NULL = MARK + b"!"  # not base64, so no bytes can be mistaken for it

_U32 = struct.Struct(">I")
_MASK64 = (1 << 64) - 1

# SingleMessageMetadata: field numbers and wire types as tag bytes
_PROPERTIES, _PARTITION_KEY, _PAYLOAD_SIZE, _COMPACTED_OUT = 0x0A, 0x12, 0x18, 0x20
_EVENT_TIME, _KEY_B64, _ORDERING_KEY, _NULL_VALUE = 0x28, 0x30, 0x3A, 0x48


def is_text(data: bytes) -> bool:
    """Whether native readers can have these bytes as a string (strict UTF-8)."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def mark(data: bytes | None) -> bytes | None:
    """The text that stands for what cannot be plain text, or None where the bytes can stand as they are."""
    if data is None:
        return MARKED_NULL
    if is_text(data) and not data.startswith(MARK):
        return None
    return MARK + base64.b64encode(data)


def unmark(data: bytes) -> bytes | None:
    """The bytes that `mark` hid; raises CorruptEntry for a mark that hides nothing."""
    if not data.startswith(MARK):
        return data
    if data == MARKED_NULL:
        return None
    return _from_base64(data[len(MARK) :])


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise CorruptEntry("a key or header is not base64") from error


def append_property(out: bytearray, name: bytes, text: bytes | None) -> bool:
    """Write one KeyValue; True when a mark was needed."""
    marked_name, marked_text = mark(name), mark(text)
    name = name if marked_name is None else marked_name
    text = text if marked_text is None else marked_text
    assert text is not None  # noqa: S101 — a null is always marked
    body = b"\x0a" + unsigned(len(name)) + name + b"\x12" + unsigned(len(text)) + text
    out.append(_PROPERTIES)
    out += unsigned(len(body))
    out += body
    return marked_name is not None or marked_text is not None


def append_message(
    out: list[bytes], metadata: bytearray, timestamp: int, key: bytes | None, value: bytes | None
) -> None:
    flagged = False
    if key is not None:
        if not is_text(key):
            key, flagged = base64.b64encode(key), True
        metadata.append(_PARTITION_KEY)
        metadata += unsigned(len(key))
        metadata += key
    metadata.append(_PAYLOAD_SIZE)
    metadata += unsigned(len(value)) if value else b"\0"
    if timestamp != -1:
        metadata.append(_EVENT_TIME)
        metadata += unsigned(timestamp & _MASK64)
    if flagged:
        metadata += b"\x30\x01"
    if value is None:
        metadata += b"\x48\x01"
    out.append(_U32.pack(len(metadata)))
    out.append(bytes(metadata))
    if value:
        out.append(value)


class Message:
    """What a SingleMessageMetadata says; also filled from an entry's own metadata when it is not a batch."""

    __slots__ = (
        "compacted_out", "event_time", "key", "key_b64", "null_value", "ordering_key", "payload_size", "properties",
    )  # fmt: skip

    def __init__(self) -> None:
        self.properties: list[tuple[bytes, bytes]] = []
        self.key: bytes | None = None
        self.key_b64 = False
        self.ordering_key: bytes | None = None
        self.event_time: int | None = None
        self.payload_size = 0
        self.null_value = False
        self.compacted_out = False

    def record(self, rebuild: Rebuild, offset: int, value: bytes | None) -> Record:
        """The Kafka record this message is at `offset`."""
        headers: list[Header] = []
        if self.properties:
            headers.extend(_headers(self.properties, rebuild.escaped))
        key = self.ordering_key if self.key is None else self.key
        if self.key is not None and self.key_b64:
            key = _from_base64(self.key)
        return Record(offset, self._timestamp(rebuild), key, value, headers)

    def _timestamp(self, rebuild: Rebuild) -> int:
        if rebuild.own:
            return -1 if self.event_time is None else self.event_time
        return self.event_time or rebuild.publish_time  # event time 0 is Pulsar's "unset"


def _headers(properties: list[tuple[bytes, bytes]], escaped: bool) -> list[Header]:
    if not escaped:
        return list(properties)
    headers: list[Header] = []
    for name, text in properties:
        plain = unmark(name)
        if plain is None:
            raise CorruptEntry("a header has no key")
        headers.append((plain, unmark(text)))
    return headers


def read_message(data: bytes, pos: int, end: int) -> Message:
    if end > len(data):
        raise CorruptEntry("a message's metadata goes beyond its entry")
    message = Message()
    while pos < end:
        tag, pos = _read_unsigned(data, pos, end)
        kind = tag & 7
        if kind == 0:
            number, pos = _read_unsigned(data, pos, end)
            _set_number(message, tag, number)
        elif kind == 2:
            field, pos = _read_field(data, pos, end)
            _set_field(message, tag, field)
        else:  # no field of 4 or 8 bytes exists; one to come is skipped
            pos += _fixed_size(kind)
    if pos != end:
        raise CorruptEntry("a message's metadata ends in the middle")
    return message


def _set_number(message: Message, tag: int, number: int) -> None:
    if tag == _PAYLOAD_SIZE:
        message.payload_size = _signed(number, 32)
    elif tag == _EVENT_TIME:
        message.event_time = _signed(number, 64)
    elif tag == _NULL_VALUE:
        message.null_value = number != 0
    elif tag == _KEY_B64:
        message.key_b64 = number != 0
    elif tag == _COMPACTED_OUT:
        message.compacted_out = number != 0


def _set_field(message: Message, tag: int, field: bytes) -> None:
    if tag == _PARTITION_KEY:
        message.key = field
    elif tag == _PROPERTIES:
        message.properties.append(_read_property(field))
    elif tag == _ORDERING_KEY:
        message.ordering_key = field


def _read_property(data: bytes) -> tuple[bytes, bytes]:
    name = text = b""
    pos, end = 0, len(data)
    while pos < end:
        tag, pos = _read_unsigned(data, pos, end)
        if tag & 7 != 2:
            raise CorruptEntry("a property is not two strings")
        field, pos = _read_field(data, pos, end)
        if tag == 0x0A:
            name = field
        elif tag == 0x12:
            text = field
    return name, text


def _read_field(data: bytes, pos: int, end: int) -> tuple[bytes, int]:
    length, pos = _read_unsigned(data, pos, end)
    stop = pos + length
    if stop > end:
        raise CorruptEntry("a field goes beyond its message")
    return data[pos:stop], stop


def _read_unsigned(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Protobuf varint of up to 64 bits."""
    if pos < end:
        byte = data[pos]
        if byte < 0x80:
            return byte, pos + 1
    raw = shift = 0
    while pos < end and shift < 70:
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw & _MASK64, pos
        shift += 7
    raise CorruptEntry("a varint ends in the middle")


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _fixed_size(kind: int) -> int:
    if kind == 5:
        return 4
    if kind == 1:
        return 8
    raise CorruptEntry(f"a message's metadata has wire type {kind}")
