"""Topics are created, deleted and changed through one node, while others have them in memory: what those say is true.

Nodes tell each other what they did, as through the view log; the watch of the namespace and the refresh after five
seconds tell the rest.
"""

import asyncio
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bridge.apis import create_partitions, create_topics, delete_records, delete_topics
from bridge.cluster.membership.records import TopicEvent
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api
from bridge.storage import topic_properties
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, Client, Produced, batch, error_name, log_of
from tests.schedules.world import NAMESPACE, Bridge, World, full

_TOPIC = f"persistent://{NAMESPACE}/t"


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


@schedules(60)
async def test_nodes_that_raise_the_start_of_a_log_at_once_leave_the_higher_one(world: World) -> None:
    """Each leads in its own belief. What one of them answered stays, whichever of them writes last."""
    bridges = [await world.started() for _ in range(3)]
    await bridges[0].topics.create("t", 1)
    client = Client(world, bridges[0], "writer")
    for number in range(10):
        assert (await client.produce("t", batch([b"%d" % number], [NOW_MS]))).error == 0
    answered = 0

    async def raise_it(bridge: Bridge) -> None:
        nonlocal answered
        topic = await bridge.topics.get("t")
        assert topic is not None
        for wanted in sorted(world.chance.randint(1, 10) for _ in range(3)):
            await world.moment()
            start = await bridge.topics.administration.delete_records(topic, 0, bridge.topics.log(topic, 0), wanted)
            assert start >= wanted
            answered = max(answered, start)
            stored = await bridges[0].admin.topic_properties(_TOPIC)
            known = topic_properties.log_starts(stored)[0]
            assert known >= start, f"{start} was answered, and {known} is stored"

    await asyncio.gather(*map(raise_it, bridges))
    fresh = await world.started()  # knows what is stored alone
    assert await (await fresh.topics.partition("t", 0)).earliest() == answered
    stored = await fresh.admin.topic_properties(_TOPIC)
    assert len(topic_properties.outdated_log_starts(stored, 0)) <= len(bridges), f"they pile up: {stored}"


async def write(client: Client, count: int) -> None:
    for number in range(count):
        produced = await client.produce("t", batch([b"%d" % number], [NOW_MS]))
        assert produced.error == 0, error_name(produced.error)


async def made_again_through(world: World, one: Bridge, two: Bridge) -> uuid.UUID:
    """A topic of ten records that both know becomes one of two records through `one`; the former id."""
    if world.chance.often(0.5):
        tell_each_other(world, one, two)
    old = await one.topics.create("t", 1)
    await write(Client(world, one, "writer"), 10)
    assert await (await two.topics.partition("t", 0)).latest() == 10
    assert await (await two.topics.partition("t", 0)).earliest() == 0
    await world.sleep(0, 2)
    await one.topics.delete(old)
    await one.topics.create("t", 1)
    await write(Client(world, one, "writer"), 2)
    return old.id


@schedules(60)
async def test_records_deleted_of_a_topic_that_was_made_again_are_not_hidden_in_the_new_one(world: World) -> None:
    one, two = await world.started(), await world.started()
    await made_again_through(world, one, two)
    wanted = delete_records.RequestPartition(partition_index=0, offset=world.chance.choice((-1, 8)))
    request = delete_records.Request(
        topics=[delete_records.RequestTopic(name="t", partitions=[wanted])], timeout_ms=30_000
    )
    (topic,) = (await Client(world, two, "admin").ask(delete_records.API, request)).topics
    (answer,) = topic.partitions
    if answer.error_code == 0:
        assert answer.low_watermark <= 2, f"the log ends at 2, and is told to start at {answer.low_watermark}"
    fresh = await world.started()  # knows what is stored alone
    assert await (await fresh.topics.partition("t", 0)).earliest() <= 2


@schedules(60)
async def test_a_topic_that_was_made_again_is_not_deleted_by_its_former_id(world: World) -> None:
    one, two = await world.started(), await world.started()
    former = await made_again_through(world, one, two)
    request = delete_topics.Request(topics=[delete_topics.RequestTopic(topic_id=former)], timeout_ms=30_000)
    (answer,) = (await Client(world, two, "admin").ask(delete_topics.API, request)).responses
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID, error_name(answer.error_code)
    assert len(log_of(world, full("t"))) == 2


@schedules(100)
async def test_a_creation_that_fails_leaves_the_topic_that_another_node_has_made_since(world: World) -> None:
    one, two = await world.started(), await world.started()
    if world.chance.often(0.5):
        tell_each_other(world, one, two)

    async def create() -> None:
        with suppress(KafkaError):  # its policies cannot be set when it is gone
            await one.topics.create("t", 1, {"retention.ms": "3600000"})

    creating = asyncio.ensure_future(create())
    while (found := await two.topics.get("t")) is None:
        await world.sleep(0.001)
        two.topics._finder.may_exist("t")
    await two.topics.delete(found)
    await two.topics.create("t", 1)
    await write(Client(world, two, "writer"), 2)
    await creating
    await world.sleep(15)
    assert await (await two.topics.partition("t", 0)).latest() == 2
    assert len(log_of(world, full("t"))) == 2


async def refused_with(client: Client, api: Api, request: Any) -> str:
    """The error of a request about one topic; "NONE" for none."""
    answer = await client.ask(api, request)
    (topic,) = getattr(answer, {"DeleteTopics": "responses", "CreatePartitions": "results"}.get(api.name, "topics"))
    return error_name(topic.error_code)


@schedules(60)
async def test_administrative_requests_go_by_what_was_acknowledged_through_another_node(world: World) -> None:
    """Before this node is told of it, and whatever it was asked for at the worst moment: as Kafka's controller does."""
    one, two = await world.started(), await world.started()
    nodes = [Client(world, bridge, "admin") for bridge in (one, two)]
    if world.chance.often(0.5):
        tell_each_other(world, one, two)
    over = asyncio.Event()

    async def look() -> None:
        while not over.is_set():
            for bridge in (one, two):
                await bridge.topics.get("t")
            await world.moment()

    looking = asyncio.ensure_future(look())

    async def done(api: Api, request: Any) -> None:
        assert await refused_with(world.chance.choice(nodes), api, request) == "NONE"

    for _ in range(4):
        wanted = create_topics.RequestTopic(
            name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        await done(create_topics.API, create_topics.Request(topics=[wanted]))
        if world.chance.often(0.5):
            more = create_partitions.RequestTopic(name="t", count=2, assignments=None)
            growing = create_partitions.Request(topics=[more], timeout_ms=30_000, validate_only=False)
            await done(create_partitions.API, growing)
        gone = delete_topics.Request(topics=[delete_topics.RequestTopic(name="t")], timeout_ms=30_000)
        await done(delete_topics.API, gone)
        assert await refused_with(world.chance.choice(nodes), delete_topics.API, gone) == "UNKNOWN_TOPIC_OR_PARTITION"
    over.set()
    await looking
