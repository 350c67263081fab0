"""What waits too long is told, soon after; what does not is forgotten."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.deadlines import Deadlines, deadlines


class Waiting:
    def __init__(self, told: list["Waiting"]) -> None:
        self._told = told

    def expired(self) -> None:
        self._told.append(self)


class ScriptedLoop:
    """An event loop of which only the time and the timers are real enough."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Any) -> Any:
        timer = (when, call)
        self.timers.append(timer)
        return SimpleNamespace(cancel=lambda: self.timers.remove(timer))

    def call_later(self, seconds: float, call: Any) -> Any:
        return self.call_at(self.now + seconds, call)

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [one for one in self.timers if one[0] <= until]:
            first = min(due, key=lambda one: one[0])
            self.timers.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
        self.now = until


@pytest.fixture
def loop() -> ScriptedLoop:
    return ScriptedLoop()


@pytest.fixture
def mine(loop: ScriptedLoop) -> Deadlines:
    return Deadlines(cast(asyncio.AbstractEventLoop, loop))


def test_it_is_told_soon_after_its_deadline_and_not_before(loop: ScriptedLoop, mine: Deadlines) -> None:
    told: list[Waiting] = []
    mine.add(Waiting(told), loop.now + 30)
    loop.advance(29.9)
    assert not told
    loop.advance(0.7)
    assert len(told) == 1
    loop.advance(60)
    assert len(told) == 1
    assert not loop.timers


def test_what_is_discarded_is_not_told_and_leaves_nothing(loop: ScriptedLoop, mine: Deadlines) -> None:
    told: list[Waiting] = []
    for seconds in (0.1, 30.0):
        waiting = Waiting(told)
        mine.add(waiting, loop.now + seconds).discard(waiting)
    loop.advance(1)
    assert not loop.timers
    assert not mine._waiting
    loop.advance(60)
    assert not told


def test_a_short_time_is_kept_exactly(loop: ScriptedLoop, mine: Deadlines) -> None:
    told: list[Waiting] = []
    mine.add(Waiting(told), loop.now + 0.1)
    mine.add(Waiting(told), loop.now - 1)
    loop.advance(0)
    assert len(told) == 1
    loop.advance(0.1)
    assert len(told) == 2


def test_thousands_are_told_in_several_iterations(loop: ScriptedLoop, mine: Deadlines) -> None:
    told: list[Waiting] = []
    for number in range(1000):
        mine.add(Waiting(told), loop.now + 30 + number % 2)
    loop.advance(30.5)
    at_once = []
    while loop.timers and len(told) < 1000:
        before = len(told)
        loop.now += 1
        loop.timers.pop(0)[1]()
        at_once.append(len(told) - before)
    assert len(told) == 1000
    assert max(at_once, default=0) <= 100


async def test_there_is_one_for_each_event_loop() -> None:
    assert deadlines() is deadlines()
