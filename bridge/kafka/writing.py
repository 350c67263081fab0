"""Puts together the encoder of a message class in one version.

The mirror of `reading`: one step for each field or run of neighbouring numbers, all appending to one bytearray.
Fields that a version does not have are left out without a word, as Kafka does for "ignorable" ones.
"""

import struct
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias

from bridge.kafka.primitives import MAX_STRING, Buffer, EncodeError, uvarint
from bridge.kafka.schema import Field, Type, fields_of, runs

Write: TypeAlias = Callable[[bytearray, Any], None]


@cache
def struct_writer(cls: type, version: int, flexible: bool) -> Write:
    """The function that appends one message."""
    fields = [field for field in fields_of(cls) if field.exists(version)]
    plain = [field for field in fields if field.tag is None]
    steps: list[Write] = []
    for numbers, run in runs(plain):
        steps += [_numbers(run)] if numbers else [_single(field, version, flexible) for field in run]
    if flexible:
        tagged = sorted((field for field in fields if field.tag is not None), key=lambda field: field.tag or 0)
        steps.append(_tags(tagged, version) if tagged else lambda out, value: out.append(0))

    def write(out: bytearray, value: Any) -> None:
        for step in steps:
            step(out, value)

    return write


def _numbers(run: list[Field]) -> Write:
    pack = struct.Struct(">" + "".join(field.type.code for field in run)).pack
    get = attrgetter(*(field.name for field in run))
    if len(run) == 1:

        def step(out: bytearray, value: Any) -> None:
            out += pack(get(value))
    else:

        def step(out: bytearray, value: Any) -> None:
            out += pack(*get(value))

    return step


def _single(field: Field, version: int, flexible: bool) -> Write:
    get = attrgetter(field.name)
    write = _writer(field.type, version, flexible, field.nullable(version))

    def step(out: bytearray, value: Any) -> None:
        write(out, get(value))

    return step


def _tags(fields: list[Field], version: int) -> Write:
    table = [(f.name, f.tag or 0, f.default, _writer(f.type, version, True, _tag_nullable(f, version))) for f in fields]

    def step(out: bytearray, value: Any) -> None:
        count, section = 0, bytearray()
        for name, number, default, write in table:
            item = getattr(value, name)
            if default is not None and item == default():
                continue
            body = bytearray()
            write(body, item)
            section += uvarint(number) + uvarint(len(body)) + body
            count += 1
        out += uvarint(count)
        out += section

    return step


def _tag_nullable(field: Field, version: int) -> bool:
    # None stands for "absent" when a tagged struct is optional here, and is never written
    return field.nullable(version) and field.type.name != "struct"


def _writer(wire_type: Type, version: int, flexible: bool, nullable: bool = False) -> Write:
    if wire_type.code:
        return _number(wire_type.code)
    if wire_type.message is not None:
        write = struct_writer(wire_type.message, version, flexible)
        return _nullable_struct(write) if nullable else write
    if wire_type.name == "uuid":
        return _uuid
    size = _size(flexible, "h" if wire_type.name == "string" else "i", nullable)
    if wire_type.name == "array" and wire_type.element is not None:
        return _array(wire_type.element, version, flexible, size)
    if wire_type.name == "string":
        return _string(size)
    return _buffers(size) if wire_type.element else _blob(size)


def _number(code: str) -> Write:
    pack = struct.Struct(">" + code).pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write


def _uuid(out: bytearray, value: Any) -> None:
    out += value.bytes


def _nullable_struct(write: Write) -> Write:
    def write_nullable(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            write(out, value)

    return write_nullable


_Size: TypeAlias = Callable[[bytearray, int | None], None]


def _size(flexible: bool, code: str, nullable: bool) -> _Size:
    """The writer of a length or count; None stands for null."""
    pack = struct.Struct(">" + code).pack

    def write(out: bytearray, size: int | None) -> None:
        if size is None and not nullable:
            raise EncodeError("null where the version allows none")
        if flexible:
            out += uvarint(0 if size is None else size + 1)
        else:
            out += pack(-1 if size is None else size)

    return write


def _string(write_size: _Size) -> Write:
    def write(out: bytearray, value: str | None) -> None:
        if value is None:
            return write_size(out, None)
        text = value.encode()
        if len(text) > MAX_STRING:
            raise EncodeError(f"a string of {len(text)} bytes")
        write_size(out, len(text))
        out += text

    return write


def _blob(write_size: _Size) -> Write:
    def write(out: bytearray, value: Buffer | None) -> None:
        if value is None:
            return write_size(out, None)
        write_size(out, len(value))
        out += value

    return write


def _buffers(write_size: _Size) -> Write:
    def write(out: bytearray, value: Sequence[Buffer] | None) -> None:
        if value is None:
            return write_size(out, None)
        write_size(out, sum(map(len, value)))
        for buffer in value:
            out += buffer

    return write


def _array(element: Type, version: int, flexible: bool, write_size: _Size) -> Write:
    code, write_element = element.code, _writer(element, version, flexible)

    def write(out: bytearray, value: Sequence[Any] | None) -> None:
        if value is None:
            return write_size(out, None)
        write_size(out, len(value))
        if code:
            out += struct.pack(f">{len(value)}{code}", *value)
        else:
            for item in value:
                write_element(out, item)

    return write
