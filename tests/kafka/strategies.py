"""Hypothesis strategies for messages of any class and version."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bridge.kafka.schema import Field, Type, fields_of

_TEXT = st.text(max_size=6) | st.sampled_from(["x" * 126, "x" * 127, "é" * 64])
_BLOB = st.binary(max_size=6) | st.sampled_from([b"\0" * 126, b"\xff" * 127, b"\1" * 20_000])


def _signed(bits: int) -> SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_SIMPLE: dict[str, SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": _signed(8),
    "int16": _signed(16),
    "int32": _signed(32),
    "int64": _signed(64),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "float64": st.floats(allow_nan=False),
    "uuid": st.uuids(),
    "string": _TEXT,
    "bytes": _BLOB,
}
"""By the name of the wire type, for those that are the same in every version."""


def messages(cls: type[Any], version: int) -> SearchStrategy[Any]:
    """Messages that can be written in the version: fields that it lacks keep their defaults."""
    return st.builds(cls, **{field.name: _values(field, version) for field in fields_of(cls) if field.exists(version)})


def values(wire_type: Type, version: int) -> SearchStrategy[Any]:
    """Values of one wire type."""
    if wire_type.message is not None:
        return messages(wire_type.message, version)
    if wire_type.name == "array" and wire_type.element is not None:
        return st.lists(values(wire_type.element, version), max_size=3)
    if wire_type.name == "records":
        return st.lists(_BLOB, max_size=2) if wire_type.element else _BLOB
    return _SIMPLE[wire_type.name]


def _values(field: Field, version: int) -> SearchStrategy[Any]:
    is_absent_tag = field.tag is not None and field.type.message is not None
    present = values(field.type, version)
    return st.none() | present if is_absent_tag or field.nullable(version) else present


def plain(value: Any) -> Any:
    """A message as dicts, with records joined, so that what was read compares equal to what was written."""
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: _plain_field(field, getattr(value, field.name)) for field in fields_of(type(value))}
    return value


def _plain_field(field: Field, value: Any) -> Any:
    if field.type.name == "records" and field.type.element is not None and value is not None:
        return b"".join(bytes(buffer) for buffer in value)
    return plain(value)
