"""Pulsar's frames and protobuf messages, as far as reading a topic needs them.

Messages are dicts from field number to values, of PulsarApi.proto's numbers: what is read here is little, and a second
hand-written description of it is worth more as a witness than the bridge's own.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import crc32c

Value = int | bytes
Fields = Mapping[int, list[Value]]

CONNECT, CONNECTED, SUBSCRIBE, MESSAGE, FLOW, SUCCESS, ERROR = 2, 3, 4, 9, 11, 13, 14
CLOSE_CONSUMER, PING, PONG, PARTITIONS, PARTITIONS_ANSWER, LOOKUP, LOOKUP_ANSWER = 16, 18, 19, 21, 22, 23, 24
LAST_ID, LAST_ID_ANSWER, TOPICS, TOPICS_ANSWER, AUTH_CHALLENGE, AUTH_RESPONSE = 29, 30, 32, 33, 36, 37

_U32 = struct.Struct(">I")
_CHECKSUM, _BROKER_METADATA = b"\x0e\x01", b"\x0e\x02"
_MASK = (1 << 64) - 1


class WireError(Exception):
    """Bytes that are not Pulsar's protocol."""


# what the functions here raise for bytes that are not as they should be
DAMAGE = (WireError, IndexError, struct.error, ValueError)


class Entry(NamedTuple):
    """A stored entry as it was delivered."""

    ledger: int
    entry: int
    last_offset: int | None  # of its last message, where the broker tells it
    metadata: Fields
    payload: bytes


def varint(number: int) -> bytes:
    """A number as protobuf writes it; negative ones as 64 bits."""
    number &= _MASK
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(fields: Mapping[int, int | bytes | str | None]) -> bytes:
    """A protobuf message; fields that are None are left out."""
    out = bytearray()
    for number, value in fields.items():
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        elif value is not None:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return bytes(out)


def frame(command: int, fields: Mapping[int, int | bytes | str | None]) -> bytes:
    """A command without an entry; in BaseCommand a command's field has the number of its type."""
    base = message({1: command, command: message(fields)})
    return _U32.pack(len(base) + 4) + _U32.pack(len(base)) + base


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A number and the position after it; IndexError where the bytes end."""
    number = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _MASK, pos
        shift += 7
        if shift > 63:
            raise WireError("a varint of more than ten bytes")


def walk(data: bytes, pos: int = 0) -> Iterator[tuple[int, Value]]:
    """The fields of a message in order: number and value."""
    end = len(data)
    while pos < end:
        tag, pos = read_varint(data, pos)
        kind = tag & 7
        if kind == 0:
            number, pos = read_varint(data, pos)
            yield tag >> 3, number
            continue
        if kind == 2:
            size, pos = read_varint(data, pos)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise WireError(f"wire type {kind}")
        if pos + size > end:
            raise WireError("a field goes beyond its message")
        yield tag >> 3, data[pos : pos + size]
        pos += size


def fields(data: bytes) -> Fields:
    """The fields of a message by number."""
    found: dict[int, list[Value]] = {}
    for number, value in walk(data):
        found.setdefault(number, []).append(value)
    return found


def number(of: Fields, field: int, default: int = 0) -> int:
    """The last value of a number field."""
    value = of[field][-1] if field in of else default
    if not isinstance(value, int):
        raise WireError(f"field {field} is no number")
    return value


def data(of: Fields, field: int) -> bytes:
    """The last value of a field of bytes, empty where it is absent."""
    value = of[field][-1] if field in of else b""
    if not isinstance(value, bytes):
        raise WireError(f"field {field} is a number")
    return value


def text(of: Fields, field: int) -> str:
    """The last value of a text field, empty where it is absent."""
    return data(of, field).decode(errors="replace")


def signed(number: int) -> int:
    """A 64-bit field as Java's long."""
    return number - (1 << 64) if number >> 63 else number


def split(frame: bytes) -> tuple[int, Fields, bytes]:
    """A frame without its size: the command's type and fields, and what follows it."""
    (size,) = _U32.unpack_from(frame)
    base = fields(frame[4 : 4 + size])
    kind = number(base, 1)
    return kind, fields(data(base, kind)), frame[4 + size :]


def entry(of: Fields, body: bytes) -> Entry:
    """The entry of a MESSAGE command."""
    position = fields(data(of, 2))
    index = None
    if body.startswith(_BROKER_METADATA):
        (size,) = _U32.unpack_from(body, 2)
        broker = fields(body[6 : 6 + size])
        index = number(broker, 2) if 2 in broker else None
        body = body[6 + size :]
    if body.startswith(_CHECKSUM):
        (checksum,) = _U32.unpack_from(body, 2)
        body = body[6:]
        if crc32c.crc32c(body) != checksum:
            raise WireError("an entry's checksum is not that of its bytes")
    (size,) = _U32.unpack_from(body)
    return Entry(number(position, 1), number(position, 2), index, fields(body[4 : 4 + size]), body[4 + size :])
