"""Room for entries that are much larger than what they came from is never exceeded, and comes back."""

import asyncio
import random

from bridge.storage.append.conversion_memory import Growth, Kept


async def test_what_is_taken_stays_below_the_limit_whoever_waits() -> None:
    growth, chance = Growth(100), random.Random(1)
    seen: list[int] = []

    async def work() -> None:
        for _ in range(20):
            count = chance.randint(1, 60)
            await growth.take(count)
            seen.append(growth.held)
            for _ in range(chance.randint(0, 3)):
                await asyncio.sleep(0)
            growth.give(count)

    await asyncio.gather(*(work() for _ in range(10)))
    assert max(seen) <= 100
    assert growth.held == 0


async def test_a_little_does_not_overtake_who_waits_for_much() -> None:
    growth = Growth(100)
    assert growth.try_take(50)
    much = asyncio.ensure_future(growth.take(80))
    await asyncio.sleep(0)
    assert not growth.try_take(10)
    assert growth.try_take(0)  # what does not grow never waits
    growth.give(50)
    await much
    assert growth.try_take(10)
    assert growth.held == 90


async def test_who_gives_up_lets_the_next_one_in() -> None:
    growth = Growth(100)
    assert growth.try_take(60)
    first, second = asyncio.ensure_future(growth.take(80)), asyncio.ensure_future(growth.take(40))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert growth.held == 100


def test_what_is_let_go_of_twice_comes_back_once() -> None:
    growth = Growth(100)
    assert growth.try_take(30)
    kept = Kept(growth, 10)
    kept.free()
    kept.free()
    assert growth.held == 20
