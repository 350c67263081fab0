"""The rules every Kafka field is read and written by: bounds, lengths and variable-length integers.

Types and their encodings: Kafka protocol guide, "Protocol Primitive Types"; compact forms and tags: KIP-482.
"""

import struct
from collections.abc import Callable
from typing import TypeAlias

from bridge.errors import BridgeError

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_STRING = 0x7FFF
"""Kafka's generated readers refuse longer strings, compact ones too."""
MAY_GROW = MAX_STRING // 3
"""A string of no more bytes can be written again, whatever is replaced in it."""

MAX_ELEMENTS = 131_072
"""Array elements and tags in one message. Elements of two bytes make objects of a hundred: the frame's size alone
bounds neither the memory nor the time that a hostile frame costs. Every partition of `kafka.max_partitions` may be
named, each by a topic of its own."""


class DecodeError(BridgeError):
    """The bytes are not the message they claim to be."""


class TooManyElements(DecodeError):
    """A message that may be sound, and has more elements than one request may."""


class EncodeError(BridgeError):
    """The message cannot be written in this version."""


class ElementLimit:
    """How many more elements one message may bring."""

    __slots__ = ("left", "most")

    def __init__(self, most: int = MAX_ELEMENTS) -> None:
        self.left = self.most = most

    def take(self, count: int) -> None:
        """Count elements, before anything is allocated for them."""
        self.left -= count
        if self.left < 0:
            raise TooManyElements(f"more than {self.most} elements")


def read_uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 31 bits: every use in the protocol is a length, a count or a tag."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    if byte > 0x7F or value > 0x7FFFFFFF:
        raise DecodeError("an unsigned varint is too long")
    return value, at


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT = [_uvarint(value) for value in range(1024)]


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    return _SHORT[value] if value < 1024 else _uvarint(value)


# ---- lengths and counts: -1 stands for null --------------------------------------------------------------------------

ReadSize: TypeAlias = Callable[[memoryview, int], tuple[int, int]]

_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from


def read_compact_size(data: memoryview, at: int) -> tuple[int, int]:
    """A length or count in a flexible version: an unsigned varint, one more than it says."""
    size = data[at]
    if size < 0x80:
        return size - 1, at + 1
    size, at = read_uvarint(data, at)
    return size - 1, at


def read_int16_size(data: memoryview, at: int) -> tuple[int, int]:
    """The length of a string in an old version."""
    return _int16(data, at)[0], at + 2


def read_int32_size(data: memoryview, at: int) -> tuple[int, int]:
    """The length of a blob or the count of an array in an old version."""
    return _int32(data, at)[0], at + 4


def check_null(size: int, nullable: bool) -> None:
    """Refuse a negative length unless it is the -1 of a field that may be null."""
    if size != -1 or not nullable:
        raise DecodeError(f"length {size}" if size != -1 else "null where the version allows none")


def read_slice(data: memoryview, at: int, size: int) -> memoryview:
    """So many bytes of the frame, not copied."""
    if size > len(data) - at:
        raise DecodeError(f"{size} bytes claimed, {len(data) - at} there")
    return data[at : at + size]


def read_text(data: memoryview, at: int, size: int) -> str:
    """A string of so many bytes.

    As with Java's decoder, a name that is no UTF-8 becomes one that its own API refuses, not a broken connection. One
    that is then too long to be written again, in an answer or to another node, is bad here (`check_growth`).
    """
    if size > MAX_STRING:
        raise DecodeError(f"a string of {size} bytes")
    text = str(read_slice(data, at, size), "utf-8", "replace")
    if size > MAY_GROW:
        check_growth(text)
    return text


def check_growth(text: str) -> None:
    """Refuse what was replaced in a string if that made it longer than a string may be: each byte became three."""
    if len(text.encode()) > MAX_STRING:
        raise DecodeError("a string that is no UTF-8")


def check_count(data: memoryview, at: int, count: int, least: int, elements: ElementLimit) -> None:
    """Refuse an array of `count` elements of at least so many bytes that cannot be there."""
    if count * least > len(data) - at:
        raise DecodeError(f"{count} elements claimed, {len(data) - at} bytes there")
    elements.take(count)


# ---- tags (KIP-482) --------------------------------------------------------------------------------------------------


def read_tags(data: memoryview, at: int, elements: ElementLimit) -> tuple[list[tuple[int, int, int]], int]:
    """The tag section that closes every struct of a flexible version: (tag, start, end) of each."""
    count, at = read_uvarint(data, at)
    elements.take(count)
    tags = []
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        if size > len(data) - at:
            raise DecodeError(f"tag {tag} runs over the end")
        tags.append((tag, at, at + size))
        at += size
    return tags, at


def skip_tags(data: memoryview, at: int, elements: ElementLimit) -> int:
    """The end of a tag section of which nothing is wanted."""
    return at + 1 if data[at] == 0 else read_tags(data, at, elements)[1]
