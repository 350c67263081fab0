"""Whatever offset is asked, the first record of an answer is the first that is stored from there on.

Two nodes lead in turns, ledgers roll over, connections break. Several clients of each node ask for offsets around the
edges of entries and ledgers, and go on from there.
"""

import asyncio

from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry
from bridge.runtime.threads import WorkerThreads
from bridge.storage.read.batches import BatchMaker
from bridge.storage.read.catch_up import CatchUpReader, CatchUpReaders
from bridge.telemetry.metrics import Metrics
from tests.schedules import faults
from tests.schedules.asking import ask_around, move
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch
from tests.schedules.leadership import Leadership
from tests.schedules.world import World, full


async def no_chunks(last: Entry) -> list[Entry]:
    """There are none here."""
    return []


async def write(world: World, cluster: Leadership, count: int) -> None:
    """Batches of one to three records, through whichever node leads."""
    clients = [Client(world, bridge, f"writer {number}") for number, bridge in enumerate(cluster.bridges)]
    for number in range(count):
        values = [b"%d" % number] * world.chance.randint(1, 3)
        client = clients[cluster.number(cluster.leader)]
        await client.produce("t", batch(values, [NOW_MS] * len(values)), timeout_ms=5000)
        if world.chance.often(0.3):
            faults.unload(world, full("t"))
        await world.moment()


@schedules(100)
async def test_an_answer_begins_where_it_was_asked(world: World) -> None:
    storage = {
        "cache_bytes": world.chance.choice((0, 10_000, 1 << 26)),
        "max_catchup_readers": world.chance.choice((1, 2, 100)),
        "tail_idle_seconds": world.chance.choice((0.01, 60.0)),
    }
    one, two = await world.started(storage=storage), await world.started(storage=storage)
    await one.topics.create("t", 1)
    cluster = Leadership(world, one, two)
    await write(world, cluster, 10)
    readers = [ask_around(world, bridge, f"reader {n}", 8) for n, bridge in enumerate((one, one, one, two, two, two))]
    hurting = faults.some(world, full("t"), kinds=(faults.unload, faults.reset, faults.fail_writes))
    moving = move(world, cluster, 4) if world.chance.often(0.7) else asyncio.sleep(0)
    await world.within(300, asyncio.gather(*readers, hurting, moving, write(world, cluster, 6)), "all answers")


@schedules(100)
async def test_clients_share_one_reader(world: World) -> None:
    """They wait for it together and ask again while others have it go on: none gets what follows what it asked for."""
    await (await world.started()).topics.create("t", 1)
    client, readers = await world.native(), CatchUpReaders(100, 30.0, Metrics().storage)
    producer = client.producer(full("t"))
    places = [(await producer.send(MessageMetadata(), b"0", 1)).position]

    async def follow(offset: int) -> None:
        async def make() -> CatchUpReader:
            place = places[min(offset, len(places) - 1)]  # what is read may not be acknowledged yet
            return CatchUpReader(
                await client.reader(full("t"), place),
                offset,
                BatchMaker(1 << 20),
                lambda batch: batch,
                WorkerThreads(1),
                no_chunks,
            )

        while offset < 6:
            first, *_ = await readers.read("t", offset, 1, 60.0, make)
            assert first.base == offset, f"asked for {offset}, got {first.base}"
            offset += world.chance.choice((0, 1, 1))
            for _ in range(world.chance.randint(0, 3)):
                await asyncio.sleep(0)

    clients = [asyncio.ensure_future(follow(0)) for _ in range(6)]
    while len(places) < 6:
        await world.moment()
        places.append((await producer.send(MessageMetadata(), b"%d" % len(places), 1)).position)
    await world.within(100, asyncio.gather(*clients), "all answers")
    await readers.close()
