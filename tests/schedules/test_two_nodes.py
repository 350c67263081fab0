"""Two bridges serve one partition, and clients go from one to the other: what any node may do must be right.

Nothing coordinates the nodes here: order, deduplication and names are Pulsar's, and each node has to ask it where its
own memory may be old.
"""

import asyncio

from bridge.kafka.error_codes import ErrorCode
from tests.schedules import faults
from tests.schedules.checks import check_partition
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch, error_name, log_of
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


@schedules(100)
async def test_a_record_that_one_node_acknowledged_is_read_from_another(world: World) -> None:
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    writer, reader = Client(world, one, "writer"), Client(world, two, "reader")
    for number in range(12):
        produced = await writer.produce("t", batch([b"%d" % number], [NOW_MS]))
        assert produced.error == 0, error_name(produced.error)
        if world.chance.often(0.5):
            continue
        asked = world.now
        found = await reader.fetch("t", produced.offset, max_wait=60.0)
        assert found.error == 0, error_name(found.error)
        assert [bytes(record.value or b"") for record in found.records] == [b"%d" % number]
        assert found.at - asked < 3, f"it took {found.at - asked:.3f} s"
        await world.moment()


@schedules(150)
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


async def stored_through(world: World, client: Client, data: bytes) -> bool:
    """Have a batch stored whose producer's name another node holds; False if that one had its name back each time."""
    storing = asyncio.ensure_future(client.produce("t", data, timeout_ms=30_000))
    while not storing.done():
        await world.sleep(0, 0.4)
        world.broker.unload(full("t"))  # the name is free for a moment
    stored = storing.result()
    assert stored.error in (0, ErrorCode.REQUEST_TIMED_OUT), error_name(stored.error)
    return not stored.error


@schedules(100)
async def test_a_batch_that_another_node_has_stored_is_found(world: World) -> None:
    """Its answer through the other node was lost; this node has appended others' batches since."""
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    here, there = Client(world, one, "here"), Client(world, two, "there")
    assert (await here.produce("t", batch([b"0"], [NOW_MS], (100, 0, 0)))).offset == 0
    data = batch([b"1"], [NOW_MS], (100, 0, 1))
    if not await stored_through(world, there, data):
        return
    await world.sleep(1)
    assert (await here.produce("t", batch([b"other"], [NOW_MS]))).offset == 2
    await two.stop()
    world.trace("scene", "the batch comes again")
    again = await here.produce("t", data, timeout_ms=20_000)
    if again.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:  # what this node remembers of the producer was too old
        again = await here.produce("t", data, timeout_ms=20_000)
    assert (again.error, again.offset) in ((0, 1), (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1)), (
        f"{error_name(again.error)} at {again.offset}: {again.message}"
    )


@schedules(60)
async def test_a_producer_that_has_a_newer_epoch_at_another_node_is_fenced_here(world: World) -> None:
    """This node had its name taken, and has it back. By its memory the next batch of the older epoch would be next;
    Pulsar would take it for a repetition, and its client would be told that it is stored."""
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    here, there = Client(world, one, "here"), Client(world, two, "there")
    assert (await here.produce("t", batch([b"0"], [NOW_MS], (100, 0, 0)))).offset == 0
    if not await stored_through(world, there, batch([b"1"], [NOW_MS], (100, 1, 0))):
        return
    await two.stop()
    await world.sleep(0, 2)
    late = batch([b"late"], [NOW_MS], (100, 0, 1))
    told = await here.produce("t", late, timeout_ms=20_000)
    if told.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:  # what this node remembers of the producer was too old
        told = await here.produce("t", late, timeout_ms=20_000)
    assert told.error == ErrorCode.INVALID_PRODUCER_EPOCH, f"{error_name(told.error)} at {told.offset}: {told.message}"
    assert [record.value for record in log_of(world, full("t"))] == [b"0", b"1"]


@schedules(30)
async def test_a_batch_that_was_stored_long_ago_is_told_its_offset(world: World) -> None:
    """It comes again through a node that has not seen it, and others have written much since."""
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    writer, data = Client(world, one, "writer"), batch([b"0"], [NOW_MS], (100, 0, 0))
    assert (await writer.produce("t", data)).offset == 0
    for number in range(1, world.chance.randint(2, 60)):
        assert (await writer.produce("t", batch([b"%d" % number], [NOW_MS + number]))).offset == number
    await one.stop()
    ledgers = len(world.broker.topic(full("t")).log.ledgers)
    is_trimmed = ledgers > 1 and world.chance.often(0.3)
    if is_trimmed:
        world.broker.topic(full("t")).log.trim(1)
    again = Client(world, two, "again")
    if world.chance.often(0.5):
        await again.offset("t")
    told = await again.produce("t", data)
    wanted = (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1) if is_trimmed else (0, 0)
    assert (told.error, told.offset) == wanted, f"{error_name(told.error)} at {told.offset}: {told.message}"
