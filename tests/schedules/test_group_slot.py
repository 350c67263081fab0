"""The groups' slot: whatever befalls its holders, a commit that was acknowledged is never lost."""

import asyncio
from contextlib import suppress

from bridge.errors import KafkaError
from bridge.groups.store.records import Key, StoredOffset, encode_offset, offset_key
from bridge.groups.store.store import GroupStore
from bridge.kafka.error_codes import ErrorCode
from bridge.owned_log import Record
from bridge.owned_log.batch import pack
from bridge.pulsar import AccessMode, Producer
from tests.schedules import faults
from tests.schedules.explorer import schedules
from tests.schedules.kafka import error_name
from tests.schedules.world import Bridge, World, group_slot

SLOT = group_slot()
_PASSES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


async def node(world: World, *, assigned: bool = True) -> Bridge:
    """A bridge whose store of groups takes its slot."""
    bridge = world.bridge()
    await bridge.client.start()
    await bridge.store.start()
    if assigned:
        assign(bridge)
    return bridge


def assign(bridge: Bridge) -> None:
    """Let it take the slot, from any other that has it."""
    bridge.store.assign(range(bridge.store.slots), orphaned=range(bridge.store.slots))


async def committed(store: GroupStore, group: str = "g") -> int:
    """What is stored as the group's offset; −1 if nothing is."""
    found = (await store.load(group)).offsets.get(("t", 0))
    return -1 if found is None else found.offset


async def commit(store: GroupStore, offset: int, group: str = "g") -> None:
    """GroupStore the group's offset."""
    records: dict[Key, bytes | None] = {offset_key(group, "t", 0): encode_offset(StoredOffset(offset))}
    await store.write(group, records)


class Committer:
    """Commits growing offsets, one after another, through any of the nodes; again until it is acknowledged."""

    def __init__(self, world: World, nodes: list[Bridge], group: str = "g", *, reads: bool = True) -> None:
        """`reads`: whether what any node shows must be as new as what was acknowledged before, by whichever node."""
        self.acked = -1
        self._reads = reads
        self._world = world
        self._nodes = nodes
        self._group = group

    async def run(self, count: int, seconds: float = 200.0) -> None:
        """So many commits, each acknowledged within so many seconds."""
        for offset in range(count):
            until = self._world.now + seconds
            while not await self._try(offset):
                assert self._world.now < until, f"offset {offset} cannot be committed for {seconds:g} s"
                await self._world.sleep(0.05, 0.5)
            self._world.trace("committer", "> %s: offset %d committed", self._group, offset)
            self.acked = offset
            await self._world.moment()

    async def run_until_refused(self) -> None:
        """Commits as fast as one node stores them, without a look at what is stored."""
        with suppress(KafkaError):
            for offset in range(1_000):
                await commit(self._nodes[0].store, offset, self._group)
                self.acked = offset

    async def _try(self, offset: int) -> bool:
        store = self._world.chance.choice(self._nodes).store
        try:
            found = await committed(store, self._group)
            if self._reads:
                assert found >= self.acked, f"offset {self.acked} was committed, {found} is read"
            await self._world.within(60, commit(store, offset, self._group), "a commit")
        except KafkaError as error:
            assert error.code in _PASSES, error_name(error.code)
            return False
        return True


async def check_stored(world: World, committers: list[Committer], groups: list[str]) -> None:
    """Another node, when all others have gone, finds what was acknowledged."""
    await faults.heal(world)
    for bridge in world.bridges:
        await bridge.stop()
    fresh = await node(world)
    await world.within(100, fresh.store.ready(), "taking the slot")
    for committer, group in zip(committers, groups, strict=True):
        found = await committed(fresh.store, group)
        assert found >= committer.acked, f"{group}: offset {committer.acked} was committed, {found} is stored"


async def serve_and_go(world: World, other: Producer) -> None:
    """Another that was let in marks the slot as its own, and leaves it."""
    marker = other.send(*pack([Record("s", b'{"v":2,"owner":"bridge-1-other"}')]), 1)
    await asyncio.gather(marker, return_exceptions=True)
    await world.sleep(0, 1)
    await other.close()


@schedules(200)
async def test_commits_outlive_faults(world: World) -> None:
    one = await node(world)
    groups = ["g", "h"]
    committers = [Committer(world, [one], group) for group in groups]
    running = [asyncio.ensure_future(committer.run(8)) for committer in committers]
    kinds = (faults.unload, faults.reset, faults.crash, faults.freeze, faults.silence, faults.fail_writes)
    await faults.some(world, SLOT, seconds=5.0, kinds=kinds)
    await asyncio.gather(*running)
    await check_stored(world, committers, groups)


@schedules(150)
async def test_commits_outlive_a_change_of_the_node(world: World) -> None:
    """A second node takes over by fencing, while the first one serves."""
    nodes = [await node(world)]
    committer = Committer(world, nodes, reads=False)
    running = asyncio.ensure_future(committer.run(10))
    await world.sleep(0, 2)
    nodes.append(await node(world))
    if world.chance.often(0.5):
        await world.sleep(0, 2)
        leaving = nodes.pop(world.chance.randint(0, 1))
        await leaving.stop()
    await running
    await world.sleep(10)
    assert sum(map(holds, nodes)) <= 1, "both nodes hold the slot, ten seconds after the change"
    await check_stored(world, [committer], ["g"])


