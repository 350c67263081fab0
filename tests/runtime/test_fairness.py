"""Places are given to askers in turn, whatever they want and however they leave; what hangs loses its own."""

from __future__ import annotations

import asyncio
import contextvars
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.runtime.fairness import FairSemaphore, Places
from bridge.runtime.scheduler import REQUESTER, LoopShare
from tests.support.virtual_clock import on_a_virtual_clock

_ASKERS: defaultdict[object, LoopShare] = defaultdict(LoopShare)


def asked_by(asker: object, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    context = contextvars.copy_context()
    context.run(REQUESTER.set, _ASKERS[asker])
    return asyncio.get_running_loop().create_task(work, context=context)


async def test_no_more_than_the_places_are_taken() -> None:
    limit, inside, most = FairSemaphore(3), 0, 0

    async def work() -> None:
        nonlocal inside, most
        async with limit:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(work() for _ in range(20)))
    assert (most, inside, len(limit)) == (3, 0, 0)


async def test_one_query_does_not_wait_behind_the_thousand_of_another_client() -> None:
    limit = FairSemaphore(2)
    order: list[str] = []

    async def work(name: str) -> None:
        async with limit:
            order.append(name)
            await asyncio.sleep(0)

    many = [asked_by("many", work("many")) for _ in range(1000)]
    await asyncio.sleep(0)
    few = [asked_by("few", work("few")) for _ in range(2)]
    await asyncio.gather(*many, *few)
    assert [number for number, name in enumerate(order) if name == "few"][-1] < 8


async def test_who_gives_up_takes_no_place() -> None:
    limit = FairSemaphore(1)
    ran: list[int] = []

    async def work(number: int) -> None:
        async with limit:
            ran.append(number)
            await asyncio.sleep(0)

    tasks = [asyncio.ensure_future(work(number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[0].cancel()  # has the place
    tasks[3].cancel()
    await asyncio.wait(tasks)
    assert ran == [0, 2, 4]
    assert len(limit) == 0


async def test_a_place_given_to_who_gives_up_in_that_moment_is_given_on() -> None:
    limit = FairSemaphore(1)
    await limit.__aenter__()
    first, second = (asyncio.ensure_future(limit.__aenter__()) for _ in range(2))
    await asyncio.sleep(0)
    await limit.__aexit__(None, None, None)
    first.cancel()
    await asyncio.wait((first, second))
    assert first.cancelled() and not second.cancelled()


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40), st.integers(1, 3))
def test_whatever_happens_all_places_come_back(steps: list[tuple[int, bool]], places: int) -> None:
    async def run() -> None:
        limit = FairSemaphore(places)

        async def work() -> None:
            async with limit:
                await asyncio.sleep(0)

        tasks = []
        for asker, cancel in steps:
            tasks.append(asked_by(asker, work()))
            await asyncio.sleep(0)
            if cancel:
                tasks[asker % len(tasks)].cancel()
        if tasks:
            await asyncio.wait(tasks)
        assert len(limit) == 0
        for _ in range(places):
            async with asyncio.timeout(1):
                await limit.__aenter__()

    asyncio.run(run())


def some_places() -> Places:
    return Places(2, seconds=1.0, most_seconds=10.0, most_slow=5)


async def use(places: Places, seconds: float) -> float:
    """When the place was taken."""
    async with await places.take():
        at = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        return at


def test_what_is_quick_runs_a_few_at_a_time() -> None:
    async def work() -> None:
        places = some_places()
        taken = await asyncio.gather(*(use(places, 0.5) for _ in range(6)))
        assert [round(at - taken[0], 3) for at in taken] == [0, 0, 0.5, 0.5, 1, 1]

    on_a_virtual_clock(work)


def test_what_hangs_costs_the_others_a_moment_and_ends_after_its_time() -> None:
    async def work() -> None:
        places, loop = some_places(), asyncio.get_running_loop()
        began = loop.time()
        hanging = [asyncio.ensure_future(use(places, 1000)) for _ in range(4)]
        await asyncio.sleep(0)
        assert round(await use(places, 0) - began, 3) == 2
        found = await asyncio.gather(*hanging, return_exceptions=True)
        assert list(map(type, found)) == [TimeoutError] * 4
        assert round(loop.time() - began) == 11
        assert await use(places, 0) and await use(places, 0)

    on_a_virtual_clock(work)


def test_of_too_much_that_hangs_the_longest_ends() -> None:
    async def work() -> None:
        places = some_places()
        began = asyncio.get_running_loop().time()
        hanging = [asyncio.ensure_future(use(places, 1000)) for _ in range(9)]
        await asyncio.sleep(0)
        assert round(await use(places, 0) - began) == 4  # two a second
        assert [task.done() for task in hanging] == [True] * 3 + [False] * 6
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    on_a_virtual_clock(work)


def test_a_place_comes_back_from_work_that_fails_or_is_cancelled() -> None:
    async def fail(places: Places) -> None:
        async with await places.take():
            raise ValueError

    async def work() -> None:
        places = some_places()
        assert [type(one) for one in await asyncio.gather(fail(places), fail(places), return_exceptions=True)] == [
            ValueError, ValueError
        ]  # fmt: skip
        working = [asyncio.ensure_future(use(places, 1000)) for _ in range(3)]  # the last has none yet
        await asyncio.sleep(0.1)
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        began = asyncio.get_running_loop().time()
        assert [round(at - began, 3) for at in await asyncio.gather(use(places, 0.5), use(places, 0.5))] == [0, 0]

    on_a_virtual_clock(work)
