"""Producers that retry and raise their epochs, under unloads, crashes, freezes, resets and silence.

Nothing acknowledged is lost, doubled or misplaced. No client is refused for an error of ours. The end never goes back,
and every request is answered.
"""

import asyncio
from collections import Counter
from dataclasses import replace

from bridge.codec import NO_PRODUCER
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.protocol import entry_head
from tests.schedules import faults
from tests.schedules.checks import check_partition
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, batch, error_name
from tests.schedules.producers import RetryingProducer
from tests.schedules.scenes import scene
from tests.schedules.world import World, full

_TAKEN = (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


@schedules(180)
async def test_idempotent_producers_with_long_timeouts(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producers = [
        RetryingProducer(world, bridge, "t", f"p{number}", producer_id=100 + number, delivery_seconds=300)
        for number in range(world.chance.randint(1, 2))
    ]
    await scene(world, bridge, producers, 12)


@schedules(220)
async def test_idempotent_producers_that_raise_their_epochs(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producers = [
        RetryingProducer(
            world, bridge, "t", f"p{number}", producer_id=100 + number,
            request_seconds=world.chance.choice((1.0, 5.0)),
            delivery_seconds=world.chance.choice((1.5, 6.0, 20.0)),
            hangs_up_after=world.chance.choice((None, 0.5, 3.0)),
        )
        for number in range(world.chance.randint(1, 2))
    ]  # fmt: skip
    await scene(world, bridge, producers, 12)


@schedules(150)
async def test_plain_and_idempotent_producers_on_one_partition(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producers = [
        RetryingProducer(world, bridge, "t", "plain"),
        RetryingProducer(
            world, bridge, "t", "idempotent", producer_id=100,
            request_seconds=world.chance.choice((1.0, 10.0)), delivery_seconds=world.chance.choice((3.0, 300.0)),
        ),
    ]  # fmt: skip
    await scene(world, bridge, producers, 10)


@schedules(100)
async def test_an_outage_when_an_idempotent_producer_begins(world: World) -> None:
    """Its first batches fail while its later ones wait: those must not be taken for the first."""
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producer = RetryingProducer(
        world, bridge, "t", "p", producer_id=100, request_seconds=world.chance.choice((0.5, 2.0)), delivery_seconds=100,
        hangs_up_after=world.chance.choice((30.0, 1.0)),
    )  # fmt: skip
    running = asyncio.ensure_future(producer.run())
    world.broker.crash(world.chance.uniform(0.5, 5.0))
    for number in range(10):
        producer.send(b"%d" % number)
        await world.sleep(0, 0.2)
    producer.finish()
    await world.within(300, running, "an outcome for every record")
    check_partition(world, full("t"), [producer])


@schedules(100)
async def test_a_batch_that_pulsar_refuses_leaves_the_partition_writable(world: World) -> None:
    """The broker has a lower limit for this topic than it tells its clients (the policy maxMessageSize)."""
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    world.broker.topic(full("t")).policies["maxMessageSize"] = 500
    client = Client(world, bridge)
    offset = 0
    for number in range(6):
        large = world.chance.often(0.3)
        values = [b"x" * 1000 if large else b"%d" % number]
        producer = (100 + number, 0, 0) if world.chance.often(0.3) else NO_PRODUCER
        produced = await client.produce("t", batch(values, [NOW_MS], producer), timeout_ms=5000)
        if large:
            assert produced.error not in (0, ErrorCode.REQUEST_TIMED_OUT), error_name(produced.error)
        else:
            assert produced.error == 0, f"{error_name(produced.error)}: {produced.message}"
            assert produced.offset == offset
            offset += 1
        await world.moment()


@schedules(100)
async def test_no_batch_succeeds_before_an_earlier_one_that_failed(world: World) -> None:
    """Clients take its success for that of all before it. Pulsar stores it all the same: gaps are nothing to it."""
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    world.broker.topic(full("t")).policies["maxMessageSize"] = 500
    client = Client(world, bridge)
    values = [b"0", b"x" * 1000, b"2", b"3"]
    assert (await client.produce("t", batch(values[:1], [NOW_MS], (100, 0, 0)))).error == 0
    asked = []
    for sequence in (1, 2, 3):
        data = batch([values[sequence]], [NOW_MS], (100, 0, sequence))
        asked.append(asyncio.ensure_future(client.produce("t", data, timeout_ms=5000)))
        await world.moment()
    refused, *later = await asyncio.gather(*asked)
    assert refused.error != 0
    assert not [one for one in later if one.error == 0], "a later batch was acknowledged"


@schedules(100)
async def test_producers_do_not_see_short_faults(world: World) -> None:
    """Unloads and broken connections: what is under way is sent again, and is acknowledged at the first attempt."""
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producers = [
        RetryingProducer(world, bridge, "t", "plain", request_seconds=60),
        RetryingProducer(world, bridge, "t", "idempotent", producer_id=100, request_seconds=60),
    ]
    running = [asyncio.ensure_future(producer.run()) for producer in producers]
    hurting = asyncio.ensure_future(faults.some(world, full("t"), seconds=3.0, kinds=(faults.unload, faults.reset)))
    for number in range(10):
        for producer in producers:
            producer.send(f"{producer.name} {number}".encode())
        await world.sleep(0, 0.3)
    for producer in producers:
        producer.finish()
    await hurting
    await asyncio.gather(*running)
    check_partition(world, full("t"), producers)
    for producer in producers:
        again = {value: fate.attempts for value, fate in producer.fates.items() if fate.attempts != 1}
        assert not again, f"{producer.name} had to send again: {again}, for {dict(producer.errors)}"


@schedules(60)
async def test_a_producer_goes_on_after_a_long_pause(world: World) -> None:
    """Longer than its writer here is kept for: what it has sent before is known all the same."""
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producer = RetryingProducer(world, bridge, "t", "p", producer_id=100)
    running = asyncio.ensure_future(producer.run())
    for number in range(9):
        producer.send(b"%d" % number)
        await world.sleep(0, 0.5)
        if number % 3 == 2:
            world.chance.choice((faults.reset, faults.unload))(world, full("t"))
            await world.sleep(*world.chance.choice(((0.0, 5.0), (595.0, 625.0))))
    producer.finish()
    await world.within(300, running, "an outcome for every record")
    check_partition(world, full("t"), [producer])


@schedules(40)
async def test_an_outage_makes_no_storm_of_copies(world: World) -> None:
    """Pulsar is away for longer than the producers' delivery time-out: they raise their epochs, again and again."""
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producer = RetryingProducer(world, bridge, "t", "p", producer_id=100, request_seconds=5, delivery_seconds=20)
    running = asyncio.ensure_future(producer.run())

    async def send(count: int, pause: float) -> None:
        for _ in range(count):
            producer.send(f"p {len(producer.fates)}".encode())
            await world.sleep(0, pause)

    await send(5, 0.2)
    world.chance.choice((lambda: world.broker.crash(90), lambda: freeze(world, 90)))()
    await send(50, 4)
    await world.sleep(60)
    await send(5, 0.2)
    producer.finish()
    await world.within(300, running, "an outcome for every record")
    await world.sleep(60)
    log = check_partition(world, full("t"), [producer])
    copies = Counter(record.value for record in log)
    value, most = copies.most_common(1)[0]
    sent, epochs = len(producer.fates), producer.moves
    assert most <= 2, f"{value!r} is there {most} times; {len(log)} records of {sent} that were sent, {epochs} epochs"


def freeze(world: World, seconds: float) -> None:
    world.broker.freeze()
    world.loop.after(seconds, world.broker.thaw)


@schedules(8)
async def test_a_batch_from_far_back_is_recognised_after_a_restart(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    client = Client(world, bridge)
    data = batch([b"v"], [NOW_MS], (100, 0, 0))
    assert (await client.produce("t", data)).offset == 0
    if world.chance.often(0.5):
        await client.produce("t", batch([b"w"], [NOW_MS], (100, 0, 1)))
    await bridge.stop()
    foreign_entries(world, full("t"), 3000)
    again = Client(world, await world.started(), "again")
    until = world.now + 5
    while (produced := await again.produce("t", data)).error not in _TAKEN and world.now < until:
        await world.sleep(0.1)
    assert produced.error in _TAKEN, f"repeated for 5 s, refused with {error_name(produced.error)}: {produced.message}"


def foreign_entries(world: World, topic: str, count: int) -> None:
    """As many entries of native producers, all at once."""
    log = world.broker.topic(topic).log
    template = log.entries[-1]
    metadata = MessageMetadata(producer_name="native", sequence_id=0, publish_time=NOW_MS)
    body = entry_head(metadata.SerializeToString(), (b"native",)) + b"native"
    for _ in range(count):
        log.store(replace(template, producer="native", body=body, metadata=metadata, index=log.count(1), highest=0))


@schedules(150)
async def test_plain_producers(world: World) -> None:
    bridge = await world.started()
    await bridge.topics.create("t", 1)
    producers = [
        RetryingProducer(world, bridge, "t", f"p{number}", request_seconds=world.chance.choice((1.0, 10.0)))
        for number in range(world.chance.randint(1, 3))
    ]
    await scene(world, bridge, producers, 8)
