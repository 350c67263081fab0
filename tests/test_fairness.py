"""Places are given to askers in turn, whatever they want and however they leave."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.fairness import REQUESTER, FairSemaphore


def asked_by(asker: object, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    context = contextvars.copy_context()
    context.run(REQUESTER.set, asker)
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
