"""Room for entries that are much larger than what they came from is never exceeded, and comes back."""

import asyncio
import random

from bridge.storage.append.conversion_memory import ConversionMemory, Reservation


async def test_what_is_acquired_stays_below_the_limit_however_many_wait() -> None:
    memory, chance = ConversionMemory(100), random.Random(1)
    seen: list[int] = []

    async def work() -> None:
        for _ in range(20):
            count = chance.randint(1, 60)
            await memory.acquire(count)
            seen.append(memory.held)
            for _ in range(chance.randint(0, 3)):
                await asyncio.sleep(0)
            memory.release(count)

    await asyncio.gather(*(work() for _ in range(10)))
    assert max(seen) <= 100
    assert memory.held == 0


async def test_a_little_does_not_overtake_who_waits_for_much() -> None:
    memory = ConversionMemory(100)
    assert memory.try_acquire(50)
    much = asyncio.ensure_future(memory.acquire(80))
    await asyncio.sleep(0)
    assert not memory.try_acquire(10)
    assert memory.try_acquire(0)  # what does not grow never waits
    memory.release(50)
    await much
    assert memory.try_acquire(10)
    assert memory.held == 90


async def test_who_gives_up_lets_the_next_one_in() -> None:
    memory = ConversionMemory(100)
    assert memory.try_acquire(60)
    first, second = asyncio.ensure_future(memory.acquire(80)), asyncio.ensure_future(memory.acquire(40))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert memory.held == 100


def test_what_is_let_go_of_twice_comes_back_once() -> None:
    memory = ConversionMemory(100)
    assert memory.try_acquire(30)
    reservation = Reservation(memory, 10)
    reservation.release()
    reservation.release()
    assert memory.held == 20
