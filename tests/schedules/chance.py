"""Everything that a run leaves to chance, from one seed: delays, sizes, choices, and Python's own random numbers.

Delays are drawn by kind ("store", "receipt", "deliver", …). Each run gives each kind a scale of its own, so that in one
run receipts are slow and entries fast, in the next the other way round (swarm testing: a run that has every kind of
delay in a medium size seldom shows an extreme order).
"""

import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from math import log
from types import BuiltinFunctionType, ModuleType
from typing import Any
from zlib import crc32

from bridge.connection.client import ClientConnection
from bridge.pulsar.connection import ReconnectingHandler
from bridge.storage.append import group_commit

_SCALES = (0.0, 0.0002, 0.001, 0.005, 0.02)
LONGEST = 0.25
"""Seconds; no single delay of a healthy network or broker takes longer."""
WALL = 1_700_000_000.0
"""The wall clock at loop time 0."""


class Chance(random.Random):
    """The random numbers of one run."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.number = seed
        self._scales: dict[str, float] = {}

    def scale(self, kind: str) -> float:
        """The usual length of such a delay in this run; the same whatever else was drawn before."""
        scale = self._scales.get(kind)
        if scale is None:
            draw = random.Random(self.number << 32 | crc32(kind.encode()))
            scale = self._scales[kind] = draw.choice(_SCALES)
        return scale

    def slow(self, kind: str, seconds: float) -> None:
        """Let such delays usually be so long in this run."""
        self._scales[kind] = seconds

    def delay(self, kind: str) -> float:
        """Seconds that one such thing takes; sometimes none, sometimes far more than usual."""
        draw = self.random()
        if draw < 0.15:
            return 0.0
        scale = self.scale(kind)
        if draw > 0.93:
            scale = 10 * scale + 0.002
        return min(-scale * _ln(self.random()), LONGEST)

    def often(self, probability: float) -> bool:
        """True with this probability."""
        return self.random() < probability


def _ln(uniform: float) -> float:
    """The logarithm, of a number that is never 0."""
    return log(max(uniform, 1e-12))


@contextmanager
def controlled(chance: Chance, now: Callable[[], float]) -> Iterator[None]:
    """Have Python's clocks and random numbers come from the run: nothing differs when its seed runs again.

    Sets of objects that hash by address are put in an order of the run's own as well. With every second seed small
    batches wait for those to come as large ones do.
    """
    draw = random.Random(chance.number + 1)
    clocks: dict[object, Callable[[], float]] = {
        time.time: lambda: WALL + now(),
        time.time_ns: lambda: int((WALL + now()) * 1_000_000_000),
        time.perf_counter: now,
        time.monotonic: now,
    }
    replaced: list[tuple[Any, str, object]] = [
        (secrets, "token_hex", lambda size=16: draw.randbytes(size).hex()),
        (secrets, "token_bytes", lambda size=16: draw.randbytes(size)),
        (secrets, "randbits", draw.getrandbits),
        (uuid, "uuid4", lambda: uuid.UUID(int=draw.getrandbits(128), version=4)),
        *((owner, name, clocks[clock]) for owner, name, clock in _clocks_of(len(sys.modules))),
        (ReconnectingHandler, "__hash__", _numbered(draw)),
        (ClientConnection, "__hash__", _numbered(draw)),
        (group_commit, "_LEAST_HELD_BYTES", 1 if chance.number % 2 else group_commit._LEAST_HELD_BYTES),
    ]
    state, before = random.getstate(), [getattr(owner, name) for owner, name, _ in replaced]
    random.seed(chance.number + 2)
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        yield
    finally:
        random.setstate(state)
        for (owner, name, _), value in zip(replaced, before, strict=True):
            setattr(owner, name, value)


@cache
def _clocks_of(modules: int) -> list[tuple[ModuleType, str, object]]:
    """Where there is a clock: in `time`, and under any name in the bridge's modules; `modules`: how many are loaded."""
    clocks = (time.time, time.time_ns, time.perf_counter, time.monotonic)
    found: list[tuple[ModuleType, str, object]] = [(time, clock.__name__, clock) for clock in clocks]
    for module in [one for name, one in sys.modules.items() if name.startswith("bridge.")]:
        of_module = [(name, value) for name, value in vars(module).items() if isinstance(value, BuiltinFunctionType)]
        found += [(module, name, value) for name, value in of_module if value in clocks]
    return found


def _numbered(draw: random.Random) -> Callable[[Any], int]:
    """A `__hash__` that does not depend on where in memory an object is."""

    def number(self: Any) -> int:
        found: int | None = self.__dict__.get("_hash_of_the_run")
        if found is None:
            found = self.__dict__["_hash_of_the_run"] = draw.getrandbits(60)
        return found

    return number
