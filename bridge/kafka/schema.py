"""What an annotated message class says about its fields on the wire.

A message is a dataclass. Its annotations carry the type, and in `Annotated` the versions, as Kafka's JSON definitions
do: `since` and `until` are "versions", `nullable_since` is "nullableVersions", `tag` is "tag" with "taggedVersions".
"""

import dataclasses
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Annotated, Any, TypeVar, Union, cast, dataclass_transform, get_args, get_origin, get_type_hints

from bridge.kafka.primitives import Buffer

_T = TypeVar("_T")

LAST_VERSION = 0x7FFF
ZERO_UUID = uuid.UUID(int=0)


@dataclasses.dataclass(frozen=True, slots=True)
class Type:
    """A wire type: `code` is the struct code of a fixed-size number, `element` the content of an array or struct."""

    name: str
    code: str = ""
    element: "Type | None" = None
    message: type | None = None


Int8 = Annotated[int, Type("int8", "b")]
Int16 = Annotated[int, Type("int16", "h")]
Int32 = Annotated[int, Type("int32", "i")]
Int64 = Annotated[int, Type("int64", "q")]
Uint16 = Annotated[int, Type("uint16", "H")]
Uint32 = Annotated[int, Type("uint32", "I")]
Float64 = Annotated[float, Type("float64", "d")]
Uuid = Annotated[uuid.UUID, Type("uuid")]
Records = Annotated[Buffer, Type("records")]
"""Record batches; reading gives a slice of the frame, not a copy."""
RecordBuffers = Annotated[Sequence[Buffer], Type("records", element=Type("records"))]
"""Record batches to be written one after another, without joining them first."""

_PLAIN = {
    bool: Type("bool", "?"),
    str: Type("string"),
    bytes: Type("bytes"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Mark:
    since: int = 0
    until: int = LAST_VERSION
    nullable_since: int | None = None
    tag: int | None = None


def since(version: int) -> _Mark:
    """Say that the field exists from this version on."""
    return _Mark(since=version)


def until(version: int) -> _Mark:
    """Say that this version is the last one that has the field."""
    return _Mark(until=version)


def nullable_since(version: int) -> _Mark:
    """Say that the field may be null from this version on, not in all that have it."""
    return _Mark(nullable_since=version)


def tag(number: int, since: int) -> _Mark:
    """Say that the field is tagged; it is written only when it differs from its default (KIP-482)."""
    return _Mark(tag=number, since=since)


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of a message, with its versions."""

    name: str
    type: Type
    since: int
    until: int
    nullable_since: int | None
    """The first version in which it may be null; None: never."""
    tag: int | None
    default: Callable[[], Any] | None

    def exists(self, version: int) -> bool:
        """Whether the version has the field at all."""
        return self.since <= version <= self.until

    def nullable(self, version: int) -> bool:
        """Whether the version lets it be null."""
        return self.nullable_since is not None and version >= self.nullable_since


@dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
def message(cls: type[_T]) -> type[_T]:
    """Make a class a message: a dataclass whose fields are all given by keyword.

    `dataclass` writes and compiles methods for each class at once, which for 150 message classes took longer than
    anything else that a start does. Here all share two of them, and `__init__` is compiled at the first message made.
    """
    made = dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)(cls)
    for name, method in (("__init__", _first_init), ("__repr__", _repr), ("__eq__", _eq), ("__hash__", None)):
        setattr(made, name, method)
    return made


def _first_init(self: Any, /, **values: Any) -> None:
    """What a class's first message is made by; the others are made by what is compiled here."""
    cls: Any = type(self)
    cls.__init__ = _compiled_init(cls)
    cls.__init__(self, **values)


def _compiled_init(cls: Any) -> Callable[..., None]:
    """`def __init__(self, *, name, size=size_default, parts=None): …`; a list of its own for each message."""
    arguments, body, known = ["self", "*"], [], {}
    for field in dataclasses.fields(cls):
        argument = value = field.name
        if field.default is not dataclasses.MISSING:
            argument, known[f"{field.name}_default"] = f"{field.name}={field.name}_default", field.default
        elif field.default_factory is not dataclasses.MISSING:
            argument, known[f"{field.name}_factory"] = f"{field.name}=MISSING", field.default_factory
            value = f"{field.name}_factory() if {field.name} is MISSING else {field.name}"
        arguments.append(argument)
        body.append(f"    self.{field.name} = {value}\n")
    scope: dict[str, Any] = {"MISSING": dataclasses.MISSING, **known}
    source = f"def __init__({', '.join(arguments if body else ['self'])}):\n{''.join(body) or '    pass'}"
    exec(source, scope)  # noqa: S102 — as `dataclasses` does; the names are those of our own classes
    return cast(Callable[..., None], scope["__init__"])


def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, field.name) == getattr(other, field.name) for field in dataclasses.fields(self))


