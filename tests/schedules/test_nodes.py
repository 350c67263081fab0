"""Whole nodes with members, leadership, groups and handlers, under clients that follow leaders and coordinators.

Nodes are killed, stopped, cut off, leave and come, and Pulsar's topics and connections move. Nothing acknowledged is
lost or misplaced, what an idempotent producer sends is there once, and soon after the last fault all is served.
"""

import asyncio
from collections.abc import Awaitable, Callable

from bridge.kafka.error_codes import ErrorCode
from tests.schedules import faults
from tests.schedules.checks import check_partition
from tests.schedules.clients import PASSES, FollowingCommitter, FollowingProducer, FollowingReader, Leaders, NodeClient
from tests.schedules.explorer import schedules
from tests.schedules.kafka import NOW_MS, batch, error_name
from tests.schedules.members import BEATS, GROUPS, LOG
from tests.schedules.nodes import ServingNode, ServingNodes
from tests.schedules.world import World, full, group_slot

PARTITIONS = 2
_GROUP_TOPICS = [group_slot(slot) for slot in range(GROUPS)]
_SLOW = ("store", "receipt", "deliver", "roll over", "rest request", "rest answer", "to broker", "to bridge")
"""What takes long before a Pulsar that is slow."""
_TOPICS = [full("t", partition) for partition in range(PARTITIONS)] + _GROUP_TOPICS + [LOG, BEATS]


class Load:
    """All clients of a scenario."""

    def __init__(self, world: World, nodes: ServingNodes) -> None:
        self.world, self.nodes = world, nodes
        chance = world.chance
        self.producers = [
            FollowingProducer(
                world, Leaders(nodes, world), "t", f"p{number}", chance.choice(nodes.alive),
                partition=number % PARTITIONS, producer_id=-1 if number == 2 else 100 + number,
                request_seconds=chance.choice((2.0, 8.0)), delivery_seconds=300.0, hangs_up_after=13.0,
            )
            for number in range(3)
        ]  # fmt: skip
        self.readers = [FollowingReader(world, Leaders(nodes, world), "t", index) for index in range(PARTITIONS)]
        self.committers = [FollowingCommitter(world, Leaders(nodes, world), "t", group) for group in ("g", "h")]
        self._over = False
        self._background: list[asyncio.Future[None]] = []
        self._producing: list[asyncio.Future[None]] = []

    def start(self) -> None:
        """Let them all run."""
        work: list[Awaitable[None]] = [producer.navigate() for producer in self.producers]
        work += [reader.run() for reader in self.readers]
        work += [committer.run() for committer in self.committers]
        work += [self._watch_the_end()]
        self._background = [asyncio.ensure_future(one) for one in work]
        self._producing = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        self._producing += [asyncio.ensure_future(self._feed(producer)) for producer in self.producers]

    async def _feed(self, producer: FollowingProducer) -> None:
        number, pause = 0, self.world.chance.choice((0.05, 0.3, 1.0))
        while not self._over:
            if number < 60:
                producer.send(b"%s %d" % (producer.name.encode(), number))
                number += 1
            await self.world.sleep(0, pause)
        producer.send(b"last of " + producer.name.encode())
        producer.finish()

    async def _watch_the_end(self) -> None:
        leaders, last = Leaders(self.nodes, self.world), [0] * PARTITIONS
        while True:
            node, index = self.nodes.any(), self.world.chance.randrange(PARTITIONS)
            if node is not None:
                mine = [one for number, one in enumerate(self.producers) if number % PARTITIONS == index]
                fates = [fate for producer in mine for fate in producer.fates.values()]
                acked = max((fate.acked_at for fate in fates if fate.acked_at is not None), default=-1)
                error, end = await NodeClient(self.world, leaders, node, "watcher", 10.0).offset("t", partition=index)
                assert error in PASSES, error_name(error)
                if error == 0:
                    assert end >= last[index], f"the end went from {last[index]} back to {end}"
                    assert end > acked, f"the end is {end}, and {acked} was acknowledged before"
                    last[index] = end
            await self.world.sleep(0, 0.5)

    async def check_running(self) -> None:
        """Raise what has failed so far."""
        for one in (*self._background, *self._producing):
            if one.done():
                one.result()

    async def finish(self, seconds: float = 60) -> None:
        """Everything has its outcome soon, and is as it must be."""
        self._over = True
        began = self.world.now
        await self.world.within(seconds, asyncio.gather(*self._producing), "an outcome for every record")
        logs = []
        for index in range(PARTITIONS):
            mine = [one for number, one in enumerate(self.producers) if number % PARTITIONS == index]
            logs.append(check_partition(self.world, full("t", index), mine))
        for producer in self.producers:
            failed = [value for value, fate in producer.fates.items() if fate.failed]
            assert not failed, f"{producer.name}: not acknowledged: {failed}"
        await self.world.within(
            seconds, self._caught_up([len(log) and log[-1].offset + 1 for log in logs], began), "reading"
        )
        for one in self._background:
            one.cancel()
        for outcome in await asyncio.gather(*self._background, return_exceptions=True):
            if not isinstance(outcome, asyncio.CancelledError) and outcome is not None:
                raise outcome
        for reader, log in zip(self.readers, logs, strict=True):
            assert reader.found == {record.offset: record.value for record in log}, (
                "what was read is not what is stored"
            )

    async def _caught_up(self, ends: list[int], began: float) -> None:
        while any(reader.offset < end for reader, end in zip(self.readers, ends, strict=True)) or any(
            committer.acked_at < began for committer in self.committers
        ):
            await self.check_running()
            await asyncio.sleep(0.1)


