"""Puts together the decoder of a message class in one version.

A decoder is a list of steps, one for each field or run of neighbouring numbers (read by one `struct` call). Reading
never trusts a length: strings and blobs are checked against the end of the frame, counts against the bytes that their
elements need at least. Running off the end raises `struct.error` or `IndexError`, which `message.decode` translates.
"""

import struct
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from bridge.kafka.primitives import (
    MAY_GROW,
    DecodeError,
    ElementLimit,
    ReadSize,
    check_count,
    check_growth,
    check_null,
    read_compact_size,
    read_int32_size,
    read_slice,
    read_tags,
    read_text,
)
from bridge.kafka.schema import Field, Type, fields_of, runs

Read: TypeAlias = Callable[[memoryview, int, ElementLimit], tuple[Any, int]]
_Step: TypeAlias = Callable[[Any, memoryview, int, ElementLimit], int]

_new = object.__new__


@cache
def struct_reader(cls: type, version: int, flexible: bool) -> Read:
    """The function that reads one message."""
    fields = fields_of(cls)
    plain = [field for field in fields if field.exists(version) and field.tag is None]
    tagged = {field.tag: field for field in fields if field.exists(version) and field.tag is not None}
    unread = [(field.name, field.default) for field in fields if field not in plain and field.default is not None]
    steps: list[_Step] = []
    for numbers, run in runs(plain):
        steps += [_numbers(run)] if numbers else [_single(field, version, flexible) for field in run]
    if flexible:
        steps.append(_tags({number: (f.name, _field_reader(f, version, True)) for number, f in tagged.items()}))

    def read(data: memoryview, at: int, elements: ElementLimit) -> tuple[Any, int]:
        result: Any = _new(cls)
        for name, default in unread:
            setattr(result, name, default())
        for step in steps:
            at = step(result, data, at, elements)
        return result, at

    return read


def _numbers(run: list[Field]) -> _Step:
    layout = struct.Struct(">" + "".join(field.type.code for field in run))
    names, unpack, size = [field.name for field in run], layout.unpack_from, layout.size

    def step(result: Any, data: memoryview, at: int, elements: ElementLimit) -> int:
        for name, value in zip(names, unpack(data, at), strict=True):
            setattr(result, name, value)
        return at + size

    return step


def _single(field: Field, version: int, flexible: bool) -> _Step:
    name, read = field.name, _field_reader(field, version, flexible)

    def step(result: Any, data: memoryview, at: int, elements: ElementLimit) -> int:
        value, at = read(data, at, elements)
        setattr(result, name, value)
        return at

    return step


def _tags(readers: dict[int, tuple[str, Read]]) -> _Step:
    """Read the tags we know, skip the others."""

    def step(result: Any, data: memoryview, at: int, elements: ElementLimit) -> int:
        if data[at] == 0:
            return at + 1
        tags, at = read_tags(data, at, elements)
        for number, start, end in tags:
            if number in readers:
                name, read = readers[number]
                value, stop = read(data, start, elements)
                if stop != end:
                    raise DecodeError(f"tag {number} has the wrong length")
                setattr(result, name, value)
        return at

    return step


def _field_reader(field: Field, version: int, flexible: bool) -> Read:
    # a tagged struct is never null on the wire: None stands for "absent" in our messages only
    nullable = field.nullable(version) and not (field.tag is not None and field.type.name == "struct")
    return _reader(field.type, version, flexible, nullable)


def _reader(wire_type: Type, version: int, flexible: bool, nullable: bool = False) -> Read:
    if wire_type.code:
        return _number(wire_type.code)
    if wire_type.message is not None:
        read = struct_reader(wire_type.message, version, flexible)
        return _nullable_struct(read) if nullable else read
    if wire_type.name == "uuid":
        return _uuid
    if wire_type.name == "string":
        return _compact_text(nullable) if flexible else _text(nullable)
    read_size = read_compact_size if flexible else read_int32_size
    if wire_type.name == "array" and wire_type.element is not None:
        return _array(wire_type.element, version, flexible, read_size, nullable)
    return _blob(read_size, _CONVERT["buffers" if wire_type.element else wire_type.name], nullable)


def _number(code: str) -> Read:
    layout = struct.Struct(">" + code)
    unpack, size = layout.unpack_from, layout.size
    return lambda data, at, elements: (unpack(data, at)[0], at + size)


