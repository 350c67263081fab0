"""Reads the fields of a JSON object that nothing vouches for: every value has a type and bounds."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from bridge.cluster.membership.view import Sender
from bridge.errors import BridgeError
from bridge.pulsar.types import Position

MAX_VERSION: Final = 2**31 - 1
"""A version is a leader epoch to clients: an int32."""
MAX_INT: Final = 2**63 - 1
_MAX_TEXT: Final = 1_024
_MIN_LONG: Final = -(2**63)

Choice = TypeVar("Choice", bound=StrEnum)


class InvalidClusterRecord(BridgeError):
    """A record of a cluster topic cannot be read."""


def integer(value: object, least: int, most: int = MAX_VERSION) -> int:
    """A whole number within bounds."""
    if type(value) is not int or not least <= value <= most:
        raise InvalidClusterRecord(f"not a number from {least} to {most}")
    return value


def text(value: object, most: int = _MAX_TEXT) -> str:
    """A text that can be written as UTF-8."""
    if not isinstance(value, str) or len(value) > most:
        raise InvalidClusterRecord(f"not a text of at most {most} characters")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidClusterRecord("a text with half a character")
    return value


class Fields:
    """The fields of one JSON object, read by type and within bounds."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    @classmethod
    def of(cls, value: object) -> "Fields":
        """The object that `value` should be."""
        if not isinstance(value, dict):
            raise InvalidClusterRecord("not an object")
        return cls(value)

    def value(self, key: str) -> object:
        """A field, which must be there."""
        try:
            return self._values[key]
        except KeyError:
            raise InvalidClusterRecord(f"{key} is missing") from None

    def integer(self, key: str, least: int, most: int = MAX_VERSION) -> int:
        """A whole number."""
        return integer(self.value(key), least, most)

    def version(self, key: str) -> int:
        """A version of the view."""
        return integer(self.value(key), 0)

    def number(self, key: str) -> float:
        """A time by some clock."""
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not -1e15 < value < 1e15:
            raise InvalidClusterRecord(f"{key} is no time")
        return float(value)

    def text(self, key: str) -> str:
        """A short text."""
        return text(self.value(key))

    def name(self, key: str) -> str:
        """A text that is not empty."""
        value = text(self.value(key))
        if not value:
            raise InvalidClusterRecord(f"{key} is empty")
        return value

    def long_text(self, key: str) -> str:
        """A text that is bounded by its record alone."""
        return text(self.value(key), MAX_INT)

    def one_of(self, key: str, choices: type[Choice]) -> Choice:
        """A word out of a few."""
        try:
            return choices(text(self.value(key)))
        except ValueError as error:
            raise InvalidClusterRecord(f"{key} is none of {', '.join(choices)}") from error

    def items(self, key: str, most: int) -> list[Any]:
        """A list."""
        value = self.value(key)
        if not isinstance(value, list) or len(value) > most:
            raise InvalidClusterRecord(f"{key} is not a list of at most {most}")
        return value

    def mapping(self, key: str, most: int) -> dict[str, Any]:
        """An object as a dictionary."""
        value = self.value(key)
        if not isinstance(value, dict) or len(value) > most:
            raise InvalidClusterRecord(f"{key} is not an object of at most {most}")
        return value

    def position(self, key: str) -> Position:
        """A place in a topic."""
        ledger, entry = self._two(key)
        return Position(integer(ledger, _MIN_LONG, MAX_INT), integer(entry, _MIN_LONG, MAX_INT))

    def sender(self, key: str) -> Sender:
        """A life of a node."""
        name, incarnation = self._two(key)
        return Sender(text(name), integer(incarnation, 0, MAX_INT))

    def _two(self, key: str) -> list[Any]:
        value = self.items(key, 2)
        if len(value) != 2:
            raise InvalidClusterRecord(f"{key} is not two values")
        return value
