"""A record that is acknowledged is there for all clients, at once: permutes receipt, entry and waiting Fetch.

No fault here, and no delay of the model is longer than a quarter of a second: a client that waits for longer than a few
seconds has been forgotten.
"""

import asyncio

from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch, error_name
from tests.schedules.world import Bridge, World, full

SOON = 3.0
"""Seconds after the acknowledgement by which a waiting Fetch must be answered: a handful of the model's delays."""
MAX_WAIT = 60.0


async def consume(world: World, bridge: Bridge, name: str, count: int, start: int = 0) -> dict[int, float]:
    """Read so many records with long polls: when each had come, by offset."""
    client, offset, came = Client(world, bridge, name), start, dict[int, float]()
    while offset < start + count:
        found = await client.fetch("t", offset, max_wait=MAX_WAIT)
        assert found.error == 0, f"{name} at {offset}: error {found.error}"
        assert found.records, f"{name} at {offset}: nothing within max_wait, the end is {found.high_watermark}"
        assert [record.offset for record in found.records] == list(range(offset, offset + len(found.records)))
        came |= {record.offset: found.at for record in found.records}
        offset += len(found.records)
        await world.moment()
    return came


async def produce(world: World, bridge: Bridge, count: int) -> dict[int, float]:
    """Produce so many records, one batch each: when each was acknowledged, by offset."""
    client, acked = Client(world, bridge, "producer"), dict[int, float]()
    while len(acked) < count:
        produced = await client.produce("t", batch([b"%d" % len(acked)], [NOW_MS]))
        assert produced.error == 0, produced
        acked[produced.offset] = produced.at
        await world.sleep(0, world.chance.choice((0.0, 0.01, 0.3)))
    return acked


def check(acked: dict[int, float], *consumers: dict[int, float]) -> None:
    """Every record came to every consumer soon after its acknowledgement."""
    for came in consumers:
        for offset, at in acked.items():
            late = came[offset] - at
            assert late <= SOON, f"the record at {offset} came {late:.3f} s after it was acknowledged"


@schedules(250)
async def test_a_waiting_fetch_gets_what_is_acknowledged(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    readers = [consume(world, bridge, f"consumer {number}", 6) for number in range(world.chance.randint(1, 3))]
    acked, *came = await asyncio.gather(produce(world, bridge, 6), *readers)
    check(acked, *came)


@schedules(150)
async def test_a_fetch_after_the_produce_answer_finds_the_record(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    client = Client(world, bridge)
    for number in range(5):
        produced = await client.produce("t", batch([b"%d" % number], [NOW_MS]))
        assert (produced.error, produced.offset) == (0, number)
        asked = world.now
        found = await client.fetch("t", produced.offset, max_wait=MAX_WAIT)
        assert [record.value for record in found.records] == [b"%d" % number], found
        assert found.at - asked <= SOON, f"it took {found.at - asked:.3f} s"
        await world.moment()


@schedules(150)
async def test_entries_of_native_writers_wake_a_waiting_fetch(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producer = (await world.native()).producer(full("t"))

    async def write() -> dict[int, float]:
        stored = {}
        for number in range(6):
            await producer.send(MessageMetadata(), b"native", 1)
            stored[number] = world.now
            await world.sleep(0, world.chance.choice((0.0, 0.01, 0.3)))
        return stored

    readers = [consume(world, bridge, f"consumer {number}", 6) for number in range(2)]
    stored, *came = await asyncio.gather(write(), *readers)
    check(stored, *came)


@schedules(150)
async def test_native_and_kafka_writers_together(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producer = (await world.native()).producer(full("t"))

    async def write() -> None:
        for _ in range(5):
            await producer.send(MessageMetadata(), b"native", 1)
            await world.sleep(0, world.chance.choice((0.0, 0.01, 0.3)))

    acked, came, _ = await asyncio.gather(produce(world, bridge, 5), consume(world, bridge, "consumer", 10), write())
    check(acked, came)


@schedules(150)
async def test_a_fetch_waits_on_while_the_idle_tail_is_closed(world: World) -> None:
    bridge = await world.started(storage={"tail_idle_seconds": world.chance.choice((0.001, 1.0, 5.0))})
    await bridge.topics.create("t", 1)

    async def write() -> dict[int, float]:
        client, acked = Client(world, bridge, "producer"), dict[int, float]()
        for number in range(3):
            await world.sleep(5, 15)  # the sweep comes every ten seconds
            produced = await client.produce("t", batch([b"%d" % number], [NOW_MS]))
            acked[produced.offset] = produced.at
        return acked

    acked, *came = await asyncio.gather(write(), consume(world, bridge, "one", 3), consume(world, bridge, "two", 3))
    check(acked, *came)


@schedules(100)
async def test_a_reader_is_told_what_pulsar_has_deleted(world: World) -> None:
    """Retention deletes ledgers under readers: a client too far behind is told so, and none gets what is not there."""
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    await produce(world, bridge, 12)
    log = world.broker.topic(full("t")).log
    client = Client(world, bridge)
    for _ in range(4):
        offset = world.chance.randint(0, 11)
        found = await client.fetch("t", offset, max_wait=5.0)
        first = log.entries[0].base
        if offset < first:
            assert found.error in (0, ErrorCode.OFFSET_OUT_OF_RANGE), error_name(found.error)
        else:
            assert found.error == 0, error_name(found.error)
            assert [record.offset for record in found.records][:1] == [offset]
        await world.moment()
        log.trim(world.chance.randint(0, 2))
        await world.sleep(1.5)  # memory is believed for a second
