"""Kafka messages: described once as a typed dataclass, encoded and decoded in every version.

    @message
    class Request:
        group_id: str
        generation_id: Int32
        group_instance_id: Annotated[str | None, since(3)] = None

The codecs of a (class, version) are put together at its first use and kept.
"""

import struct
from typing import Any, TypeVar, cast

from bridge.kafka.primitives import Buffer, DecodeError, ElementLimit, EncodeError
from bridge.kafka.reading import struct_reader
from bridge.kafka.schema import (
    ZERO_UUID,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    RecordBuffers,
    Records,
    Uint16,
    Uint32,
    Uuid,
    arrays_of,
    fields_of,
    message,
    nullable_since,
    since,
    tag,
    until,
    with_defaults,
)
from bridge.kafka.writing import struct_writer

__all__ = [
    "ZERO_UUID",
    "Buffer",
    "DecodeError",
    "EncodeError",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "RecordBuffers",
    "Records",
    "Uint16",
    "Uint32",
    "Uuid",
    "arrays_of",
    "decode",
    "decode_prefix",
    "encode",
    "encode_into",
    "fields_of",
    "message",
    "nullable_since",
    "since",
    "tag",
    "until",
    "with_defaults",
]

_T = TypeVar("_T")


def decode(cls: type[_T], buffer: Buffer, version: int, flexible: bool) -> _T:
    """The message that fills the buffer; anything cut off, left over or out of bounds is a DecodeError."""
    result, at = decode_prefix(cls, buffer, version, flexible)
    if at != len(buffer):
        raise DecodeError(f"{cls.__qualname__} v{version}: {len(buffer) - at} bytes left over")
    return result


def decode_prefix(cls: type[_T], buffer: Buffer, version: int, flexible: bool) -> tuple[_T, int]:
    """The message that the buffer begins with, and where it ends."""
    read = struct_reader(cast(type, cls), version, flexible)
    try:
        result, at = read(memoryview(buffer), 0, ElementLimit())
    except (struct.error, IndexError):
        raise DecodeError(f"{cls.__qualname__} v{version} is cut off") from None
    return cast(_T, result), at


def encode(value: Any, version: int, flexible: bool) -> bytearray:
    """The bytes of the message."""
    out = bytearray()
    encode_into(out, value, version, flexible)
    return out


def encode_into(out: bytearray, value: Any, version: int, flexible: bool) -> None:
    """Append the bytes of the message."""
    cls: type = type(value)
    write = struct_writer(cls, version, flexible)
    try:
        write(out, value)
    except (struct.error, TypeError, AttributeError) as error:
        raise EncodeError(f"{cls.__module__}.{cls.__qualname__} v{version}: {error}") from error
