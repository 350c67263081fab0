"""Streams groups on several nodes: whatever befalls coordinators and members, no task is worked on twice.

Nodes are killed, stopped and cut off, answers are lost, members crash, leave and come. In the end each task has a
member, and none has more than it should.
"""

import asyncio

from tests.schedules.explorer import schedules
from tests.schedules.nodes import ServingNode, ServingNodes
from tests.schedules.streams_nodes import PARTITIONS, TASKS, StreamsMember, all_assigned
from tests.schedules.world import World

_PROCESSES = 3


async def _befalls(world: World, nodes: ServingNodes, victim: ServingNode) -> None:
    chance = world.chance
    kind = chance.choice(("kill", "kill", "freeze", "cut off", "restart", "join"))
    if kind == "kill":
        dying = asyncio.ensure_future(victim.kill())
        await world.sleep(0, chance.choice((0.2, 3.0, 8.0)))
        await nodes.new(victim.name).start()
        await dying
    elif kind == "freeze":
        await victim.freeze(chance.choice((0.5, 2.0, 7.0, 15.0)))
    elif kind == "cut off":
        await victim.cut_off(chance.choice((0.5, 2.0, 7.0, 15.0)))
    elif kind == "restart":
        await victim.leave()
        await nodes.new(victim.name).start()
    else:
        await nodes.new(f"n{len(nodes.all)}").start()


class Application:
    """Its members, of whom some crash, leave and come."""

    def __init__(self, world: World, nodes: ServingNodes) -> None:
        self.members: list[StreamsMember] = []
        self.running: list[asyncio.Future[None]] = []
        self._world, self._nodes = world, nodes

    @property
    def well(self) -> list[StreamsMember]:
        return [one for one in self.members if one.is_well]

    def grow(self) -> None:
        """One more."""
        number = len(self.members)
        member = StreamsMember(self._world, self._nodes, f"m{number}", f"process-{number % _PROCESSES}")
        self.members.append(member)
        self.running.append(asyncio.ensure_future(member.run(self.members)))

    async def change(self) -> None:
        """One crashes or leaves, or one more comes."""
        chance = self._world.chance
        if len(self.well) > 2 and chance.often(0.5):
            victim = chance.choice(self.well)
            if chance.often(0.5):
                await victim.leave()
            else:
                victim.is_well = False
        elif len(self.well) < 6:
            self.grow()


@schedules(30)
async def test_no_task_is_worked_on_twice_and_all_are_given_out_at_last(world: World) -> None:
    nodes = ServingNodes(world)
    await nodes.start(3)
    await nodes.agree(30)
    first = nodes.alive[0]
    await first.handle(first.bridge.topics.create("t", PARTITIONS))
    application = Application(world, nodes)
    for _ in range(3):
        application.grow()
    await world.within(60, all_assigned(application.members, application.running), "the first tasks")
    for _ in range(8):
        await world.sleep(0, world.chance.choice((1.0, 10.0, 60.0)))
        well = [node for node in nodes.alive if node.is_open and node.is_well]
        if world.chance.often(0.5) and len(well) > 1:
            await _befalls(world, nodes, world.chance.choice(well))
        else:
            await application.change()
    await nodes.agree(40)
    await world.within(200, all_assigned(application.members, application.running), "all tasks")
    most = -(-len(TASKS) // len(application.well))
    assert max(len(one.tasks) for one in application.well) <= most + 1
    for one in application.well:
        one.is_well = False
    await asyncio.gather(*application.running)
    await nodes.end()
