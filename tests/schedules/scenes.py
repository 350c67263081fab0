"""Producers, a consumer and a watcher under faults, and all that must hold when they are over."""

import asyncio

from tests.schedules import faults
from tests.schedules.checks import check_partition
from tests.schedules.kafka import NO_ANSWER, Client
from tests.schedules.producers import RetryingProducer
from tests.schedules.readers import read_all
from tests.schedules.world import Bridge, World, full


async def feed(world: World, producer: RetryingProducer, count: int) -> None:
    """Have so many records sent, with pauses, until all have their outcome."""
    running = asyncio.ensure_future(producer.run())
    pause = world.chance.choice((0.01, 0.3, 2.0))
    for number in range(count):
        producer.send(f"{producer.name} {number}".encode())
        await world.sleep(0, pause)
    producer.finish()
    await world.within(400, running, f"{producer.name}: an outcome for every record")


async def watch_the_end(world: World, bridge: Bridge, producers: list[RetryingProducer], over: asyncio.Event) -> None:
    """Ask for the end again and again: it never goes back, and is never below what was acknowledged before."""
    client, last = Client(world, bridge, "watcher", request_seconds=75.0), 0
    pause = world.chance.choice((0.3, 1.0, 5.0))
    while not over.is_set():
        fates = [fate for producer in producers for fate in producer.fates.values()]
        acked = max((fate.acked_at for fate in fates if fate.acked_at is not None), default=-1)
        error, end = await client.offset("t")
        assert error != NO_ANSWER, "a ListOffsets had no answer within 75 s"
        if error == 0:
            assert end >= last, f"the end went from {last} back to {end}"
            assert end > acked, f"the end is {end}, and {acked} was acknowledged before"
            last = end
        busy = any(fate.acked_at is None and not fate.failed for fate in fates)
        await world.sleep(0, pause if busy else 30.0)


async def scene(world: World, bridge: Bridge, producers: list[RetryingProducer], count: int) -> None:
    """Producers, a consumer and a watcher under faults; then all that must hold."""
    over = asyncio.Event()
    reading = asyncio.ensure_future(read_all(world, bridge, over))
    watching = asyncio.ensure_future(watch_the_end(world, bridge, producers, over))
    hurting = asyncio.ensure_future(faults.some(world, full("t")))
    await asyncio.gather(*(feed(world, producer, count) for producer in producers), hurting)
    await faults.heal(world)
    over.set()
    await watching
    found = await world.within(300, reading, "reading to the end")
    log = check_partition(world, full("t"), producers)
    assert found == {record.offset: record.value for record in log}, "what was read is not what is stored"
