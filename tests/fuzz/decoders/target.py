"""What a fuzz target is: a check that any bytes must pass, and valid inputs to begin with."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """One decoder.

    `check` takes any bytes and says whether the decoder took them for valid. It raises for all but the decoder's
    documented errors: another exception, a result that does not come back the same, twins that disagree.
    """

    name: str
    check: Callable[[bytes], bool]
    seeds: Callable[[], Sequence[bytes]]
    """Valid inputs, made by the real encoders."""
    words: Sequence[bytes] = ()
    """What inputs are made of, where chance would not find it."""
    max_bytes: int = 4096
    regressions: Sequence[bytes] = ()
    """Inputs that once failed."""
    memory: int = 4 << 20
    """Bytes that the check may take, whatever the input."""
    lines: int = 40_000
    """Lines of the bridge that it may execute, whatever the input: time, measured without a clock."""
    lines_per_byte: int = 60

    @property
    def corpus(self) -> list[bytes]:
        """All inputs to begin with."""
        return [*self.seeds(), *self.regressions]


_VALUE = re.compile(rb'"[^"]*"|-?[0-9.]+|null|true|false')


def with_word(data: bytes, words: Sequence[bytes], chance: random.Random) -> bytes:
    """The input with a word put in, or in the place of some bytes or of a value of its JSON."""
    word, values = chance.choice(words), list(_VALUE.finditer(data))
    if values and chance.random() < 0.5:
        start, end = chance.choice(values).span()
    else:
        start = chance.randrange(len(data) + 1)
        end = start + chance.choice((0, 0, 1, 4))
    return data[:start] + word + data[end:]


class Input:
    """Bytes that a check takes numbers and texts from; an input that ends early gives zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, below: int = 256) -> int:
        """A number from one byte, or two where one is not enough."""
        return int.from_bytes(self.take(1 if below <= 256 else 2)) % below

    def take(self, count: int) -> bytes:
        """The next bytes."""
        found = self._data[self._at : self._at + count]
        self._at += count
        return found

    def part(self) -> bytes:
        """The next bytes, behind their length in two."""
        return self.take(int.from_bytes(self.take(2)))

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data))


def part(data: bytes) -> bytes:
    """What `Input.part` takes."""
    return len(data).to_bytes(2) + data


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise AssertionError("it waits for something")


def same(one: object, other: object, what: str) -> None:
    """Raise unless both are equal."""
    if one != other:
        raise AssertionError(f"{what} differ: {str(one)[:300]} and {str(other)[:300]}")
