"""The largest requests of every API, made from its own description: each array of it as long as it may be.

An API that is added is attacked without being mentioned here.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from bridge.kafka import message
from bridge.kafka.schema import Field, Type
from bridge.requests.api import Api

SAFE = {"validate_only": True, "allow_auto_topic_creation": False, "max_wait_ms": 0, "timestamp": -1}
"""What keeps a request from changing anything, or from only waiting."""
NUMBERS = {"resource_type": 2, "num_partitions": 1, "replication_factor": 1, "session_timeout_ms": 10_000, "acks": -1}
"""What makes it to be looked at further than its first field."""


class Largest(NamedTuple):
    """A request with one long array."""

    api: Api
    path: tuple[str, ...]
    """The fields that lead to the array."""

    def __str__(self) -> str:
        return f"{self.api.name} {'.'.join(self.path)}"

    def request(self, count: int, *, same: bool, topic: str) -> Any:
        """So many elements, each of its own value or all of the same; names are the topic's then."""
        maker = _Maker(self.api.max_version, topic if same else None)
        return maker.message(self.api.request, self.path, count)


def every(api: Api) -> Iterator[Largest]:
    """One for each array in the API's newest version."""
    for path in _paths(api.request, api.max_version):
        yield Largest(api, path)


def _paths(cls: type, version: int) -> Iterator[tuple[str, ...]]:
    for one in message.fields_of(cls):
        if not one.exists(version) or one.type.name != "array" or one.type.element is None:
            continue
        yield (one.name,)
        if one.type.element.message is not None:
            for path in _paths(one.type.element.message, version):
                yield (one.name, *path)


class _Maker:
    def __init__(self, version: int, name: str | None) -> None:
        self._version = version
        self._name = name
        self._made = 0

    def message(self, cls: type, path: tuple[str, ...], count: int) -> Any:
        self._made += 1
        values = {}
        for one in message.fields_of(cls):
            if one.exists(self._version):
                values[one.name] = self._value(one, path, count)
        return message.with_defaults(cls, **values)

    def _value(self, one: Field, path: tuple[str, ...], count: int) -> Any:
        if one.name in SAFE:
            return SAFE[one.name]
        kind = one.type
        if kind.name == "array" and kind.element is not None:
            if not path or path[0] != one.name:
                return []
            length = count if len(path) == 1 else 1
            element = partial(self._element, kind.element, one.name, path[1:], count)
            return [element()] * length if self._name is not None else [element() for _ in range(length)]
        if kind.message is not None:
            return None if one.nullable(self._version) else self.message(kind.message, (), 0)
        return self._scalar(kind.name, one.name)

    def _element(self, kind: Type, name: str, path: tuple[str, ...], count: int) -> Any:
        return self._scalar(kind.name, name) if kind.message is None else self.message(kind.message, path, count)

    def _scalar(self, kind: str, name: str) -> Any:
        self._made += 1
        number = 0 if self._name is not None else self._made
        if kind == "string":
            return self._name if self._name is not None else f"evil-{number}"
        if kind == "uuid":
            return message.ZERO_UUID if "name" in name else uuid.UUID(int=number + 1)
        if kind in ("bytes", "records"):
            return b"x"
        if kind == "bool":
            return False
        if kind == "float64":
            return 1.0
        return NUMBERS.get(name, number % 100)
