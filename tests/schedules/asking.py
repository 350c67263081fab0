"""Clients that ask for offsets around the edges of entries and ledgers, while the leadership moves."""

from bridge.kafka.error_codes import ErrorCode
from tests.schedules.kafka import Client, Fetched, error_name, log_of
from tests.schedules.leadership import Leadership
from tests.schedules.world import Bridge, World, full

_PASSES = {0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT}
_LIMITS = 1, 300, 1 << 20
"""Bytes of an answer: some clients get one entry at a time, so that readers stay behind in the log."""


def check(world: World, asked: int, found: Fetched) -> None:
    """Nothing is left out at the front or within."""
    assert found.error in _PASSES, f"at {asked}: {error_name(found.error)}"
    stored = [record.offset for record in log_of(world, full("t")) if record.offset >= asked]
    told = [record.offset for record in found.records]
    assert told == stored[: len(told)], f"asked for {asked}, got {told}, stored are {stored}"


async def ask_around(world: World, bridge: Bridge, name: str, steps: int) -> None:
    """Begin anywhere, mostly at an edge, and go on from there for a while, each time in an answer of another size."""
    client = Client(world, bridge, name)
    for _ in range(steps):
        edges = [entry.base for entry in world.broker.topic(full("t")).log.entries]
        end = edges[-1] + 1
        offset = min(max(world.chance.choice(edges) + world.chance.randint(-1, 1), 0), end - 1)
        for _ in range(world.chance.randint(1, 4)):
            found = await client.fetch("t", offset, max_wait=0.0, max_bytes=world.chance.choice(_LIMITS))
            check(world, offset, found)
            if not found.records:
                break
            offset = found.records[-1].offset + 1
            await world.moment()


async def move(world: World, cluster: Leadership, seconds: float) -> None:
    """From node to node for a while."""
    until = world.now + seconds
    while world.now < until:
        await world.sleep(0, world.chance.choice((0.02, 0.3, 2.0)))
        cluster.move_to(world.chance.choice(cluster.bridges), world.chance.choice((0.0, 0.01, 0.3)))
