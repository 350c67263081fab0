"""Three bridges serve one partition as if each led it, and clients of all kinds go from one to the other at will.

Who leads does not matter for what is right. Nothing acknowledged is lost or misplaced. What an idempotent producer
sends is there once. None is refused for an error that it did not make. The end never goes back, at any node.
"""

import asyncio

from bridge.kafka.error_codes import ErrorCode
from tests.schedules import faults
from tests.schedules.checks import check_partition
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NO_ANSWER, Client, error_name
from tests.schedules.producers import RetryingProducer
from tests.schedules.readers import read_all
from tests.schedules.world import Bridge, World, full

_PASSES = (0, NO_ANSWER, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.LEADER_NOT_AVAILABLE)


async def feed(world: World, producer: RetryingProducer, bridges: list[Bridge], count: int) -> None:
    """Have so many records sent, through one node after another, until all have their outcome."""
    running = asyncio.ensure_future(producer.run())
    pause = world.chance.choice((0.01, 0.2, 1.0))
    for number in range(count):
        producer.send(f"{producer.name} {number}".encode())
        await world.sleep(0, pause)
        if world.chance.often(0.25):
            producer.move_to(world.chance.choice(bridges))
        if world.chance.often(0.05):
            await world.sleep(5, 15)
    producer.finish()
    await world.within(400, running, f"{producer.name}: an outcome for every record")


async def watch_the_end(
    world: World, bridges: list[Bridge], producers: list[RetryingProducer], over: asyncio.Event
) -> None:
    """One question after another, each to any node."""
    clients, last = [Client(world, bridge, "watcher", request_seconds=75.0) for bridge in bridges], 0
    while not over.is_set():
        fates = [fate for producer in producers for fate in producer.fates.values()]
        acked = max((fate.acked_at for fate in fates if fate.acked_at is not None), default=-1)
        error, end = await world.chance.choice(clients).offset("t")
        assert error in _PASSES, error_name(error)
        if error == 0:
            assert end >= last, f"the end went from {last} back to {end}"
            assert end > acked, f"the end is {end}, and {acked} was acknowledged before"
            last = end
        await world.sleep(0, 1.0)


@schedules(60)
async def test_any_node_may_serve_any_client(world: World) -> None:
    bridges = [await world.started() for _ in range(3)]
    await bridges[0].topics.create("t", 1)
    producers = [
        RetryingProducer(
            world, world.chance.choice(bridges), "t", f"p{number}", producer_id=100 + number,
            request_seconds=world.chance.choice((2.0, 10.0)), delivery_seconds=world.chance.choice((8.0, 300.0)),
            hangs_up_after=world.chance.choice((None, 0.5, 3.0)),
        )
        for number in range(2)
    ]  # fmt: skip
    producers.append(RetryingProducer(world, world.chance.choice(bridges), "t", "plain", request_seconds=5.0))
    over = asyncio.Event()
    reading = [asyncio.ensure_future(read_all(world, bridge, over)) for bridge in bridges]
    watching = asyncio.ensure_future(watch_the_end(world, bridges, producers, over))
    hurting = asyncio.ensure_future(faults.some(world, full("t"), most=3, kinds=(faults.unload, faults.reset)))
    await asyncio.gather(*(feed(world, producer, bridges, 10) for producer in producers), hurting)
    await faults.heal(world)
    over.set()
    await watching
    log = check_partition(world, full("t"), producers)
    for node in reading:
        found = await world.within(300, node, "reading to the end")
        assert found == {record.offset: record.value for record in log}, "what was read is not what is stored"
