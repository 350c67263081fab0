"""A group of batches that Pulsar refuses as a whole: each of them alone is sound."""

import asyncio

from tests.schedules.checks import check_partition
from tests.schedules.explorer import schedules
from tests.schedules.producers import RetryingProducer
from tests.schedules.world import World, full


@schedules(100)
async def test_sound_batches_in_a_group_above_the_topic_s_own_limit_are_all_stored(world: World) -> None:
    """The broker goes on behind a refused entry, so what is on its way behind the group must not be stored first."""
    bridge = await world.started(storage={"group_commit_bytes": 131_072, "linger_ms": 2})
    await bridge.topics.create("t", 1)
    world.broker.topic(full("t")).policies["maxMessageSize"] = 700
    producer = RetryingProducer(world, bridge, "t", "p", producer_id=100, delivery_seconds=100)
    running = asyncio.ensure_future(producer.run())
    if world.chance.often(0.7):
        producer.send(b"first")
        await world.sleep(2)
    for number in range(20):
        producer.send(b"%d" % number + b"." * 200)
        if world.chance.often(0.4):
            await world.sleep(0, world.chance.choice((0.006, 0.2)))
    await world.sleep(2)
    producer.finish()
    await world.within(300, running, "an outcome for every record")
    check_partition(world, full("t"), [producer])
