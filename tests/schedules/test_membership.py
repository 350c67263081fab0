"""Real members of a cluster over the model Pulsar: what befalls them, and what every node must be told all the same."""

import asyncio

from bridge.cluster.membership.effects import Serving
from tests.schedules import faults
from tests.schedules.explorer import schedules
from tests.schedules.members import BEATS, LOG, Members
from tests.schedules.world import World


@schedules(40)
async def test_nodes_become_one_cluster_and_leave_it(world: World) -> None:
    members = Members(world)
    await members.start(world.chance.randint(1, 3))
    await members.agree(15)
    await members.new("last").start()
    await members.agree(15)
    await world.chance.choice(members.alive).leave()
    await members.agree(5)
    await members.end()


@schedules(40)
async def test_a_killed_node_is_soon_out_of_the_view(world: World) -> None:
    members = Members(world)
    await members.start(3)
    await members.agree(15)
    await world.sleep(0, 3)
    killed = world.chance.choice(members.alive)
    await killed.kill()
    await members.agree(8)
    if world.chance.often(0.5):
        await members.new(killed.name).start()
        await members.agree(15)
    await members.end()


@schedules(60)
async def test_a_node_that_is_frozen_or_cut_off_is_out_and_comes_back(world: World) -> None:
    members = Members(world)
    await members.start(3)
    await members.agree(15)
    await world.sleep(0, 3)
    victim = world.chance.choice(members.alive)
    others = [member for member in members.alive if member is not victim]
    seconds = world.chance.choice((0.5, 2.0, 7.0, 12.0, 40.0))
    frozen = world.chance.often(0.5)
    hurting = asyncio.ensure_future((victim.freeze if frozen else victim.cut_off)(seconds))
    if seconds > 8:
        # four seconds; a controller whose own receipt was late, as a held loop makes it, trusts Pulsar later again
        await world.sleep(8.0)
        for member in others:
            assert not member.cluster.view.member(victim.name), f"{victim.name} is in the view after 8 s"
        if not frozen:
            assert victim.cluster.serving is Serving.REFUSE, "it serves, and has been cut off for 8 s"
    await hurting
    newest = max(member.cluster.view.version for member in others)
    until = world.now + 20
    while world.now < until:
        if victim.cluster.serving is Serving.SERVE and seconds > 4.5:
            assert victim.cluster.view.version >= newest, f"{victim.name} serves by an old view"
        await asyncio.sleep(0.01 if world.now < until - 19 else 0.5)
    await members.agree(15)
    await members.end()


@schedules(80)
async def test_what_happens_to_pulsar_removes_no_node(world: World) -> None:
    members = Members(world)
    await members.start(world.chance.randint(2, 3))
    await members.agree(15)
    ids = dict(members.alive[0].cluster.view.ids)
    since = {member.name: member.since for member in members.alive[0].cluster.view.members.values()}
    kinds = (faults.unload, faults.reset, faults.crash, faults.freeze)
    chosen = [world.chance.choice(kinds) for _ in range(world.chance.randint(1, 3))]
    for fault in chosen:
        fault(world, world.chance.choice((LOG, BEATS)))
        await world.sleep(0, 12)
    await faults.heal(world)
    await members.agree(30)
    view = members.alive[0].cluster.view
    assert dict(view.ids) == ids
    if faults.reset in chosen:
        return await members.end()  # one node's connection breaks: is it slow to come back, it is taken for dead
    assert {member.name: member.since for member in view.members.values()} == since, "a node was out for a while"
    await members.end()


@schedules(40)
async def test_topics_of_the_cluster_that_are_deleted_come_back(world: World) -> None:
    members = Members(world)
    await members.start(2)
    await members.agree(15)
    # A log that begins again begins with the seconds as its version: above all before if there was less than one change
    # a second. So it is from some seconds after a cluster's first start on.
    await world.sleep(5, 10)
    for _ in range(world.chance.randint(1, 2)):
        world.broker.namespace.remove(world.chance.choice((LOG, BEATS)))
        await world.sleep(0, 8)
    await members.agree(60)
    await members.new("later").start()
    await members.agree(30)
    await members.end()
