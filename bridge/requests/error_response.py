"""The answer that tells an error of a whole request, made of what its messages say (Kafka's `getErrorResponse`).

The error is told at the top of the answer if the version has a place for it there, else in each of its parts: there is
an element of the response's array for each of the request's, down to those with an `error_code`. An element has the
names and numbers of what was asked for, and of all else the default of its message.

No answer is made where it would not have the error: so not to a request for all that there is, where that is null. For
an API that is asked for all by an empty array, `Api.error_response` has to say so.
"""

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any, NamedTuple, cast

from bridge.kafka import message
from bridge.kafka.error_codes import text_of
from bridge.kafka.schema import Field

_TOLD = ("error_code", "error_message", "throttle_time_ms")


class _Shape(NamedTuple):
    """What a version of a message of a response has."""

    tells: bool
    has_text: bool
    keys: tuple[str, ...]
    """What it is about."""
    parts: tuple[tuple[str, type[Any]], ...]
    """The arrays whose elements tell errors."""


def error_response(request: Any | None, response: type[Any], error: int, text: str, version: int) -> Any | None:
    """The answer; None where the version has no place for the error, or it does not follow from the messages.

    `request`: None where it is not known: the error has a place at the top, or none.
    """
    shape = _shape(response, version)
    if shape.tells:
        return message.with_defaults(response, **_error(shape, error, text or None))
    if request is None or not shape.parts:
        return None
    parts = _parts(shape, request, error, text or text_of(error) or None, version)
    return None if parts is None else message.with_defaults(response, **parts)


def everywhere(response: type[Any]) -> Callable[[Any, int, str, int], Any | None]:
    """The `Api.error_response` of answers that have the error at the top and in each of their parts."""

    def answer(request: Any, error: int, text: str, version: int) -> Any | None:
        shape, said = _shape(response, version), text or text_of(error) or None
        keys = {name: getattr(request, name) for name in shape.keys if hasattr(request, name)}
        parts = _parts(shape, request, error, said, version)
        if not shape.tells:
            return None if parts is None else message.with_defaults(response, **keys, **parts)
        return message.with_defaults(response, **keys, **_error(shape, error, said), **(parts or {}))

    return answer


def _error(shape: _Shape, error: int, text: str | None) -> dict[str, Any]:
    return {"error_code": int(error), "error_message": text} if shape.has_text else {"error_code": int(error)}


def _parts(shape: _Shape, asked: Any, error: int, text: str | None, version: int) -> dict[str, Any] | None:
    values: dict[str, list[Any]] = {}
    for name, cls in shape.parts:
        array = _array(cast(type, type(asked)), name, version)
        elements: Sequence[Any] | None = getattr(asked, array) if array is not None else None
        if elements is None:  # null asks for all
            return None
        values[name] = [_part(cls, one, error, text, version) for one in elements]
        if any(one is None for one in values[name]):
            return None
    return values


def _part(cls: type[Any], asked: Any, error: int, text: str | None, version: int) -> Any | None:
    shape = _shape(cls, version)
    if not is_dataclass(asked):
        keys = {shape.keys[0]: asked} if shape.keys else {}
    else:
        keys = {name: getattr(asked, name) for name in shape.keys if hasattr(asked, name)}
        if shape.keys and shape.keys[0] not in keys:  # it has another name in the request: which is not known here
            return None
    told = _error(shape, error, text) if shape.tells else _parts(shape, asked, error, text, version)
    return None if told is None else message.with_defaults(cls, **keys, **told)


def _shape(cls: type[Any], version: int) -> _Shape:
    return _cached_shape(cast(type, cls), version)


@cache
def _cached_shape(cls: type, version: int) -> _Shape:
    fields = [one for one in message.fields_of(cls) if one.exists(version)]
    names = [one.name for one in fields]
    keys = tuple(one.name for one in fields if one.name not in _TOLD and _is_key(one))
    elements = [(one.name, one.type.element) for one in fields if one.type.name == "array"]
    parts = tuple(
        (name, element.message)
        for name, element in elements
        if element is not None and element.message is not None and _tells_anywhere(element.message, version)
    )
    return _Shape("error_code" in names, "error_message" in names, keys, parts)


def _is_key(field: Field) -> bool:
    """Names and ids are; a number that has a default is told of what was found, not of what was asked for."""
    return field.type.name not in ("array", "struct") and (
        field.default is None or not field.type.name.startswith("int")
    )


def _tells_anywhere(cls: type[Any], version: int) -> bool:
    shape = _shape(cls, version)
    return shape.tells or bool(shape.parts)


@cache
def _array(cls: type, name: str, version: int) -> str | None:
    """The array of a request that one of the response is about: that of the same name, or the only one."""
    arrays = [one.name for one in message.fields_of(cls) if one.exists(version) and one.type.name == "array"]
    return name if name in arrays else arrays[0] if len(arrays) == 1 else None
