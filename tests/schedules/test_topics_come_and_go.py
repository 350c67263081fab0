"""Topics are created, deleted and recreated while others list, describe and write: what is there stays writable.

"At once" is a handful of the model's delays. Nothing of a topic that went may be left open on the broker, which the end
of each run looks at.
"""

import asyncio
from collections.abc import Awaitable, Callable

from bridge.kafka.error_codes import ErrorCode
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, Produced, batch, error_name, log_of
from tests.schedules.world import NAMESPACE, Bridge, World, full

SOON = 8.0
"""Seconds: opening a partition takes some dozen requests one after another, of a quarter of a second at most."""
_MAY_BE_GONE = {
    0,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


def ok(error: int, what: str) -> None:
    """No error."""
    assert error == 0, f"{what}: {error_name(error)}"


async def write_at_once(world: World, client: Client, topic: str, partition: int = 0) -> Produced:
    """A produce to a topic that is there must succeed soon."""
    asked = world.now
    produced = await client.produce(topic, batch([b"v"], [NOW_MS]), partition=partition, timeout_ms=10_000)
    took = produced.at - asked
    ok(produced.error, f"{topic} cannot be written, told after {took:.3f} s that {produced.message}")
    assert took <= SOON, f"{topic}: a produce took {took:.3f} s"
    return produced


async def write_soon(world: World, client: Client, topic: str) -> None:
    """A produce must succeed soon, perhaps not at first: another client has created the topic a moment ago."""
    until = world.now + SOON
    while True:
        produced = await client.produce(topic, batch([b"v"], [NOW_MS]), timeout_ms=10_000)
        if produced.error == 0 or world.now > until:
            break
        assert produced.error in _MAY_BE_GONE, error_name(produced.error)
        await world.sleep(0.1)
    ok(produced.error, f"{topic} cannot be written, told that {produced.message}")


async def keep_listing(world: World, bridge: Bridge, over: asyncio.Event) -> None:
    """Metadata for all topics, again and again."""
    client, pause = Client(world, bridge, "lister"), world.chance.choice((0.002, 0.02, 0.2))
    while not over.is_set():
        await client.topics()
        await world.sleep(0, pause)


async def with_listers(world: World, bridge: Bridge, *work: "asyncio.Future[None]") -> None:
    """Have it done while some clients list."""
    over = asyncio.Event()
    listers = [asyncio.ensure_future(keep_listing(world, bridge, over)) for _ in range(world.chance.randint(1, 2))]
    try:
        await asyncio.gather(*work)
    finally:
        over.set()
        await asyncio.gather(*listers)


@schedules(200)
async def test_a_topic_is_writable_while_others_list(world: World) -> None:
    bridge = await world.started()
    names = [f"t{number}" for number in range(world.chance.randint(1, 3))]

    async def create(name: str) -> None:
        client = Client(world, bridge, f"creator of {name}")
        await world.moment()
        ok(await client.create(name), "create")
        await write_at_once(world, client, name)

    await with_listers(world, bridge, *(asyncio.ensure_future(create(name)) for name in names))
    other = Client(world, bridge, "other")
    for name in names:
        await write_at_once(world, other, name)
    listed = await other.topics()
    assert listed is not None
    assert set(names) <= set(listed)


@schedules(150)
async def test_a_topic_is_made_once_however_many_ask_for_it(world: World) -> None:
    bridge = await world.started()

    async def use(number: int) -> None:
        client = Client(world, bridge, f"client {number}")
        await world.moment()
        found = await client.topics("auto", create=True)
        assert found is not None
        if found["auto"] == 0:
            await write_soon(world, client, "auto")
        else:
            assert found["auto"] == ErrorCode.LEADER_NOT_AVAILABLE, error_name(found["auto"])

    await with_listers(world, bridge, *(asyncio.ensure_future(use(number)) for number in range(3)))
    await write_at_once(world, Client(world, bridge, "other"), "auto")


@schedules(120)
async def test_a_topic_recreated_is_empty_and_writable(world: World) -> None:
    bridge = await world.started(groups=True)
    client = Client(world, bridge, "admin")

    async def live() -> None:
        for life in range(3):
            ok(await client.create("t"), "create")
            for number in range(world.chance.randint(0, 2)):
                produced = await write_at_once(world, client, "t")
                assert produced.offset == number, f"life {life} begins at {produced.offset}"
            await world.moment()
            if life < 2:
                ok(await client.delete("t"), "delete")
                await world.moment()

    await with_listers(world, bridge, asyncio.ensure_future(live()))
    await write_at_once(world, client, "t")


async def delete_under_users(world: World, bridge: Bridge, client: Client, then: Callable[[], Awaitable[None]]) -> None:
    """Delete a topic that is written and read all the time, and do something more before they stop."""
    ok(await client.create("t"), "create")
    over = asyncio.Event()

    async def write() -> None:
        writer = Client(world, bridge, "writer")
        while not over.is_set():
            produced = await writer.produce("t", batch([b"v"], [NOW_MS]), timeout_ms=3000)
            allowed = _MAY_BE_GONE | {ErrorCode.REQUEST_TIMED_OUT}
            assert produced.error in allowed, f"{error_name(produced.error)}: {produced.message}"
            await world.sleep(0, 0.2)

    async def read() -> None:
        reader, offset = Client(world, bridge, "reader"), 0
        while not over.is_set():
            found = await reader.fetch("t", offset, max_wait=0.5)
            assert found.error in _MAY_BE_GONE | {ErrorCode.OFFSET_OUT_OF_RANGE}, error_name(found.error)
            offset = offset + len(found.records) if found.error == 0 else 0
            await world.sleep(0, 0.2)

    users = [asyncio.ensure_future(write()), asyncio.ensure_future(read())]
    await world.sleep(0, 1)
    ok(await client.delete("t"), "delete")
    await then()
    over.set()
    await asyncio.gather(*users)


@schedules(150)
async def test_a_topic_deleted_under_writers_and_readers_stays_deleted(world: World) -> None:
    bridge = await world.started(groups=True)
    client = Client(world, bridge, "admin")
    await delete_under_users(world, bridge, client, lambda: world.sleep(0, 10))
    assert full("t") not in world.broker.namespace.topics, "the writer has brought the topic back"
    listed = await client.topics()
    assert listed is not None
    assert "t" not in listed


@schedules(150)
async def test_a_topic_deleted_past_the_bridge_under_a_writer_stays_deleted(world: World) -> None:
    """Its producer reconnects as soon as the broker closes it, before the bridge hears of the deletion."""
    bridge, native = await world.started(), world.bridge()
    client = Client(world, bridge, "writer")
    ok(await client.create("t"), "create")
    await write_at_once(world, client, "t")
    await native.admin.delete_partitioned(f"persistent://{NAMESPACE}/t")
    for _ in range(world.chance.randrange(1, 20)):
        produced = await client.produce("t", batch([b"v"], [NOW_MS]), timeout_ms=3000)
        assert produced.error in _MAY_BE_GONE | {ErrorCode.REQUEST_TIMED_OUT}, error_name(produced.error)
        await world.sleep(0, 0.5)
    assert full("t") not in world.broker.namespace.topics, "the writer has brought the topic back"


@schedules(150)
async def test_a_topic_is_recreated_under_writers_and_readers(world: World) -> None:
    bridge = await world.started(groups=True)
    client = Client(world, bridge, "admin")

    async def again() -> None:
        await world.sleep(0, 10)
        ok(await client.create("t"), "create")
        await world.sleep(0, 1)

    await delete_under_users(world, bridge, client, again)
    await write_at_once(world, client, "t")


@schedules(150)
async def test_a_topic_deleted_and_recreated_past_the_bridge(world: World) -> None:
    """By `pulsar-admin`, say: the bridge hears of it late, and then serves the new topic."""
    bridge, native = await world.started(), world.bridge()
    client, name = Client(world, bridge), f"persistent://{NAMESPACE}/t"
    ok(await client.create("t"), "create")
    for number in range(3):
        assert (await write_at_once(world, client, "t")).offset == number
    deleted = await bridge.topics.get("t")
    assert deleted is not None
    over = asyncio.Event()

    async def read() -> None:
        reader, offset = Client(world, bridge, "reader"), 3
        while not over.is_set():
            found = await reader.fetch("t", offset, max_wait=2.0)
            assert found.error in _MAY_BE_GONE | {ErrorCode.OFFSET_OUT_OF_RANGE}, error_name(found.error)
            if found.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                offset = 0
            await world.sleep(0, 0.2)

    reading = asyncio.ensure_future(read())
    await world.sleep(0, 3)
    await native.admin.delete_partitioned(name)
    await world.sleep(0, world.chance.choice((0.01, 1.0, 20.0)))
    await native.admin.create_partitioned(name, 1)
    await world.sleep(20)  # what is known of a topic is believed for five seconds
    topic = await bridge.topics.get("t")
    assert topic is not None
    assert topic.id != deleted.id, "the new topic has the id of the deleted one"
    produced = await client.produce("t", batch([b"new"], [NOW_MS]), timeout_ms=10_000)
    ok(produced.error, f"the new topic cannot be written, told that {produced.message}")
    assert produced.offset == 0, f"the new topic's first record is at {produced.offset}"
    assert (await client.fetch("t", 0, max_wait=10.0)).records
    over.set()
    await reading


@schedules(100)
async def test_partitions_are_added_under_listers(world: World) -> None:
    bridge = await world.started()
    client = Client(world, bridge, "admin")
    ok(await client.create("t", 1), "create")

    async def grow() -> None:
        topic = await bridge.topics.get("t")
        assert topic is not None
        await bridge.topics.add_partitions(topic, 3)
        for partition in range(3):
            await write_at_once(world, client, "t", partition)

    await with_listers(world, bridge, asyncio.ensure_future(grow()))
    for partition in range(3):
        await write_at_once(world, Client(world, bridge, "other"), "t", partition)
        assert [record.offset for record in log_of(world, full("t", partition))] == [0, 1]


@schedules(100)
async def test_idle_partitions_keep_nothing_but_their_producers(world: World) -> None:
    bridge = await world.started(storage={"tail_idle_seconds": 5.0})
    client = Client(world, bridge)
    for name in ("one", "two"):
        ok(await client.create(name), "create")
        for _ in range(3):
            await write_at_once(world, client, name)
        found = await client.fetch(name, world.chance.randint(0, 2), max_wait=10.0)
        assert found.records
        await world.moment()
    if world.chance.often(0.5):
        topic = await bridge.topics.get("one")
        assert topic is not None
        bridge.topics.forget(topic)
    await world.sleep(60)
    left = [one for one in world.broker.sessions() if one.startswith("consumer")]
    assert not left, f"readers of unused partitions: {left}"
    for name in ("one", "two"):
        assert len(world.broker.topic(full(name)).producers) <= 1
