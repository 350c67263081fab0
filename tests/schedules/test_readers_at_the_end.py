"""Readers that begin at the end while others write get all that comes behind the place that they tell."""

import asyncio

from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import LATEST, Position
from tests.schedules import faults
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch, error_name
from tests.schedules.world import World, full

_ENTRIES = 60


@schedules(100)
async def test_all_behind_its_place_is_received(world: World) -> None:
    await (await world.started()).topics.create("t", 1)
    client, chance = await world.native(), world.chance
    producer, log = client.producer(full("t")), world.broker.topic(full("t")).log

    async def write() -> None:
        for number in range(_ENTRIES):
            await producer.send(MessageMetadata(), b"%d" % number, 1)
            await world.sleep(0, chance.choice((0.0, 0.02, 0.1)))

    async def read() -> None:
        await world.sleep(0, 2)
        reader = await client.reader(full("t"), LATEST)
        received: list[Position] = []
        while not writing.done() or (received or [reader.start])[-1] < log.entries[-1].position:
            received.append((await world.within(120, reader.receive(), "an entry")).position)
        assert received == [one.position for one in log.entries if one.position > reader.start]
        await reader.close()

    writing = asyncio.ensure_future(write())
    reading = [asyncio.ensure_future(read()) for _ in range(6)]
    hurting = asyncio.ensure_future(faults.some(world, full("t"), kinds=(faults.unload, faults.reset)))
    await asyncio.gather(writing, hurting)
    await producer.send(MessageMetadata(), b"the last", 1)
    await asyncio.gather(*reading)


@schedules(100)
async def test_a_tail_that_opens_while_others_write_misses_nothing(world: World) -> None:
    """A consumer goes on at a node that has just taken over: it reads each record once, in order."""
    writer, chance = await world.started(), world.chance
    await writer.topics.create("t", 1)
    client, over = Client(world, writer, "writer"), asyncio.Event()
    written: dict[int, bytes] = {}

    async def write() -> None:
        for number in range(_ENTRIES):
            produced = await client.produce("t", batch([b"%d" % number], [NOW_MS]))
            assert produced.error == 0, error_name(produced.error)
            written[produced.offset] = b"%d" % number
            await world.sleep(0, chance.choice((0.0, 0.02, 0.1)))
        over.set()

    async def read() -> None:
        offset, found = 0, dict[int, bytes]()
        while not over.is_set() or offset <= max(written):
            node = await world.started()
            reader = Client(world, node, "reader")
            for _ in range(chance.randint(1, 4)):
                fetched = await reader.fetch("t", offset, max_wait=1.0)
                assert fetched.error == 0, error_name(fetched.error)
                found |= {record.offset: bytes(record.value or b"") for record in fetched.records}
                offset = max([offset, *(record.offset + 1 for record in fetched.records)])
            await node.stop()
        assert found == written

    await asyncio.gather(write(), read())
