"""Pulsar's messages in a batch byte by byte: SingleMessageMetadata, its keys and properties.

Pulsar's property values are text. A header that is text stays what it is; one that is not UTF-8, is null, or itself
begins with the mark is stored as the mark and base64, and the entry's metadata says that marks are in use.

The grammar, where protobuf leaves room; every breach is CorruptEntry:

* A varint has at most 10 bytes, may be longer than it need be, and bits above the 64th are dropped. A tag is a varint
  below 2³² with a field number of 1 or more.
* A field is known by number and wire type together. Unknown ones of wire types 0, 1, 2 and 5 are skipped, in KeyValue
  too; types 3, 4 (groups), 6 and 7 are refused.
* The last of a repeated scalar field wins; `properties` add up in order. `payload_size`, and `key` and `value` of a
  KeyValue, are required. `payload_size` is the low 32 bits of its varint, signed, and may not be negative; a bool is
  true where its varint is not 0; `event_time` is 64 bits taken as signed, for Kafka's timestamps may be negative.
* Strings are bytes: nothing is refused for not being UTF-8.
* Base64 is the standard alphabet in padded groups of four and nothing else; spare bits of the last group are ignored.
* A message that compaction took out is skipped with its value.
"""

import base64
import binascii
import struct
from collections.abc import Sequence
from functools import lru_cache

from bridge.codec._records import MASK64, check_headers, read_header, read_varint, unsigned, wrapped
from bridge.codec.types import Header, Rebuild, Record
from bridge.errors import CorruptEntry

MARK = b"base64:"
MARKED_NULL = MARK + b"!"  # not base64, so no bytes can be mistaken for it

SMALLEST_MESSAGE = 6
_U32 = struct.Struct(">I")

# SingleMessageMetadata: field numbers and wire types as tag bytes
PROPERTIES, PARTITION_KEY, PAYLOAD_SIZE, COMPACTED_OUT = 0x0A, 0x12, 0x18, 0x20
EVENT_TIME, KEY_B64, ORDERING_KEY, SEQUENCE_ID, NULL_VALUE = 0x28, 0x30, 0x3A, 0x40, 0x48
_NAME, _TEXT = 0x0A, 0x12  # KeyValue


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
    return from_base64(data[len(MARK) :])


def from_base64(text: bytes) -> bytes:
    """Padded base64 of the standard alphabet; raises CorruptEntry for anything else."""
    if len(text) % 4 or text.endswith(b"==="):  # a2b_base64 reads padding that follows whole groups
        raise CorruptEntry("a key or header is not base64")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise CorruptEntry("a key or header is not base64") from error


def read_properties(data: bytes, pos: int, end: int) -> tuple[bytearray, int, bool]:
    """Read a record's headers as properties, one at a time: they, the position after and whether one is marked."""
    count, pos = read_varint(data, pos)
    check_headers(count, pos, end)
    out = bytearray()
    escaped = False
    for _ in range(count):
        name, text, pos = read_header(data, pos, end)
        if text is None or not (name + text).isascii() or name.startswith(MARK) or text.startswith(MARK):
            marked_name, marked_text = mark(name), mark(text)
            escaped = escaped or marked_name is not None or marked_text is not None
            name, text = marked_name or name, marked_text or text or b""
        body = b"".join((b"\x0a", unsigned(len(name)), name, b"\x12", unsigned(len(text)), text))
        out.append(PROPERTIES)
        out += unsigned(len(body))
        out += body
    return out, pos, escaped


def append_message(
    out: bytearray, properties: bytes | bytearray, timestamp: int, key: bytes | None, value: bytes | None
) -> None:
    """Write one message: size, metadata, value."""
    time = b"" if timestamp == -1 else _event_time(timestamp & MASK64)
    size = len(value) if value else 0
    if key is None:
        head = b"".join((properties, b"\x18", unsigned(size), time))
    elif key.isascii() or is_text(key):
        head = b"".join((properties, b"\x12", unsigned(len(key)), key, b"\x18", unsigned(size), time))
    else:
        key = base64.b64encode(key)
        head = b"".join((properties, b"\x12", unsigned(len(key)), key, b"\x18", unsigned(size), time, b"\x30\x01"))
    if value is None:
        head += b"\x48\x01"
    out += _U32.pack(len(head))
    out += head
    if value:
        out += value


def _event_time(value: int) -> bytes:
    if value < 1 << 14:
        return b"\x28" + unsigned(value)
    return bytes((EVENT_TIME, value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80)) + _high_groups(value >> 14)


@lru_cache(maxsize=64)
def _high_groups(value: int) -> bytes:
    return unsigned(value)  # the timestamps of 16 s share all but two of their groups


