"""The rules every Kafka field is read and written by: bounds, lengths and variable-length integers.

Types and their encodings: Kafka protocol guide, "Protocol Primitive Types"; compact forms and tags: KIP-482.
"""

from typing import TypeAlias

from bridge.errors import BridgeError

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_STRING = 0x7FFF
"""Kafka's generated readers refuse longer strings, compact ones too."""

MAX_ELEMENTS = 1_000_000
"""Array elements and tags in one message. Elements of two bytes make objects of a hundred: the frame's size alone
bounds neither the memory nor the time that a hostile frame costs."""


class DecodeError(BridgeError):
    """The bytes are not the message they claim to be."""


class EncodeError(BridgeError):
    """The message cannot be written in this version."""


class Room:
    """How many more elements one message may bring."""

    __slots__ = ("left",)

    def __init__(self, left: int = MAX_ELEMENTS) -> None:
        self.left = left

    def take(self, count: int) -> None:
        """Count elements, before anything is allocated for them."""
        self.left -= count
        if self.left < 0:
            raise DecodeError(f"more than {MAX_ELEMENTS} elements")


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
