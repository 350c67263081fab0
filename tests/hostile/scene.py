"""What a scene is: hostile clients of one kind, and what they saw."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import NamedTuple

from tests.faults.processes import let_pass

_PAUSE = 0.1
_POLITE = 10  # of nice: the attacker's own work is meant to be another machine's


class Target(NamedTuple):
    """The bridge, and how much is done to it."""

    plaintext: str
    tls: str
    with_login: str
    topic: str
    """It exists, and others write to it."""
    seconds: float
    """How long a scene goes on; each does its work once at least."""
    connections: int
    """Of scenes with as many as there may be."""


class Seen(NamedTuple):
    """What came of a scene."""

    text: str
    as_required: bool


Scene = Callable[[Target], Seen]


def few(target: Target, count: int, fewer: int) -> int:
    """So many, or fewer where the run is a short one."""
    return count if target.connections > 1000 else fewer


def again(target: Target) -> Iterator[int]:
    """Numbers, ten a second at most, until the time is over; one at least.

    What bad input does to the bridge is looked at here. What it costs at full speed, `tests.hostile.attacks` shows.
    """
    began = time.monotonic()
    number = 0
    while not number or time.monotonic() < began + target.seconds:
        yield number
        number += 1
        let_pass(max(0.0, began + number * _PAUSE - time.monotonic()))


def play(pipe: Connection) -> None:
    """The attackers' process: gets (scene, target), tells what was seen; None ends it."""
    os.nice(_POLITE)
    while (order := pipe.recv()) is not None:
        scene, target = order
        try:
            seen: Seen = scene(target)
        except Exception as error:  # noqa: BLE001 - the row says so
            seen = Seen(f"the scene ended: {error!r}", False)
        pipe.send(seen)
