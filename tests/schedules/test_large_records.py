"""Records that no entry holds, in chunks: producers of large and small ones, readers from anywhere, and all faults.

Chunks of several messages and ordinary entries stand in any order. Each record is whole wherever a reader begins, and
what was acknowledged is never one whose chunks are not all there.
"""

import asyncio

from bridge.kafka.error_codes import ErrorCode
from bridge.storage.append.preparation import Plan, prepare_records
from tests.schedules import faults
from tests.schedules.asking import ask_around, move
from tests.schedules.checks import check_acknowledged, check_partition
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch, error_name, log_of
from tests.schedules.leadership import Leadership
from tests.schedules.producers import RetryingProducer
from tests.schedules.readers import read_all
from tests.schedules.scenes import scene
from tests.schedules.world import Bridge, World, full

_MESSAGE = 2000
"""The largest message of the broker: a record of 5,000 bytes takes four chunks."""


class Mixed(RetryingProducer):
    """Two of five records are large."""

    def send(self, value: bytes, timestamp: int = NOW_MS) -> None:
        large = b"x" * self._world.chance.choice((1500, 3000, 5000)) if self._world.chance.often(0.4) else b""
        super().send(value + large, timestamp)


async def started(world: World) -> Bridge:
    """A node on a broker that takes small messages only, with an empty topic."""
    world.broker.max_message_size = _MESSAGE
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    return bridge


@schedules(180)
async def test_producers_of_large_and_small_records(world: World) -> None:
    bridge = await started(world)
    producers: list[RetryingProducer] = [
        Mixed(world, bridge, "t", "plain"),
        Mixed(world, bridge, "t", "one", producer_id=100, delivery_seconds=300),
        Mixed(
            world, bridge, "t", "two", producer_id=101,
            request_seconds=world.chance.choice((1.0, 10.0)), delivery_seconds=world.chance.choice((3.0, 300.0)),
        ),
    ]  # fmt: skip
    await scene(world, bridge, producers[: world.chance.randint(1, 3)], 10)


async def write(world: World, cluster: Leadership, count: int, *, is_alone: bool = False) -> None:
    """Batches of one to three records, each large or not, through whichever node leads; `is_alone`: no other node
    writes between their parts."""
    clients = [Client(world, bridge, f"writer {number}") for number, bridge in enumerate(cluster.bridges)]
    for number in range(count):
        sizes = [world.chance.choice((0, 0, 3000, 5000)) for _ in range(world.chance.randint(1, 3))]
        values = [b"%d-%d " % (number, size) + bytes(size) for size in sizes]
        client = clients[cluster.number(cluster.leader)]
        produced = await client.produce("t", batch(values, [NOW_MS] * len(values)), timeout_ms=5000)
        if produced.error == 0:
            at = {record.offset: record.value for record in log_of(world, full("t"))}
            told = [at.get(produced.offset + place) for place in range(len(values))]
            known = len(values) if is_alone else 1
            assert told[:known] == values[:known], f"the records of a batch are not at {produced.offset} and behind it"
        if world.chance.often(0.3):
            faults.unload(world, full("t"))
        await world.moment()


@schedules(150)
async def test_a_reader_may_begin_in_the_midst_of_a_large_record(world: World) -> None:
    storage = {
        "cache_bytes": world.chance.choice((0, 10_000, 1 << 26)),
        "max_catchup_readers": world.chance.choice((1, 2, 100)),
        "tail_idle_seconds": world.chance.choice((0.01, 60.0)),
    }
    world.broker.max_message_size = _MESSAGE
    one, two = await world.started(storage=storage), await world.started(storage=storage)
    await one.topics.create("t", 1)
    cluster = Leadership(world, one, two)
    await write(world, cluster, 6, is_alone=True)
    readers = [ask_around(world, bridge, f"reader {n}", 8) for n, bridge in enumerate((one, one, one, two, two, two))]
    hurting = faults.some(world, full("t"), kinds=(faults.unload, faults.reset, faults.fail_writes))
    moving = move(world, cluster, 4) if world.chance.often(0.7) else asyncio.sleep(0)
    others = [write(world, cluster, 5) for _ in range(2)]
    await world.within(300, asyncio.gather(*readers, hurting, moving, *others), "all answers")


@schedules(60)
async def test_a_consumer_gets_to_the_end_behind_chunks_without_a_last_one(world: World) -> None:
    """As a node leaves them that dies between two: the end is where the log ends, and the record comes whole later."""
    bridge = await started(world)
    client = Client(world, bridge)
    assert (await client.produce("t", batch([b"before"], [NOW_MS]))).error == 0
    topic = await bridge.topics.get("t")
    assert topic is not None
    log = bridge.topics.log(topic, 0)
    data = batch([b"large " + b"x" * 5000], [NOW_MS], (100, 0, 0))
    (large,) = prepare_records(memoryview(data), Plan(_MESSAGE - 512, after_max_ms=1 << 50), NOW_MS, allow_zstd=True)
    chunks = large.chunks("torn")
    for chunk in chunks[: world.chance.randint(1, len(chunks) - 1)]:
        await log.append_all([chunk])[0]
    over = asyncio.Event()
    if world.chance.often(0.5):  # another node, which has seen nothing of it
        bridge = await world.started()
        client = Client(world, bridge)
    reading = asyncio.ensure_future(read_all(world, bridge, over))
    await world.sleep(0, 3.0)
    produced = await client.produce("t", data)
    while produced.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        await world.sleep(0.1)
        produced = await client.produce("t", data)
    assert produced.error == 0, error_name(produced.error)
    over.set()
    found = await world.within(300, reading, "reading to the end")
    assert found == {0: b"before", produced.offset: b"large " + b"x" * 5000}
    assert (await client.produce("t", data)).offset == produced.offset, "a repetition is not known again"
    check_partition(world, full("t"), [])


@schedules(60)
async def test_a_plain_producer_is_told_where_its_large_record_is(world: World) -> None:
    """Also where Pulsar recognises nothing that comes again: a last chunk that is stored twice is a record once."""
    world.broker.deduplicates = False
    bridge = await started(world)
    producer = Mixed(world, bridge, "t", "plain", request_seconds=60.0, delivery_seconds=600)
    running = asyncio.ensure_future(producer.run())
    for number in range(10):
        producer.send(b"%d" % number)
        for _ in range(3):
            await world.sleep(0, 0.1)
            faults.reset(world, full("t"))
    producer.finish()
    await world.within(600, running, "an outcome for every record")
    check_acknowledged(log_of(world, full("t")), producer)