def fields_of(cls: type[Any]) -> tuple[Field, ...]:
    """The fields of a message class in wire order."""
    return _fields_of(cast(type, cls))


@cache
def _fields_of(cls: type) -> tuple[Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_field(cls, field, hints[field.name]) for field in dataclasses.fields(cls))


@cache
def arrays_of(cls: type) -> tuple[tuple[str, bool], ...]:
    """The arrays of a message class, and whether their elements have any; none of what is no message."""
    if not dataclasses.is_dataclass(cls):
        return ()
    arrays = ((field.name, field.type.element) for field in fields_of(cls) if field.type.name == "array")
    return tuple(
        (name, element is not None and element.message is not None and bool(arrays_of(element.message)))
        for name, element in arrays
    )


def _field(cls: type, field: "dataclasses.Field[Any]", hint: Any) -> Field:
    wire_type, nullable, marks = _resolve(hint)
    tag_number = next((mark.tag for mark in marks if mark.tag is not None), None)
    first = max((mark.since for mark in marks), default=0)
    last = min((mark.until for mark in marks), default=LAST_VERSION)
    null_from = max((mark.nullable_since or 0 for mark in marks), default=0) if nullable else None
    default = _default(field)
    if default is None and (first > 0 or last < LAST_VERSION):
        raise TypeError(f"{cls.__qualname__}.{field.name} is not in every version and needs a default")
    return Field(field.name, wire_type, first, last, null_from, tag_number, default)


def runs(fields: Iterable[Field]) -> Iterator[tuple[bool, list[Field]]]:
    """Neighbouring fields grouped into fixed-size numbers and others: numbers are packed by one `struct` call."""
    for numbers, run in groupby(fields, lambda field: bool(field.type.code)):
        yield numbers, list(run)


def _default(field: "dataclasses.Field[Any]") -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    if field.default is not dataclasses.MISSING:
        value = field.default
        return lambda: value
    return None


def _resolve(hint: Any) -> tuple[Type, bool, list[_Mark]]:
    """The wire type, whether the annotation lets it be None, and the version marks."""
    marks: list[Any] = []
    if get_origin(hint) is Annotated:
        hint, *marks = get_args(hint)
    nullable = False
    if get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
        nullable = True
        (hint,) = (arg for arg in get_args(hint) if arg is not type(None))
        if get_origin(hint) is Annotated:
            hint, *inner = get_args(hint)
            marks += inner
    wire_type = next((mark for mark in marks if isinstance(mark, Type)), None) or _type(hint)
    return wire_type, nullable, [mark for mark in marks if isinstance(mark, _Mark)]


def _type(hint: Any) -> Type:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if get_origin(hint) is list:
        element, nullable, _ = _resolve(get_args(hint)[0])
        if nullable:
            raise TypeError("Kafka has no arrays of nullable elements")
        return Type("array", element=element)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return Type("struct", message=hint)
    raise TypeError(f"no wire type for {hint!r}")


_ZERO: dict[str, Callable[[], Any]] = {"string": str, "bytes": bytes, "records": bytes, "uuid": lambda: ZERO_UUID}


def with_defaults(cls: type[_T], **values: Any) -> _T:
    """A message with Kafka's implicit defaults (0, "", empty) in every field not given."""
    for field in fields_of(cls):
        if field.name not in values and field.default is None:
            values[field.name] = _zero(field)
    return cls(**values)


def _zero(field: Field) -> Any:
    if field.type.name == "array":
        return []
    if field.type.name == "struct" and field.type.message is not None:
        return with_defaults(field.type.message)
    return _ZERO.get(field.type.name, int)()
