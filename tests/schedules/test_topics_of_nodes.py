"""Topics are created, deleted and changed through one node, while others have them in memory: what those say is true.

Nodes tell each other what they did, as through the view log; the watch of the namespace and the refresh after five
seconds tell the rest.
"""

import asyncio
import uuid
from dataclasses import dataclass

from bridge.cluster.records import TopicEvent
from bridge.kafka.error_codes import ErrorCode
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, Produced, batch, error_name, log_of
from tests.schedules.world import Bridge, World, full


def tell_each_other(world: World, *bridges: Bridge) -> dict[Bridge, int]:
    """Have each node told what the others have done, a moment later; how often each was."""
    told = dict.fromkeys(bridges, 0)

    def note(to: Bridge, name: str, topic_id: uuid.UUID, event: TopicEvent) -> None:
        world.trace(f"node {bridges.index(to)}", "= %s is %s", name, event)
        to.topics.note_change(name, topic_id, event)
        told[to] += 1

    def tell(by: Bridge, name: str, topic_id: uuid.UUID, event: TopicEvent) -> None:
        for to in bridges:
            if to is not by:
                world.loop.call_later(0.02 * world.chance.random(), note, to, name, topic_id, event)

    for by in bridges:
        by.topics.on_changed.append(lambda *change, by=by: tell(by, *change))
    return told


@schedules(80)
async def test_what_another_node_did_to_a_topic_is_known_when_it_is_told(world: World) -> None:
    one, two = await world.started(), await world.started()
    told = tell_each_other(world, one, two)
    over = asyncio.Event()

    async def look() -> None:
        while not over.is_set():
            await two.topics.get("t")
            await world.moment()

    looking = asyncio.ensure_future(look())

    async def until_told() -> None:
        before = told[two]
        while told[two] == before:
            await world.sleep(0.001)

    for _ in range(2):
        hearing = asyncio.ensure_future(until_told())
        await world.sleep(0, 2)
        made = await one.topics.create("t", 1)
        await hearing
        found = await two.topics.get("t")
        assert found is not None, "it was created, and is denied"
        assert found.id == made.id, "it is taken for another one"
        assert await two.topics.by_id(made.id) is found
        hearing = asyncio.ensure_future(until_told())
        await one.topics.add_partitions(made, 3)
        await hearing
        await world.sleep(1)
        assert found.partitions == 3
        hearing = asyncio.ensure_future(until_told())
        await one.topics.delete(made)
        await hearing
        assert await two.topics.get("t") is None, "it was deleted, and is still shown"
    over.set()
    await looking


@schedules(60)
async def test_partitions_that_another_node_added_are_noticed_by_the_watch(world: World) -> None:
    one, two = await world.started(), await world.started()
    made = await one.topics.create("t", 1)
    found = await two.topics.get("t")
    assert found is not None
    await world.sleep(0, 3)
    await one.topics.add_partitions(made, 3)
    await world.sleep(1.5)
    assert found.partitions == 3


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of one record."""

    value: bytes
    sent_at: float
    produced: Produced


@schedules(80)
async def test_a_topic_is_made_again_through_another_node_under_a_writer(world: World) -> None:
    """What is acknowledged is where the answer says: in the new topic, if it was sent when the old one was gone."""
    one, two = await world.started(), await world.started()
    if world.chance.often(0.5):
        tell_each_other(world, one, two)
    old = await one.topics.create("t", 1)
    writer, appended, over = Client(world, one, "writer"), list[Appended](), asyncio.Event()

    async def write() -> None:
        number = 0
        while not over.is_set():
            value, sent_at = b"%d" % number, world.now
            produced = await writer.produce("t", batch([value], [NOW_MS]), timeout_ms=5000)
            appended.append(Appended(value, sent_at, produced))
            number += 1
            await world.sleep(0, world.chance.choice((0.001, 0.2)))

    writing = [asyncio.ensure_future(write())]
    await world.sleep(0, 2)
    deleted = await two.topics.get("t")
    assert deleted is not None
    await two.topics.delete(deleted)
    gone_at = world.now
    await world.sleep(0, world.chance.choice((0.0, 0.5, 8.0)))
    made = await two.topics.create("t", 1)
    assert made.id != old.id
    await world.sleep(10)
    over.set()
    await asyncio.gather(*writing)
    check_appended(world, appended, gone_at)


def check_appended(world: World, appended: list[Appended], gone_at: float) -> None:
    """What was acknowledged of the new topic is there at that offset, and its writer has come through."""
    log = {record.offset: record.value for record in log_of(world, full("t"))}
    places = {value: offset for offset, value in log.items()}
    assert sorted(log) == list(range(len(log)))
    for one_ in appended:
        if one_.produced.error:
            assert one_.produced.error != ErrorCode.UNKNOWN_SERVER_ERROR, one_.produced.message
            continue
        if one_.value in places or one_.sent_at > gone_at:
            found = log.get(one_.produced.offset)
            assert found == one_.value, f"{one_.value!r} was acknowledged at {one_.produced.offset}, where {found!r} is"
    assert not appended[-1].produced.error, error_name(appended[-1].produced.error)


@schedules(60)
async def test_the_start_of_a_log_only_goes_up_over_nodes(world: World) -> None:
    """Each in turn deletes records, from whatever it believes the start to be."""
    bridges = [await world.started(), await world.started()]
    tell_each_other(world, *bridges)
    await bridges[0].topics.create("t", 1)
    client = Client(world, bridges[0], "writer")
    for number in range(10):
        assert (await client.produce("t", batch([b"%d" % number], [NOW_MS]))).error == 0
    highest = 0
    for _ in range(6):
        bridge = world.chance.choice(bridges)
        topic = await bridge.topics.get("t")
        assert topic is not None
        wanted = world.chance.randint(0, 10)
        start = await bridge.topics.administration.delete_records(topic, 0, bridge.topics.log(topic, 0), wanted)
        assert start >= wanted
        assert start >= highest, f"the start was {highest}, and is {start} after records before {wanted} were deleted"
        highest = max(highest, start)
        await world.sleep(0, world.chance.choice((0.001, 1.0)))
    await world.sleep(1)
    for bridge in bridges:
        assert await (await bridge.topics.partition("t", 0)).earliest() == highest
    for bridge in [await world.started()]:  # from what is stored alone
        assert await (await bridge.topics.partition("t", 0)).earliest() == highest
