"""Whatever offset is asked, the first record of an answer is the first that is stored from there on.

Two nodes lead in turns, ledgers roll over, connections break. Several clients of each node ask for offsets around the
edges of entries and ledgers, and go on from there.
"""

import asyncio

from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.runtime.threads import WorkerThreads
from bridge.storage.read.batches import BatchMaker
from bridge.storage.read.catch_up import CatchUpReader, CatchUpReaders
from bridge.telemetry.metrics import Metrics
from tests.schedules import faults
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, Fetched, batch, error_name, log_of
from tests.schedules.leadership import Leadership
from tests.schedules.world import Bridge, World, full

_PASSES = {0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT}
_LIMITS = 1, 300, 1 << 20
"""Bytes of an answer: some clients get one entry at a time, so that readers stay behind in the log."""


def check(world: World, asked: int, found: Fetched) -> None:
    """Nothing is left out at the front or within."""
    assert found.error in _PASSES, f"at {asked}: {error_name(found.error)}"
    stored = [record.offset for record in log_of(world, full("t")) if record.offset >= asked]
    told = [record.offset for record in found.records]
    assert told == stored[: len(told)], f"asked for {asked}, got {told}, stored are {stored}"


async def ask_around(world: World, bridge: Bridge, name: str, steps: int) -> None:
    """Begin anywhere, mostly at an edge, and go on from there for a while, each time in an answer of another size."""
    client = Client(world, bridge, name)
    for _ in range(steps):
        edges = [entry.base for entry in world.broker.topic(full("t")).log.entries]
        end = edges[-1] + 1
        offset = min(max(world.chance.choice(edges) + world.chance.randint(-1, 1), 0), end - 1)
        for _ in range(world.chance.randint(1, 4)):
            found = await client.fetch("t", offset, max_wait=0.0, max_bytes=world.chance.choice(_LIMITS))
            check(world, offset, found)
            if not found.records:
                break
            offset = found.records[-1].offset + 1
            await world.moment()


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


async def move(world: World, cluster: Leadership, seconds: float) -> None:
    """From node to node for a while."""
    until = world.now + seconds
    while world.now < until:
        await world.sleep(0, world.chance.choice((0.02, 0.3, 2.0)))
        cluster.move_to(world.chance.choice(cluster.bridges), world.chance.choice((0.0, 0.01, 0.3)))


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
