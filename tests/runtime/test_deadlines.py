"""What waits too long is told, soon after; what does not is forgotten."""

import asyncio
from collections import Counter
from typing import cast

import pytest

from bridge.runtime.deadlines import Deadlines, deadlines
from tests.groups.clock import FakeClock


class Waiting:
    def __init__(self, told: list["Waiting"]) -> None:
        self._told = told

    def expired(self) -> None:
        self._told.append(self)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def mine(clock: FakeClock) -> Deadlines:
    return Deadlines(cast(asyncio.AbstractEventLoop, clock))


async def test_it_is_told_soon_after_its_deadline_and_not_before(clock: FakeClock, mine: Deadlines) -> None:
    told: list[Waiting] = []
    mine.add(Waiting(told), clock.now + 30)
    await clock.advance(29.9)
    assert not told
    await clock.advance(0.7)
    assert len(told) == 1
    await clock.advance(60)
    assert len(told) == 1
    assert not clock.waiting


async def test_what_is_discarded_is_not_told_and_leaves_nothing(clock: FakeClock, mine: Deadlines) -> None:
    told: list[Waiting] = []
    for seconds in (0.1, 30.0):
        waiting = Waiting(told)
        mine.add(waiting, clock.now + seconds).pop(waiting, None)
    await clock.advance(1)
    assert not clock.waiting
    assert not mine._waiting
    await clock.advance(60)
    assert not told


async def test_a_short_time_is_kept_exactly(clock: FakeClock, mine: Deadlines) -> None:
    told: list[Waiting] = []
    mine.add(Waiting(told), clock.now + 0.1)
    mine.add(Waiting(told), clock.now - 1)
    await clock.advance(0)
    assert len(told) == 1
    await clock.advance(0.1)
    assert len(told) == 2


async def test_thousands_are_told_in_several_iterations(clock: FakeClock, mine: Deadlines) -> None:
    class Noting:
        def expired(self) -> None:
            told.append(clock.armed)  # the same for all that one look tells

    told: list[int] = []
    for number in range(1000):
        mine.add(Noting(), clock.now + 30 + number % 2)
    await clock.advance(32)
    assert len(told) == 1000
    assert max(Counter(told).values()) <= 100


async def test_there_is_one_for_each_event_loop() -> None:
    assert deadlines() is deadlines()