def _uuid(data: memoryview, at: int, elements: ElementLimit) -> tuple[uuid.UUID, int]:
    return uuid.UUID(bytes=bytes(read_slice(data, at, 16))), at + 16


def _nullable_struct(read: Read) -> Read:
    def read_nullable(data: memoryview, at: int, elements: ElementLimit) -> tuple[Any, int]:
        if data[at] > 0x7F:  # a negative int8 means null
            return None, at + 1
        return read(data, at + 1, elements)

    return read_nullable


# ---- strings and blobs -----------------------------------------------------------------------------------------------


def _text(nullable: bool) -> Read:
    unpack = struct.Struct(">h").unpack_from

    # `read_int16_size` and `read_text` in one: old versions' heartbeats and commits are mostly names
    def read(data: memoryview, at: int, elements: ElementLimit) -> tuple[Any, int]:
        (size,) = unpack(data, at)
        at += 2
        if size < 0:
            check_null(size, nullable)
            return None, at
        end = at + size
        if end > len(data):
            raise DecodeError(f"{size} bytes claimed, {len(data) - at} there")
        text = str(data[at:end], "utf-8", "replace")
        if size > MAY_GROW:
            check_growth(text)
        return text, end

    return read


def _compact_text(nullable: bool) -> Read:
    def read(data: memoryview, at: int, elements: ElementLimit) -> tuple[Any, int]:
        size, at = read_compact_size(data, at)
        if size < 0:
            check_null(size, nullable)
            return None, at
        return read_text(data, at, size), at + size

    return read


_CONVERT: dict[str, Callable[[memoryview], Any]] = {
    "bytes": bytes,
    "records": lambda view: view,
    "buffers": lambda view: [view] if view else [],
}


def _blob(read_size: ReadSize, convert: Callable[[memoryview], Any], nullable: bool) -> Read:
    def read(data: memoryview, at: int, elements: ElementLimit) -> tuple[Any, int]:
        size, at = read_size(data, at)
        if size < 0:
            check_null(size, nullable)
            return None, at
        return convert(read_slice(data, at, size)), at + size

    return read


# ---- arrays ----------------------------------------------------------------------------------------------------------


def _array(element: Type, version: int, flexible: bool, read_size: ReadSize, nullable: bool) -> Read:
    read_all = _number_elements(element.code) if element.code else _elements(_reader(element, version, flexible))
    least = min_size(element, version, flexible)

    def read(data: memoryview, at: int, elements: ElementLimit) -> tuple[Any, int]:
        count, at = read_size(data, at)
        if count < 0:
            check_null(count, nullable)
            return None, at
        check_count(data, at, count, least, elements)
        return read_all(data, at, elements, count)

    return read


_ReadAll: TypeAlias = Callable[[memoryview, int, ElementLimit, int], tuple[list[Any], int]]


def _number_elements(code: str) -> _ReadAll:
    width = struct.calcsize(">" + code)

    def read_all(data: memoryview, at: int, elements: ElementLimit, count: int) -> tuple[list[Any], int]:
        return list(struct.unpack_from(f">{count}{code}", data, at)), at + count * width

    return read_all


def _elements(read: Read) -> _ReadAll:
    def read_all(data: memoryview, at: int, elements: ElementLimit, count: int) -> tuple[list[Any], int]:
        result = []
        for _ in range(count):
            value, at = read(data, at, elements)
            result.append(value)
        return result, at

    return read_all


@cache
def min_size(wire_type: Type, version: int, flexible: bool) -> int:
    """The least number of bytes that a value of this type takes."""
    if wire_type.code:
        return struct.calcsize(">" + wire_type.code)
    if wire_type.name == "uuid":
        return 16
    if wire_type.message is not None:
        fields = (f for f in fields_of(wire_type.message) if f.exists(version) and f.tag is None)
        return sum(1 if _is_nullable_struct(f, version) else min_size(f.type, version, flexible) for f in fields) + (
            1 if flexible else 0
        )
    if flexible:
        return 1
    return 2 if wire_type.name == "string" else 4


def _is_nullable_struct(field: Field, version: int) -> bool:
    return field.type.message is not None and field.nullable(version)