def holds(bridge: Bridge) -> bool:
    """Whether a node answers for the group."""
    try:
        bridge.store.check("g")
    except KafkaError:
        return False
    return True


@schedules(150)
async def test_no_node_shows_an_offset_older_than_what_another_acknowledged(world: World) -> None:
    """Two nodes take the slot at the same moment, and both may throw the other out."""
    first = await node(world)
    await world.within(100, first.store.ready(), "taking the slot")
    await first.stop()
    nodes = list(await asyncio.gather(node(world), node(world)))
    committer = Committer(world, nodes, reads=True)
    await committer.run(8)
    await check_stored(world, [committer], ["g"])


@schedules(100)
async def test_a_node_that_was_cut_off_shows_no_old_offset(world: World) -> None:
    """Another throws it out meanwhile; it believes that it owns the slot until its connections work again."""
    one = await node(world)
    await world.within(100, one.store.ready(), "taking the slot")
    await commit(one.store, 0)
    for connection in list(world.broker.connections.values()):
        world.network.silence(connection.endpoint, world.chance.uniform(2, 60))
    committer = Committer(world, [one, await node(world)])
    await committer.run(6)
    await check_stored(world, [committer], ["g"])


@schedules(150)
async def test_another_that_fences_costs_no_commit(world: World) -> None:
    """It takes the slot by fencing at the moment at which the node takes it: Pulsar may let both in."""
    first = await node(world)
    await world.within(100, first.store.ready(), "taking the slot")
    await first.stop()
    bridge, native = await node(world, assigned=False), await world.native()
    other = native.producer(SLOT, access_mode=AccessMode.EXCLUSIVE_WITH_FENCING)
    await world.sleep(0, 0.1)
    assign(bridge)
    committers = [Committer(world, [bridge], group) for group in "ghi"]
    running = [asyncio.ensure_future(committer.run(8)) for committer in committers]
    await world.sleep(0, 1)
    await serve_and_go(world, other)
    await asyncio.gather(*running)
    await check_stored(world, committers, ["g", "h", "i"])


@schedules(100)
async def test_what_is_stored_behind_another_holder_s_marker_is_not_acknowledged(world: World) -> None:
    """Pulsar may let both in. A receipt says that a commit is stored, and no reader counts it behind that marker."""
    first = await node(world)
    await world.within(100, first.store.ready(), "taking the slot")
    await first.stop()
    bridge, native = await node(world, assigned=False), await world.native()
    world.chance.slow("epoch", 0.5)  # in Pulsar's metadata store: meanwhile it lets others in
    assign(bridge)
    other = native.producer(SLOT, access_mode=AccessMode.EXCLUSIVE_WITH_FENCING)
    await world.within(100, other.opened(), "the other's opening")
    while not holds(bridge) and len(world.broker.topic(SLOT).producers) == 2:
        await world.sleep(0.001)
    committers = [Committer(world, [bridge], group) for group in "ghi"]
    running = [asyncio.ensure_future(committer.run_until_refused()) for committer in committers]
    await world.sleep(0, 0.2)
    await serve_and_go(world, other)
    await asyncio.gather(*running)
    await check_stored(world, committers, ["g", "h", "i"])


@schedules(150)
async def test_commits_outlive_a_slot_that_moves_to_and_fro(world: World) -> None:
    """The views give it to one node and to the other, which hear of them at different times; Pulsar fails meanwhile."""
    nodes = [await node(world), await node(world, assigned=False)]
    committers = [Committer(world, nodes, group) for group in "gh"]
    running = [asyncio.ensure_future(committer.run(6)) for committer in committers]
    moving = asyncio.ensure_future(move_to_and_fro(world, nodes))
    await faults.some(world, SLOT, seconds=5.0, kinds=(faults.unload, faults.reset, faults.freeze, faults.fail_writes))
    await moving
    await asyncio.gather(*running)
    await check_stored(world, committers, ["g", "h"])


async def move_to_and_fro(world: World, nodes: list[Bridge]) -> None:
    """Some views, each read by one node first."""
    for _ in range(world.chance.randint(1, 8)):
        await world.sleep(0, 1.5)
        owner = world.chance.choice(nodes)
        for bridge in world.chance.sample(nodes, len(nodes)):
            if bridge is owner:
                bridge.store.assign(range(bridge.store.slots))
            else:
                bridge.store.assign(())
            await world.sleep(0, 0.3)


@schedules(100)
async def test_a_slot_that_is_released_while_it_is_being_lost_leaves_nothing_open(world: World) -> None:
    """Another has taken it, and the view gives it away while what was open is closed."""
    bridge, native = await node(world), await world.native()
    await world.within(100, bridge.store.ready(), "taking the slot")
    holding = bridge.store._log.slots[0]._holding
    assert holding is not None
    thief = native.producer(SLOT, access_mode=AccessMode.EXCLUSIVE_WITH_FENCING)
    thief.send(*pack([Record("s", b'{"v":2,"owner":"bridge-1-other"}')]), 1)
    await holding.ended()
    for _ in range(world.chance.randint(0, 20)):
        await asyncio.sleep(0)
    bridge.store.assign(())
    await world.sleep(0, 1)
    await thief.close()
    await world.sleep(15)
    left = [session for session in world.broker.sessions() if "__bridge_groups" in session]
    assert not left, f"left open: {left}"
