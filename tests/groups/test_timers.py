"""The timers of many groups on one of the event loop's."""

from dataclasses import dataclass
from math import inf

import pytest

from bridge.groups.timers import Timers
from tests.groups.clock import FakeClock


@dataclass(eq=False)
class Alarm:
    name: str
    wake_at: float = inf


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.woken: list[tuple[str, float]] = []
        self.timers: Timers[Alarm] = Timers(self.clock, self.wake)

    def wake(self, alarm: Alarm, now: float) -> None:
        assert alarm.wake_at == inf
        self.woken.append((alarm.name, now - 1000))

    def set(self, alarm: Alarm, seconds: float) -> None:
        self.timers.set(alarm, 1000 + seconds)


async def test_alarms_go_off_in_order() -> None:
    bench = Bench()
    a, b = Alarm("a"), Alarm("b")
    bench.set(a, 5)
    bench.set(b, 3)
    await bench.clock.advance(4)
    assert bench.woken == [("b", 3)]
    await bench.clock.advance(4)
    assert bench.woken == [("b", 3), ("a", 5)]


async def test_an_alarm_set_earlier_goes_off_once() -> None:
    bench = Bench()
    alarm = Alarm("a")
    bench.set(alarm, 5)
    bench.set(alarm, 2)
    await bench.clock.advance(10)
    assert bench.woken == [("a", 2)]


async def test_moving_an_alarm_away_costs_nothing() -> None:
    bench = Bench()
    alarm = Alarm("a")
    bench.set(alarm, 5)
    for seconds in range(6, 100):
        bench.set(alarm, seconds)
    assert bench.clock.armed == 1
    await bench.clock.advance(200)
    assert bench.woken == [("a", 5)]


async def test_an_alarm_can_be_set_again_while_it_goes_off() -> None:
    bench = Bench()
    alarm, other = Alarm("a"), Alarm("b")

    def again(woken: Alarm, now: float) -> None:
        bench.woken.append((woken.name, now - 1000))
        if len(bench.woken) < 3:
            bench.timers.set(alarm, now)

    bench.timers = Timers(bench.clock, again)
    bench.set(alarm, 1)
    bench.set(other, 9)
    await bench.clock.advance(2)
    assert bench.woken == [("a", 1), ("a", 1), ("a", 1)]


async def test_a_clock_that_calls_a_little_early_is_believed() -> None:
    bench = Bench()
    bench.set(Alarm("a"), 5)
    bench.clock.now = 1004.999
    bench.timers._fire()
    assert bench.woken == [("a", 5)]


async def test_the_others_still_go_off_when_one_fails() -> None:
    bench = Bench()

    def fail(alarm: Alarm, now: float) -> None:
        if alarm.name == "bad":
            raise ValueError(alarm.name)
        bench.wake(alarm, now)

    bench.timers = Timers(bench.clock, fail)
    bench.set(Alarm("bad"), 1)
    bench.set(Alarm("a"), 2)
    with pytest.raises(ValueError, match="bad"):
        await bench.clock.advance(1)
    await bench.clock.advance(1)
    assert bench.woken == [("a", 2)]


async def test_nothing_goes_off_after_the_end() -> None:
    bench = Bench()
    bench.timers.close()
    bench.set(Alarm("a"), 5)
    bench.timers.close()
    await bench.clock.advance(10)
    assert bench.woken == []
    assert bench.clock.waiting == 0
