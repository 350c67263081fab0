"""Whatever opens may be closed meanwhile: then all who wait are told, and nothing opens, or stays open, behind it.

Each run closes at a moment of its own. What is left then, on the broker, in tasks or in unread errors, is
looked for at the end of every run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bridge.errors import KafkaError
from bridge.pulsar import EARLIEST, AccessMode, PulsarClient, PulsarError
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.storage.partition import PartitionLog
from bridge.storage.topics.topic import Topic
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch
from tests.schedules.world import Bridge, World, full, group_slot
from tests.storage.conftest import prepared

SOON = 35.0
"""Seconds until all callers are told: the operation timeout, 30 s, and some."""


async def told(world: World, work: Awaitable[Any], what: str, seconds: float = SOON) -> Any:
    """The outcome, which must come soon: a result, or an error that says something to a client."""
    try:
        return await world.within(seconds, work, what)
    except (KafkaError, PulsarError) as error:
        return error


async def append(log: PartitionLog, producer_id: int, count: int = 3) -> None:
    """Append some batches, as Produce does."""
    for sequence in range(count):
        await log.make_ready({(producer_id, 0, 0)})
        producer = (producer_id, 0, sequence) if producer_id >= 0 else (-1, -1, -1)
        (offset,) = log.append_all([prepared(1, NOW_MS, producer=producer)])
        await asyncio.wait((offset,))
        if offset.cancelled():
            return
        offset.result()


async def earliest_again(log: PartitionLog) -> int:
    """After a while the log start is asked for again, in the background."""
    await log.earliest()
    await asyncio.sleep(10.5)
    return await log.earliest()


USES: dict[str, Callable[[PartitionLog], Awaitable[Any]]] = {
    "append": lambda log: append(log, -1),
    "append idempotently": lambda log: append(log, 7),
    "another idempotent producer": lambda log: append(log, 8),
    "writable": lambda log: log.writable(),
    "read": lambda log: log.read(0, 1000, 5.0),
    "read later": lambda log: log.read(2, 1000, 5.0),
    "latest": lambda log: log.latest(),
    "earliest": lambda log: log.earliest(),
    "earliest again": earliest_again,
    "at_time": lambda log: log.at_time(NOW_MS),
    "newest": lambda log: log.newest(),
}


async def filled(world: World, bridge: Bridge) -> Topic:
    """A topic with some records, which this bridge does not know yet."""
    native = await world.native()
    producer = native.producer(full("t"))
    await bridge.admin.create_partitioned(f"persistent://{bridge.settings.pulsar.full_namespace}/t", 1)
    for _ in range(world.chance.randint(0, 4)):
        await producer.send(MessageMetadata(), b"native", 1)
    await native.close()
    topic = await bridge.topics.get("t")
    assert topic is not None
    return topic


async def some_uses(world: World, log: PartitionLog, seconds: float = SOON) -> None:
    """Use the log in some ways at the same time, beginning at moments of their own."""

    async def one(name: str) -> None:
        await world.moment()
        await told(world, USES[name](log), name, seconds)

    await asyncio.gather(*(one(name) for name in world.chance.sample(sorted(USES), world.chance.randint(1, 5))))


@schedules(300)
async def test_a_partition_is_closed_while_it_opens(world: World) -> None:
    bridge = await world.started()
    topic = await filled(world, bridge)
    log = bridge.topics.log(topic, 0)
    using = asyncio.ensure_future(some_uses(world, log))
    await world.sleep(0, world.chance.choice((0.01, 0.1, 1.0)))
    bridge.topics.forget(topic)
    await using
    await world.sleep(SOON)
    left = [one for one in world.broker.sessions() if "__bridge" not in one]
    assert not left, f"open although the log is closed: {left}"
    client = Client(world, bridge)
    produced = await client.produce("t", batch([b"v"], [NOW_MS]), timeout_ms=10_000)
    assert produced.error == 0, f"the partition cannot be written after it was closed: {produced.message}"


@schedules(200)
async def test_a_closed_partition_does_not_open_again(world: World) -> None:
    bridge = await world.started()
    topic = await filled(world, bridge)
    log = bridge.topics.log(topic, 0)
    if world.chance.often(0.5):
        await some_uses(world, log)
    bridge.topics.forget(topic)
    await world.moment()
    await some_uses(world, log)
    await world.sleep(SOON)
    left = [one for one in world.broker.sessions() if "__bridge" not in one]
    assert not left, f"open although the log is closed: {left}"


@schedules(200)
async def test_all_topics_are_closed_while_they_are_used(world: World) -> None:
    bridge = await world.started(groups=world.chance.often(0.3))
    topic = await filled(world, bridge)
    using = asyncio.ensure_future(some_uses(world, bridge.topics.log(topic, 0)))
    asking = [asyncio.ensure_future(told(world, bridge.topics.all(), "all"))]
    if world.chance.often(0.5):
        asking.append(asyncio.ensure_future(told(world, bridge.topics.create("new", 2), "create")))
    if world.chance.often(0.3):
        asking.append(asyncio.ensure_future(told(world, bridge.topics.producer_ids.next(), "a producer id")))
    await world.sleep(0, world.chance.choice((0.01, 0.1, 1.0)))
    closing = asyncio.ensure_future(world.within(SOON, bridge.topics.close(), "closing the topics"))
    await closing
    if world.chance.often(0.5):
        await world.within(SOON, bridge.stop(), "stopping the bridge")
    await asyncio.gather(using, *asking)


@schedules(200)
async def test_a_client_is_closed_while_everything_opens(world: World) -> None:
    bridge = world.bridge()
    await bridge.client.start()
    client: PulsarClient = bridge.client
    name = "persistent://public/default/t"
    await bridge.admin.create_non_partitioned(name)
    seen: list[object] = []

    async def producing(mode: AccessMode) -> None:
        producer = client.producer(name, name=mode.name, access_mode=mode, must_exist=world.chance.often(0.5))
        await producer.send(MessageMetadata(), b"x", 1)

    uses: list[Callable[[], Awaitable[Any]]] = [
        lambda: producing(AccessMode.SHARED),
        lambda: producing(AccessMode.EXCLUSIVE),
        lambda: producing(AccessMode.EXCLUSIVE_WITH_FENCING),
        lambda: client.reader(name, EARLIEST),
        lambda: client.watch_topics("public/default", lambda added, removed: seen.append(added)),
        lambda: client.read_entry(name, EARLIEST),
        lambda: client.partitions(name),
        lambda: client.topics_of_namespace("public/default"),
    ]
    asked = [
        asyncio.ensure_future(told(world, use(), "an operation of the client"))
        for use in world.chance.sample(uses, world.chance.randint(1, 5))
    ]
    await world.sleep(0, world.chance.choice((0.001, 0.02, 0.3)))
    await world.within(SOON, bridge.stop(), "closing the client")
    await asyncio.gather(*asked)


@schedules(150)
async def test_who_gives_up_waiting_for_a_connection_harms_no_other(world: World) -> None:
    """All who want the first connection wait for the same attempt to make it."""
    bridge = world.bridge()
    asked = [asyncio.ensure_future(bridge.client.topics_of_namespace("public/default")) for _ in range(3)]
    await world.sleep(0, world.chance.choice((0.001, 0.02)))
    asked[world.chance.randint(0, 2)].cancel()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [] in answers
    assert sum(isinstance(answer, asyncio.CancelledError) for answer in answers) <= 1, answers


@schedules(150)
async def test_a_producer_is_closed_while_it_opens(world: World) -> None:
    """Its name is free then, on a connection that others go on with."""
    client = await world.native()
    name = "persistent://public/default/t"
    other = client.producer(name)
    await other.opened()
    for _ in range(3):
        producer = client.producer(name, name="n", must_exist=True)
        await world.sleep(0, world.chance.choice((0.001, 0.02, 0.3)))
        await world.within(SOON, producer.close(), "closing a producer")
    await world.within(SOON, client.producer(name, name="n").opened(), "a producer of the same name")
    await world.sleep(SOON)
    assert len(world.broker.topic(name).producers) == 2


@schedules(150)
async def test_a_watch_is_closed_while_it_opens(world: World) -> None:
    bridge = world.bridge()
    await bridge.client.start()
    opening = asyncio.ensure_future(bridge.client.watch_topics("public/default", lambda added, removed: None))
    await world.sleep(0, world.chance.choice((0.001, 0.02)))
    if world.chance.often(0.5):
        opening.cancel()
    (watch,) = await asyncio.gather(opening, return_exceptions=True)
    if not isinstance(watch, BaseException) and watch is not None:
        await watch.close()
    await world.sleep(5)
    assert all(not connection.watches for connection in world.broker.connections.values())


@schedules(200)
async def test_the_groups_slot_is_closed_while_it_is_taken(world: World) -> None:
    bridge = world.bridge()
    await bridge.client.start()
    starting = asyncio.ensure_future(told(world, bridge.store.start(), "starting the store"))
    await world.sleep(0, world.chance.choice((0.01, 0.2, 2.0)))
    await starting
    bridge.store.assign(range(bridge.store.slots), orphaned=range(bridge.store.slots))
    await world.sleep(0, world.chance.choice((0.01, 0.2, 2.0)))
    if world.chance.often(0.3):
        world.broker.unload(group_slot())
        await world.moment()
    asked = asyncio.ensure_future(told(world, bridge.store.load("g"), "loading a group"))
    await world.moment()
    await world.within(SOON, bridge.store.close(), "closing the store")
    await asked
    await world.sleep(SOON)
    left = world.broker.sessions()
    assert not left, f"open although the slot is closed: {left}"


@schedules(150)
async def test_everything_is_closed_while_pulsar_is_away(world: World) -> None:
    """Stopped, killed or cut off: closing waits for its answers, but not forever."""
    bridge = await world.started(groups=world.chance.often(0.3))
    topic = await filled(world, bridge)
    using = asyncio.ensure_future(some_uses(world, bridge.topics.log(topic, 0), seconds=300))
    await world.sleep(0, world.chance.choice((0.05, 1.0)))
    world.chance.choice(
        (world.broker.freeze, lambda: world.broker.crash(500), lambda: world.broker.silence_connection(500))
    )()
    await world.sleep(0, world.chance.choice((0.05, 5.0, 40.0)))
    await world.within(150, bridge.stop(), "stopping while Pulsar is away")
    world.broker.thaw()
    await using
    await world.sleep(600)


@schedules(150)
async def test_requests_under_way_are_answered_when_the_bridge_stops(world: World) -> None:
    bridge = await world.started()
    await filled(world, bridge)

    async def requests(number: int) -> None:
        client = Client(world, bridge, f"client {number}")
        while not bridge.closed:
            if number % 2:
                await told(world, client.produce("t", batch([b"v"], [NOW_MS]), timeout_ms=5000), "a produce")
            else:
                await told(world, client.fetch("t", 0, max_wait=1.0), "a fetch")
            await world.moment()

    users = [asyncio.ensure_future(requests(number)) for number in range(3)]
    await world.sleep(0, 1)
    await world.within(SOON, bridge.stop(), "stopping the bridge")
    await asyncio.gather(*users)
