"""Partitions change their leader at any moment: what a node gives up it never sends, and what it has sent stays true.

Nodes and clients hear of each change late, so that two nodes lead, or none, for a while.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from tests.schedules import faults
from tests.schedules.checks import check_partition
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, Produced, batch, error_name, log_of
from tests.schedules.leadership import Leadership
from tests.schedules.producers import RetryingProducer
from tests.schedules.world import Bridge, World, full

_REFUSED = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR}


def _follow(turn: Callable[[Bridge], None], cluster: Leadership) -> None:
    turn(cluster.known_leader)


async def lead_in_turns(world: World, cluster: Leadership, producers: list[RetryingProducer], seconds: float) -> None:
    """Move the partition to and fro for a while: sometimes within milliseconds, sometimes not for seconds."""
    until = world.now + seconds
    while world.now < until:
        await world.sleep(0, world.chance.choice((0.003, 0.05, 1.0, 4.0)))
        cluster.move_to(world.chance.choice(cluster.bridges), world.chance.choice((0.0, 0.01, 1.0)))
        for producer in producers:
            turn = producer.move_to if world.chance.often(0.3) else producer.follow
            late = world.chance.choice((0.0, 0.02, 1.0)) * world.chance.random()
            world.loop.call_later(late, partial(_follow, turn, cluster))
    await asyncio.sleep(1.0)  # until the last of them has heard


@schedules(100)
async def test_leadership_moves_under_producers(world: World) -> None:
    """Idempotent and plain ones: nothing acknowledged is lost, doubled, at another offset, or out of order.

    On the slowest connections here, looking for a repeated batch takes longer than a request.
    """
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    cluster = Leadership(world, one, two)
    producers = [
        RetryingProducer(
            world, one, "t", f"p{number}", producer_id=number or -1, request_seconds=3, delivery_seconds=200
        )
        for number in range(3)
    ]
    running = [asyncio.ensure_future(producer.run()) for producer in producers]
    for producer in producers:
        producer.send(b"first of " + producer.name.encode())
    await world.sleep(3)
    assert all(fate.acked_at is not None for producer in producers for fate in producer.fates.values())
    moving = asyncio.ensure_future(lead_in_turns(world, cluster, producers, 12))
    hurting = asyncio.ensure_future(faults.some(world, full("t"), kinds=(faults.unload, faults.reset)))
    for number in range(15):
        for producer in producers:
            producer.send(b"%s-%d" % (producer.name.encode(), number))
        await world.sleep(0, 0.8)
    await asyncio.gather(moving, hurting)
    cluster.tell(one)
    cluster.tell(two)
    for producer in producers:
        producer.follow(cluster.leader)
        producer.finish()
    await world.within(300, asyncio.gather(*running), "an outcome for every record")
    check_partition(world, full("t"), producers)
    for producer in producers:
        failed = [value for value, fate in producer.fates.items() if fate.failed]
        assert not failed, f"{producer.name}: not acknowledged within 200 s: {failed}"


@schedules(100)
async def test_the_first_batches_of_a_producer_are_under_way_while_its_partition_moves(world: World) -> None:
    """To the former leader, and later ones to the next: Pulsar would take these, and those for repetitions then."""
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    cluster = Leadership(world, one, two)
    producer = RetryingProducer(world, one, "t", "p", producer_id=100, request_seconds=3, delivery_seconds=200)
    running = asyncio.ensure_future(producer.run())
    for number in range(8):
        producer.send(b"%d" % number)
        await world.moment()
        if number == 2:
            cluster.move_to(two, world.chance.choice((0.0, 0.02, 1.0)))
            producer.follow(two)
    producer.finish()
    await world.within(300, running, "an outcome for every record")
    check_partition(world, full("t"), [producer])
    assert not any(fate.failed for fate in producer.fates.values())


@schedules(100)
async def test_a_producer_s_name_is_free_soon_for_the_next_leader(world: World) -> None:
    """Though its client is still connected to the former one, and has batches under way there."""
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    cluster = Leadership(world, one, two)
    former, client = Client(world, one, "former"), Client(world, two, "client")
    assert (await former.produce("t", batch([b"0"], [NOW_MS], (100, 0, 0)))).error == 0
    under_way = [
        asyncio.ensure_future(former.produce("t", batch([b"%d" % number], [NOW_MS], (100, 0, number))))
        for number in range(1, world.chance.randint(1, 5))
    ]
    await world.moment()
    cluster.move_to(two)
    moved = world.now
    told = [await answer for answer in under_way]
    for answer in told:
        assert answer.error in (0, ErrorCode.NOT_LEADER_OR_FOLLOWER), error_name(answer.error)
        assert answer.at - moved < 2.5, f"told {answer.at - moved:.3f} s after the partition had moved"
    stored = sum(answer.error == 0 for answer in told)
    assert all(answer.error == 0 for answer in told[:stored]), "a later batch is acknowledged, an earlier one is not"
    for number in range(1 + stored, 7):
        produced = await client.produce("t", batch([b"%d" % number], [NOW_MS], (100, 0, number)))
        assert (produced.error, produced.offset) == (0, number), f"{error_name(produced.error)}: {produced.message}"
    assert world.now - moved < 10, (
        f"the next leader could write {world.now - moved:.3f} s after the partition had moved"
    )
    assert [record.value for record in log_of(world, full("t"))] == [b"%d" % number for number in range(7)]


@schedules(100)
async def test_who_waits_for_the_offset_of_what_was_sent_again_is_told_that_the_partition_is_lost(
    world: World,
) -> None:
    """Pulsar says that it holds the batch already; where is still being looked for."""
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    cluster = Leadership(world, one, two)
    former, client = Client(world, one, "former"), Client(world, two, "client")
    assert (await former.produce("t", batch([b"0"], [NOW_MS], (100, 0, 0)))).error == 0
    looked_up = one.metrics.storage.reanchors.value
    under_way = asyncio.ensure_future(former.produce("t", batch([b"1"], [NOW_MS], (100, 0, 1))))
    await world.moment()
    world.broker.reset_connection()
    for _ in range(400):
        if one.metrics.storage.reanchors.value > looked_up or under_way.done():
            break
        await world.sleep(0.005)
    cluster.move_to(two)
    cluster.tell(one, flush=False)
    moved = world.now
    told = await under_way
    assert told.error in (0, ErrorCode.NOT_LEADER_OR_FOLLOWER), error_name(told.error)
    assert told.at - moved < 2.5, f"told {told.at - moved:.3f} s after the partition had moved"
    produced = await client.produce("t", batch([b"1"], [NOW_MS], (100, 0, 1)))
    assert (produced.error, produced.offset) == (0, 1), f"{error_name(produced.error)}: {produced.message}"


@schedules(100)
async def test_a_node_that_is_cut_off_answers_though_pulsar_does_not(world: World) -> None:
    """Also what Pulsar has stored, and whose offset has to be read back: another one has written between."""
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    cluster = Leadership(world, one, two)
    client = Client(world, one)
    producer = (100, 0, 0) if world.chance.often(0.5) else (-1, -1, -1)
    assert (await client.produce("t", batch([b"0"], [NOW_MS], producer))).error == 0
    native = await world.native()
    other = native.producer(full("t"))
    await other.send(MessageMetadata(), b"native", 1)
    looked_up = one.metrics.storage.reanchors.value
    then = (100, 0, 1) if producer[0] >= 0 else producer
    under_way = asyncio.ensure_future(client.produce("t", batch([b"1"], [NOW_MS], then)))
    while one.metrics.storage.reanchors.value == looked_up and not under_way.done():
        await world.sleep(0.001)
    world.broker.freeze()
    cluster.move_to(two)
    cluster.tell(one, flush=False)
    cut_off = world.now
    told = await under_way
    world.broker.thaw()
    assert told.error in (0, ErrorCode.NOT_LEADER_OR_FOLLOWER), error_name(told.error)
    assert told.at - cut_off < 1.0, f"told {told.at - cut_off:.3f} s after the node was cut off"


@schedules(100)
async def test_what_a_node_gives_up_is_never_sent(world: World) -> None:
    """Its clients repeat it elsewhere: plain records would be there twice."""
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    cluster = Leadership(world, one, two)
    waiting, client = Client(world, one, "waiting"), Client(world, two, "client")
    assert (await waiting.produce("t", batch([b"first"], [NOW_MS]))).error == 0
    world.broker.crash(1 + 3 * world.chance.random())
    await world.sleep(0.6)  # the node has seen its connections break
    appends = [asyncio.ensure_future(waiting.produce("t", batch([b"%d" % number], [NOW_MS]))) for number in range(5)]
    await world.sleep(0, 0.3)
    cluster.move_to(two)
    moved = world.now
    if world.chance.often(0.5):
        cluster.tell(one, flush=False)  # it is cut off
    for answer in appends:
        produced = await answer
        assert produced.error == ErrorCode.NOT_LEADER_OR_FOLLOWER, error_name(produced.error)
        assert produced.at - moved < 2.5, f"told {produced.at - moved:.3f} s after the partition had moved"
    await check_each_once(world, client)


@schedules(100)
async def test_a_node_that_was_away_sends_nothing_again_before_it_knows_that_it_leads(world: World) -> None:
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    cluster = Leadership(world, one, two)
    waiting, client = Client(world, one, "waiting"), Client(world, two, "client")
    assert (await waiting.produce("t", batch([b"first"], [NOW_MS]))).error == 0
    world.broker.crash(0.7 + 3 * world.chance.random())
    await world.sleep(0.6)
    appends = [asyncio.ensure_future(waiting.produce("t", batch([b"%d" % number], [NOW_MS]))) for number in range(5)]
    await world.moment()
    one.topics.hold()
    await world.sleep(0, 15)  # its connections are back
    has_lost = world.chance.often(0.7)
    if has_lost:
        cluster.move_to(two)
        await world.sleep(0.001)
    one.topics.proceed()
    errors = [(await answer).error for answer in appends]
    if has_lost:
        assert set(errors) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}, [error_name(error) for error in errors]
        await check_each_once(world, client)
    else:
        assert not any(errors), [error_name(error) for error in errors]
        assert len(log_of(world, full("t"))) == 6


async def check_each_once(world: World, client: Client) -> None:
    """The client sends its five records to the next leader: each is there once."""
    for number in range(5):
        produced = await send_until_stored(world, client, b"%d" % number)
        assert produced.offset == number + 1, f"{number} is acknowledged at {produced.offset}"
    await world.sleep(20)
    values = [record.value for record in log_of(world, full("t"))]
    assert values == [b"first", *(b"%d" % number for number in range(5))], f"{values}"


async def send_until_stored(world: World, client: Client, value: bytes) -> Produced:
    """A plain record whose appends fail for sure, if they do, before they are sent."""
    for _ in range(20):
        produced = await client.produce("t", batch([value], [NOW_MS]), timeout_ms=60_000)
        if produced.error == 0:
            return produced
        assert produced.error in _REFUSED, error_name(produced.error)
        await world.sleep(1)
    raise AssertionError(f"{value!r} cannot be written")


@schedules(100)
async def test_waiting_fetches_are_told_that_another_node_leads(world: World) -> None:
    one, two = await world.started(), await world.started()
    await one.topics.create("t", 1)
    cluster = Leadership(world, one, two)
    reader, writer = Client(world, one, "reader"), Client(world, two, "writer")
    assert (await Client(world, one, "first").produce("t", batch([b"0"], [NOW_MS]))).error == 0
    offset = world.chance.choice((0, 1))
    if offset == 0:
        assert (await reader.fetch("t", 0)).records
    waiting = asyncio.ensure_future(reader.fetch("t", 1, max_wait=60))
    await world.sleep(0, 1)
    cluster.move_to(two)
    moved = world.now
    found = await waiting
    assert found.error == ErrorCode.NOT_LEADER_OR_FOLLOWER, error_name(found.error)
    assert found.at - moved < 3, f"told {found.at - moved:.3f} s after the partition had moved"
    assert (await writer.produce("t", batch([b"1"], [NOW_MS]))).offset == 1
    found = await Client(world, two, "next").fetch("t", 0)
    assert bytes(found.records[0].value or b"") == b"0"


@schedules(100)
async def test_a_topic_is_created_while_its_partition_moves(world: World) -> None:
    """The client is told that it was created, for it was."""
    one, two = await world.started(), await world.started()
    cluster = Leadership(world, one, two)
    moving = asyncio.ensure_future(lead_in_turns(world, cluster, [], 4))
    for number in range(4):
        await world.sleep(0, 0.8)
        made = await cluster.bridges[number % 2].topics.create(f"t{number}", 2)
        assert made.partitions == 2
        await cluster.bridges[number % 2].topics.add_partitions(made, 3)
    await moving