class Message:
    """The fields of one SingleMessageMetadata."""

    __slots__ = (
        "compacted_out", "event_time", "key", "key_b64", "null_value", "ordering_key", "payload_size", "properties",
    )  # fmt: skip

    def __init__(self) -> None:
        self.properties: list[tuple[bytes, bytes]] = []
        self.key: bytes | None = None
        self.key_b64 = False
        self.ordering_key: bytes | None = None
        self.event_time: int | None = None
        self.payload_size = -1
        self.null_value = False
        self.compacted_out = False

    def record(self, rebuild: Rebuild, offset: int, value: bytes | None) -> Record:
        """The Kafka record this message is at `offset`."""
        key = self.ordering_key if self.key is None else self.key
        if self.key is not None and self.key_b64:
            key = from_base64(self.key)
        return Record(offset, timestamp_of(self.event_time, rebuild), key, value, self._headers(rebuild.escaped))

    def _headers(self, escaped: bool) -> Sequence[Header]:
        if not escaped:
            return self.properties
        headers: list[Header] = []
        for name, text in self.properties:
            plain = unmark(name)
            if plain is None:
                raise CorruptEntry("a header has no key")
            headers.append((plain, unmark(text)))
        return headers


def timestamp_of(event_time: int | None, rebuild: Rebuild) -> int:
    """A record's timestamp; outside our own entries event time 0 is Pulsar's "unset", and none is negative."""
    if rebuild.own:
        return -1 if event_time is None else wrapped(event_time)
    return event_time if event_time and event_time >> 63 == 0 else wrapped(rebuild.publish_time)


def read_message(data: bytes, pos: int, end: int) -> Message:
    """Read the SingleMessageMetadata that is all of data[pos:end]; IndexError where the bytes end."""
    message = Message()
    while pos < end:
        tag, pos = _read_tag(data, pos)
        if tag & 7 == 0:
            number, pos = read_unsigned(data, pos)
            _set_number(message, tag, number)
        elif tag & 7 == 2:
            field, pos = _read_field(data, pos, end)
            _set_field(message, tag, field)
        else:
            pos = _skip_fixed(pos, tag & 7)
    if pos != end:
        raise CorruptEntry("a message's metadata ends in the middle")
    return message


def _set_number(message: Message, tag: int, number: int) -> None:
    if tag == PAYLOAD_SIZE:
        message.payload_size = signed32(number)
    elif tag == EVENT_TIME:
        message.event_time = wrapped(number)
    elif tag == NULL_VALUE:
        message.null_value = number != 0
    elif tag == KEY_B64:
        message.key_b64 = number != 0
    elif tag == COMPACTED_OUT:
        message.compacted_out = number != 0


def _set_field(message: Message, tag: int, field: bytes) -> None:
    if tag == PARTITION_KEY:
        message.key = field
    elif tag == PROPERTIES:
        message.properties.append(_read_property(field))
    elif tag == ORDERING_KEY:
        message.ordering_key = field


def _read_property(data: bytes) -> tuple[bytes, bytes]:
    size = data[1]
    if size < 0x80 and data[0] == _NAME and data[size + 2] == _TEXT and data[size + 3] == len(data) - size - 4 < 0x80:
        return data[2 : size + 2], data[size + 4 :]  # as all write it: two short strings in order
    name = text = None
    pos, end = 0, len(data)
    while pos < end:
        tag, pos = _read_tag(data, pos)
        if tag & 7 == 2:
            field, pos = _read_field(data, pos, end)
            if tag == _NAME:
                name = field
            elif tag == _TEXT:
                text = field
        elif tag & 7 == 0:
            _, pos = read_unsigned(data, pos)
        else:
            pos = _skip_fixed(pos, tag & 7)
    if pos != end or name is None or text is None:
        raise CorruptEntry("a property is not a name and a text")
    return name, text


def _read_tag(data: bytes, pos: int) -> tuple[int, int]:
    tag, pos = read_unsigned(data, pos)
    if not 8 <= tag < 1 << 32:
        raise CorruptEntry(f"a field's tag is {tag}")
    return tag, pos


def _read_field(data: bytes, pos: int, end: int) -> tuple[bytes, int]:
    length, pos = read_unsigned(data, pos)
    stop = pos + length
    if stop > end:
        raise CorruptEntry("a field goes beyond its message")
    return data[pos:stop], stop


def read_unsigned(data: bytes, pos: int) -> tuple[int, int]:
    """Protobuf varint of up to 64 bits; IndexError where the bytes end."""
    raw = data[pos]
    if raw < 0x80:
        return raw, pos + 1
    raw &= 0x7F
    for shift in range(7, 70, 7):
        pos += 1
        byte = data[pos]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw & MASK64, pos + 1
    raise CorruptEntry("a varint is longer than 64 bits need")


def signed32(number: int) -> int:
    """The low 32 bits of a number as protobuf's int32."""
    number &= 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def _skip_fixed(pos: int, kind: int) -> int:
    if kind == 5:
        return pos + 4
    if kind == 1:
        return pos + 8
    raise CorruptEntry(f"a message's metadata has wire type {kind}")
