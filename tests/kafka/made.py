"""Makes messages of any class and version with hypothesis."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bridge.kafka.schema import Field, Type, fields_of

_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}

_TEXT = st.text(max_size=6) | st.sampled_from(["x" * 126, "x" * 127, "é" * 64])
_BLOB = st.binary(max_size=6) | st.sampled_from([b"\0" * 126, b"\xff" * 127, b"\1" * 20_000])


def messages(cls: type[Any], version: int) -> SearchStrategy[Any]:
    """Messages that can be written in the version: fields it lacks stay at their defaults."""
    fields = {field.name: _values(field, version) for field in fields_of(cls) if field.exists(version)}
    absent = {field.name: _zeros(field) for field in fields_of(cls) if not field.exists(version) and not field.default}
    return st.builds(cls, **fields, **absent)


def _zeros(field: Field) -> SearchStrategy[Any]:
    raise AssertionError(f"{field.name} has no default")


def _values(field: Field, version: int) -> SearchStrategy[Any]:
    values = _of_type(field.type, version)
    if field.tag is not None and field.type.message is not None:
        return st.none() | values
    return st.none() | values if field.nullable(version) else values


def _of_type(wire_type: Type, version: int) -> SearchStrategy[Any]:
    if wire_type.code in _BITS:
        limit = 2 ** (_BITS[wire_type.code] - 1)
        return st.integers(-limit, limit - 1)
    if wire_type.code == "H":
        return st.integers(0, 2**16 - 1)
    if wire_type.code == "d":
        return st.floats(allow_nan=False)
    if wire_type.message is not None:
        return messages(wire_type.message, version)
    if wire_type.name == "array" and wire_type.element is not None:
        return st.lists(_of_type(wire_type.element, version), max_size=3)
    if wire_type.name == "records":
        return st.lists(_BLOB, max_size=2) if wire_type.element else _BLOB
    return {"bool": st.booleans(), "string": _TEXT, "bytes": _BLOB, "uuid": st.uuids()}[wire_type.name]


def plain(value: Any) -> Any:
    """A message as dicts, with records joined, so that what is read compares equal to what was made."""
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        items = [plain(item) for item in value]
        return items
    if hasattr(value, "__dataclass_fields__"):
        result = {}
        for field in fields_of(type(value)):
            item = getattr(value, field.name)
            if field.type.name == "records" and field.type.element is not None and item is not None:
                item = b"".join(bytes(buffer) for buffer in item)
            result[field.name] = plain(item)
        return result
    return value