# --- what befalls them ------------------------------------------------------------------------------------------------


async def kill(world: World, nodes: ServingNodes, victim: ServingNode) -> None:
    """One dies, and mostly starts again."""
    dying = asyncio.ensure_future(victim.kill())
    await world.sleep(0, world.chance.choice((0.2, 3.0, 8.0)))
    if world.chance.often(0.8) or not nodes.alive:
        await nodes.new(victim.name).start()
    await dying


async def freeze(world: World, nodes: ServingNodes, victim: ServingNode) -> None:
    await victim.freeze(world.chance.choice((0.5, 2.0, 4.0, 7.0, 15.0, 60.0)))


async def cut_off(world: World, nodes: ServingNodes, victim: ServingNode) -> None:
    await victim.cut_off(world.chance.choice((0.5, 2.0, 4.0, 7.0, 15.0, 40.0)))


async def restart(world: World, nodes: ServingNodes, victim: ServingNode) -> None:
    """One leaves in order and comes back."""
    await victim.leave()
    await world.sleep(0, world.chance.choice((0.0, 1.0, 5.0)))
    await nodes.new(victim.name).start()


async def join(world: World, nodes: ServingNodes, victim: ServingNode) -> None:
    """One more."""
    await nodes.new(f"n{len(nodes.all)}").start()


async def unload(world: World, nodes: ServingNodes, victim: ServingNode) -> None:
    """Pulsar moves some topics."""
    for _ in range(world.chance.randint(1, 3)):
        faults.unload(world, world.chance.choice(_TOPICS))
        await world.sleep(0, 0.5)


async def reset(world: World, nodes: ServingNodes, victim: ServingNode) -> None:
    """Connections break."""
    for _ in range(world.chance.randint(1, 3)):
        faults.reset(world, LOG)
        await world.sleep(0, 0.5)


Befalls = Callable[[World, ServingNodes, ServingNode], Awaitable[None]]
_ALL: tuple[Befalls, ...] = (kill, freeze, cut_off, restart, join, unload, reset)


async def run_with(world: World, kinds: tuple[Befalls, ...], most: int) -> None:
    """Nodes and clients, some faults one after another or at once, and what must hold then."""
    nodes = ServingNodes(world)
    await nodes.start(world.chance.randint(2, 3))
    await nodes.agree(20)
    first = nodes.alive[0]
    await first.handle(first.bridge.topics.create("t", PARTITIONS))
    load = Load(world, nodes)
    load.start()
    await world.sleep(1, 4)
    under_way: list[asyncio.Future[None]] = []
    for _ in range(world.chance.randint(1, most)):
        well = [node for node in nodes.alive if node.is_open and node.is_well]
        kind = world.chance.choice(kinds)
        if len(well) < 2 and kind not in (unload, reset, join):
            await asyncio.gather(*under_way)
            continue
        if kind is join and len(nodes.alive) > 2:
            continue
        under_way.append(asyncio.ensure_future(kind(world, nodes, world.chance.choice(well or nodes.alive))))
        await world.sleep(0, world.chance.choice((0.1, 2.0, 10.0)))
    await asyncio.gather(*under_way)
    await load.check_running()
    for node in nodes.alive:
        node.is_well = True
    await nodes.agree(20)
    await check_served(world, nodes)
    await load.finish()
    await nodes.end()


async def check_served(world: World, nodes: ServingNodes) -> None:
    """Each partition takes a record, at one node alone."""
    for index in range(PARTITIONS):
        for node in nodes.alive:
            leads = node.cluster.snapshot.leads(node.cluster.node_id, "t", index)
            client = NodeClient(world, Leaders(nodes, world), node, "last", 20.0)
            produced = await client.produce("t", batch([b"at last"], [NOW_MS]), partition=index)
            expected = 0 if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert produced.error == expected, f"{node.name}, partition {index}: {error_name(produced.error)}"


@schedules(30)
async def test_nodes_serve_through_faults_of_all_kinds(world: World) -> None:
    await run_with(world, _ALL, most=4)


@schedules(20)
async def test_nodes_that_come_back_from_a_pause_do_no_harm(world: World) -> None:
    await run_with(world, (freeze, cut_off), most=2)


@schedules(20)
async def test_an_idempotent_record_is_stored_once_through_kills(world: World) -> None:
    """Before a slow Pulsar: what the dead one has sent still comes while its client sends it again elsewhere."""
    for kind in _SLOW:
        if world.chance.often(0.3):
            world.chance.slow(kind, world.chance.choice((0.02, 0.1, 0.25)))
    nodes = ServingNodes(world)
    await nodes.start(3)
    await nodes.agree(30)
    first = nodes.alive[0]
    await first.handle(first.bridge.topics.create("t", PARTITIONS))
    load = Load(world, nodes)
    load.start()
    for _ in range(world.chance.randint(2, 5)):
        await world.sleep(0.5, 4)
        well = [node for node in nodes.alive if node.is_open and node.is_well]
        if len(well) > 1:
            await kill(world, nodes, world.chance.choice(well))
        await load.check_running()
    await nodes.agree(40)
    await load.finish(300)
    await nodes.end()
