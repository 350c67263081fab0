"""Look-ups by time after all that faults do to the order in a log: as exact as a scan from its beginning."""

import asyncio

from bridge.kafka.error_codes import ErrorCode
from tests.schedules import faults
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, LogRecord, error_name, log_of
from tests.schedules.producers import RetryingProducer
from tests.schedules.world import Bridge, World, full


def first_at(log: list[LogRecord], timestamp: int) -> int:
    """What Kafka answers: the first offset whose record is not older; −1 if there is none."""
    return next((record.offset for record in log if record.timestamp >= timestamp), -1)


async def look_up(world: World, client: Client, timestamp: int) -> int:
    """ListOffsets, again after errors that pass."""
    until = world.now + 120
    while True:
        error, offset = await client.offset("t", timestamp)
        if error == 0 or world.now > until:
            break
        assert error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)
        await world.sleep(0.5)
    assert error == 0, error_name(error)
    return offset


async def look_everywhere(world: World, bridge: Bridge) -> None:
    """Look up the time of every record, and those just beside."""
    log = log_of(world, full("t"))
    client = Client(world, bridge, "by time")
    times = sorted({record.timestamp + beside for record in log for beside in (-1, 0, 1)})
    for timestamp in world.chance.sample(times, min(len(times), 12)):
        offset = await look_up(world, client, timestamp)
        right = first_at(log, timestamp)
        assert offset == right, (
            f"the first record at {timestamp - NOW_MS} or later is at {right}, answered was {offset}; "
            f"the log: {[(record.offset, record.timestamp - NOW_MS) for record in log]}"
        )


@schedules(90)
async def test_times_are_found_after_producers_sent_again(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producers = [
        RetryingProducer(world, bridge, "t", f"p{number}", producer_id=100 + number, request_seconds=5)
        for number in range(2)
    ]
    producers.append(RetryingProducer(world, bridge, "t", "plain", request_seconds=5))
    running = [asyncio.ensure_future(producer.run()) for producer in producers]
    hurting = asyncio.ensure_future(faults.some(world, full("t"), seconds=5.0, kinds=(*faults.SHORT, faults.crash)))
    for number in range(12):
        for producer in producers:
            producer.send(f"{producer.name} {number}".encode(), NOW_MS + 10 * number + world.chance.randint(0, 5))
        await world.sleep(0, 0.3)
    for producer in producers:
        producer.finish()
    await hurting
    await world.within(300, asyncio.gather(*running), "an outcome for every record")
    await faults.heal(world)
    await look_everywhere(world, bridge)
    if world.chance.often(0.5):
        await bridge.stop()
        await look_everywhere(world, await world.started())


@schedules(60)
async def test_times_are_found_where_they_run_backwards(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producer = RetryingProducer(world, bridge, "t", "p")
    running = asyncio.ensure_future(producer.run())
    for number in range(15):
        producer.send(b"%d" % number, NOW_MS + world.chance.randint(0, 60))
    producer.finish()
    await running
    await look_everywhere(world, bridge)
