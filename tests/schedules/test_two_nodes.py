"""Two bridges serve one partition, and clients go from one to the other: what any node may do must be right.

Nobody coordinates the nodes here: order, deduplication and names are Pulsar's, and each node has to ask it where its own
memory may be old.
"""

import asyncio

from bridge.kafka.error_codes import ErrorCode
from tests.schedules import faults
from tests.schedules.checks import check_partition
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch, error_name
from tests.schedules.producers import RetryingProducer
from tests.schedules.world import World, full


@schedules(150)
async def test_the_end_is_never_behind_what_another_node_acknowledged(world: World) -> None:
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    writer, reader = Client(world, one, "writer"), Client(world, two, "reader")
    other = Client(world, one, "other")
    last = 0
    for number in range(6):
        produced = await writer.produce("t", batch([b"%d" % number], [NOW_MS]))
        assert produced.error == 0, error_name(produced.error)
        for client in (reader, other) if world.chance.often(0.5) else (other, reader):
            error, end = await client.offset("t")
            assert error == 0, error_name(error)
            assert end > produced.offset, f"{client.name}: the end is {end}, {produced.offset} was acknowledged before"
            assert end >= last, f"{client.name}: the end went from {last} back to {end}"
            last = end
        await world.moment()


@schedules(200)
async def test_an_idempotent_producer_goes_from_node_to_node(world: World) -> None:
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    producer = RetryingProducer(world, one, "t", "p", producer_id=100, request_seconds=3, delivery_seconds=200)
    running = asyncio.ensure_future(producer.run())
    hurting = asyncio.ensure_future(faults.some(world, full("t"), kinds=(faults.unload, faults.reset)))
    for number in range(15):
        producer.send(b"%d" % number)
        await world.sleep(0, 0.5)
        if world.chance.often(0.2):
            producer.move_to(world.chance.choice((one, two)))
    await hurting
    producer.finish()
    await world.within(300, running, "an outcome for every record")
    check_partition(world, full("t"), [producer])
    failed = [value for value, fate in producer.fates.items() if fate.failed]
    assert not failed, f"not acknowledged within 200 s: {failed}"
    storage = producer.errors[ErrorCode.KAFKA_STORAGE_ERROR]
    assert not storage, f"{storage} answers of KAFKA_STORAGE_ERROR, though nothing is wrong with the storage"
