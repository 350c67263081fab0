"""Share groups on several nodes: leaders and coordinators are killed, stopped and cut off, and what they ask is lost.

What a member's acceptance was answered without an error is not given again: not at all by a node that leads, and for
less than a second by one that does not know yet that it leads no more. In the end all is done. Behind one address the
coordinator is the leader. Who joins after offsets were altered is given what lies from there on, and nothing else.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from tests.schedules.checks import check_partition
from tests.schedules.clients import FollowingProducer, Leaders, NodeClient
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, batch
from tests.schedules.nodes import ServingNode
from tests.schedules.share_nodes import OneAddressNodes, ShareMember, ShareNodes, Told
from tests.schedules.world import World, full

_PARTITIONS = 2
_RECORDS = 30


async def _befalls(world: World, nodes: ShareNodes, victim: ServingNode) -> None:
    """One dies and starts again, stops for a while, is cut off, leaves and comes back; or one more comes."""
    chance = world.chance
    kind = chance.choice(("kill", "kill", "freeze", "freeze", "cut off", "restart", "join"))
    if kind == "kill":
        dying = asyncio.ensure_future(victim.kill())
        await world.sleep(0, chance.choice((0.2, 3.0, 8.0)))
        await nodes.new(victim.name).start()
        await dying
    elif kind == "freeze":
        await victim.freeze(chance.choice((0.5, 2.0, 4.0, 7.0, 15.0)))
    elif kind == "cut off":
        await victim.cut_off(chance.choice((0.5, 2.0, 4.0, 7.0, 15.0)))
    elif kind == "restart":
        await victim.leave()
        await nodes.new(victim.name).start()
    else:
        await nodes.new(f"n{len(nodes.all)}").start()


@schedules(30)
async def test_what_was_accepted_is_not_given_again(world: World) -> None:
    await _serve(world, ShareNodes(world))


@schedules(30)
async def test_what_was_accepted_behind_one_address_is_not_given_again(world: World) -> None:
    await _serve(world, OneAddressNodes(world))


async def _serve(world: World, nodes: ShareNodes) -> None:
    await nodes.start(3)
    await nodes.agree(30)
    first = nodes.alive[0]
    topic = await first.handle(first.bridge.topics.create("t", _PARTITIONS))
    await world.within(30, _reached(nodes, topic.id, [-1] * _PARTITIONS, []), "the states are made")
    producers = [
        FollowingProducer(
            world, Leaders(nodes, world), "t", f"p{partition}", world.chance.choice(nodes.alive), partition=partition,
            producer_id=100 + partition if nodes.idempotent else -1, request_seconds=5.0, delivery_seconds=300.0,
            hangs_up_after=13.0,
        )
        for partition in range(_PARTITIONS)
    ]  # fmt: skip
    told = [Told(world, nodes, partition) for partition in range(_PARTITIONS)]
    members = [
        ShareMember(world, Leaders(nodes, world), f"{name}{partition}", topic.id, told[partition], partition)
        for partition in range(_PARTITIONS)
        for name in ("a", "b", "c")
    ]
    background = [asyncio.ensure_future(one.run()) for one in members]
    background += [asyncio.ensure_future(one.navigate()) for one in producers]
    producing = [asyncio.ensure_future(one.run()) for one in producers]
    for number in range(_RECORDS):
        for one in producers:
            one.send(b"%s %d" % (one.name.encode(), number))
        await world.sleep(0, world.chance.choice((0.05, 0.5)))
        well = [node for node in nodes.alive if node.is_open and node.is_well]
        if number % 10 == 5 and len(well) > 1:
            await _befalls(world, nodes, world.chance.choice(well))
    for one in producers:
        one.finish()
    await world.within(120, asyncio.gather(*producing), "an outcome for every record")
    await nodes.agree(40)
    nodes.loses = False
    for member in members:
        member.accepts_all = True
    logs = [check_partition(world, full("t", partition), [one]) for partition, one in enumerate(producers)]
    ends = [log[-1].offset + 1 for log in logs]
    await world.within(200, _reached(nodes, topic.id, ends, background), "all is done")
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    for log, told_of in zip(logs, told, strict=True):
        assert {record.offset for record in log} == told_of.accepted, "something was done that nobody has accepted"
    await nodes.end()


@schedules(30)
async def test_a_leader_that_was_paused_gives_nothing_that_was_accepted_elsewhere(world: World) -> None:
    nodes = ShareNodes(world)
    await nodes.start(3)
    await nodes.agree(30)
    first = nodes.alive[0]
    topic = await first.handle(first.bridge.topics.create("t", 1))
    await world.within(30, _reached(nodes, topic.id, [-1], []), "the state is made")
    leaders, told = Leaders(nodes, world), Told(world, nodes, 0)
    await leaders.refresh("t")
    old = leaders.leader("t", 0)
    assert old is not None
    client = NodeClient(world, leaders, old, "producer")
    for number in range(_RECORDS):
        assert (await client.produce("t", batch([b"%d" % number], [NOW_MS]))).error == 0
    late = ShareMember(world, leaders, "late", topic.id, told, 0)
    while not told.seen:
        assert await late.poll(old, 15.0)
    pause = asyncio.ensure_future(old.freeze(world.chance.choice((15.0, 20.0, 25.0))))
    other = ShareMember(world, Leaders(nodes, world), "other", topic.id, told, 0)
    other.accepts_all = True
    others = asyncio.ensure_future(other.run())
    while len(told.done) < _RECORDS and not pause.done():
        await world.sleep(0, 0.2)
    await world.sleep(1.1, 3)
    await late.poll(old, 30.0)  # what it is given is looked at
    others.cancel()
    await pause
    await nodes.end()


@schedules(30)
async def test_who_joins_after_offsets_were_altered_is_given_what_lies_from_there_on(world: World) -> None:
    nodes = ShareNodes(world)
    await nodes.start(2)
    await nodes.agree(30)
    first = nodes.alive[0]
    topic = await first.handle(first.bridge.topics.create("t", 1))
    await world.within(30, _reached(nodes, topic.id, [-1], []), "the state is made")
    leaders = Leaders(nodes, world)
    await leaders.refresh("t")
    leader = leaders.leader("t", 0)
    assert leader is not None
    client = NodeClient(world, leaders, leader, "producer")
    for number in range(_RECORDS):
        assert (await client.produce("t", batch([b"%d" % number], [NOW_MS]))).error == 0
    before = ShareMember(world, leaders, "before", topic.id, Told(world, nodes, 0), 0)
    before.accepts_all = True
    reading = asyncio.ensure_future(before.run())
    await world.sleep(0.2, 8)
    reading.cancel()  # its connection stays
    start = world.chance.choice((0, _RECORDS // 2))
    await world.within(30, nodes.alter(topic.id, start), "the offset is altered")
    told = Told(world, nodes, 0)
    after = ShareMember(world, leaders, "after", topic.id, told, 0)
    after.accepts_all = True
    reading = asyncio.ensure_future(after.run())
    await world.within(100, _reached(nodes, topic.id, [_RECORDS], [reading]), "all is done")
    reading.cancel()
    assert told.seen == set(range(start, _RECORDS))
    await nodes.end()


async def _reached(
    nodes: ShareNodes, topic_id: UUID, starts: list[int], background: "Sequence[asyncio.Future[None]]"
) -> None:
    while await nodes.starts(topic_id, len(starts)) != starts:
        for task in background:
            if task.done():
                task.result()
        await asyncio.sleep(0.5)
