"""Questions in the background: which comes when, without a clock; and that none waits for one that has no answer."""

from __future__ import annotations

import asyncio
from math import inf

from bridge.errors import KafkaError
from bridge.runtime.polling import Key, Poller, Schedule

EVERY = 30.0


def named(*names: str) -> list[Key]:
    return [(name,) for name in names]


def asked(schedule: Schedule, now: float) -> str:
    """The names of all that is asked at this time, in order."""
    found = ""
    while (key := schedule.next(now)) is not None:
        found += str(key[0])
    return found


def test_each_is_asked_once_and_again_when_it_is_due() -> None:
    schedule = Schedule(EVERY)
    schedule.want(named("a", "b"))
    assert asked(schedule, 0) == "ab"
    assert schedule.due_at() == inf
    for number, name in enumerate("ab"):
        schedule.answered((name,), float(number), well=True)
    assert (schedule.due_at(), asked(schedule, 29)) == (30, "")
    assert (asked(schedule, 30), asked(schedule, 31)) == ("a", "b")


def test_new_ones_go_before_those_that_are_due() -> None:
    schedule = Schedule(EVERY)
    schedule.want(named("a"))
    assert asked(schedule, 0) == "a"
    schedule.answered(("a",), 0, well=True)
    schedule.want(named("a", "c", "b"))
    assert asked(schedule, 100) == "cba"


def test_what_is_not_wanted_is_not_asked_and_is_new_when_it_is_wanted_again() -> None:
    schedule = Schedule(EVERY)
    schedule.want(named("a", "b"))
    schedule.want(named("b"))
    assert asked(schedule, 0) == "b"
    schedule.want(named())
    assert schedule.answered(("b",), 0, well=False) == 0
    schedule.want(named("b"))
    assert asked(schedule, 0) == "b"


def test_what_fails_is_asked_less_and_less_often() -> None:
    schedule = Schedule(EVERY)
    schedule.want(named("a"))
    now, pauses = 0.0, []
    for failures in range(1, 6):
        assert asked(schedule, now) == "a"
        assert schedule.answered(("a",), now, well=False) == failures
        pauses.append(schedule.due_at() - now)
        now = schedule.due_at()
    assert pauses == [60, 120, 240, 300, 300]
    assert asked(schedule, now) == "a"
    assert schedule.answered(("a",), now, well=True) == 0
    assert schedule.due_at() == now + EVERY


async def test_none_waits_for_those_that_hang_or_fail() -> None:
    """More hang than may be under way at once; what is asked a second time shows that the round goes on."""
    poller = Poller(0.0, 1e6, at_once=2, slow_after=0.0, timeout=600.0)
    again: dict[Key, int] = {}
    well = named("x", "y", "z")
    all_twice = asyncio.Event()

    async def ask(key: Key) -> None:
        if key[0] == "hangs":
            await asyncio.Event().wait()
        if key[0] == "fails":
            raise KafkaError(56)
        again[key] = again.get(key, 0) + 1
        if all(again.get(one, 0) >= 2 for one in well):
            all_twice.set()

    poller.want(ask, [*(("hangs", number) for number in range(20)), ("fails", 1), *well])
    await asyncio.wait_for(all_twice.wait(), 30)
    await poller.stop(ask)


async def test_an_answer_that_does_not_come_has_failed() -> None:
    poller = Poller(EVERY, 1e6, at_once=1, timeout=0.0)
    ended = asyncio.Event()

    async def ask(key: Key) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    poller.want(ask, named("a"))
    await asyncio.wait_for(ended.wait(), 30)
    await asyncio.sleep(0)
    assert poller._schedules[ask]._failures == {("a",): 1}
    await poller.stop(ask)


async def test_who_has_few_does_not_wait_for_who_has_many() -> None:
    poller = Poller(EVERY, 1e6, at_once=1)
    order: list[Key] = []
    done = asyncio.Event()

    async def many(key: Key) -> None:
        order.append(key)

    async def few(key: Key) -> None:
        order.append(key)
        done.set()

    poller.want(many, [("many", number) for number in range(1000)])
    poller.want(few, named("few"))
    await asyncio.wait_for(done.wait(), 30)
    assert order.index(("few",)) <= 1
    await poller.stop(many)
    assert poller._driver is not None
    await poller.stop(few)
    assert poller._driver is None
