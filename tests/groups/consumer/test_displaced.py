"""A group that became a classic one while its last change was on its way to the store."""

import asyncio

from bridge.groups.classic.events import Join, Sync
from bridge.groups.epochs.records import CONSUMER
from tests.groups.clock import settle
from tests.groups.consumer.bench import Bench


async def test_a_group_that_was_displaced_is_not_written_any_more() -> None:
    """Its last write would stand behind the classic group's: the next coordinator finds an empty consumer group."""
    bench = Bench()
    await bench.joined("m")
    bench.store.held_back = []
    changed = await bench.send("m", 1, topics=frozenset("tu"))  # under way
    leaving = await bench.send("m", -1)  # goes with the next one
    await settle()
    join = Join("", "c1", None, "client", "/127.0.0.1", 10_000, 60_000, "consumer", (("range", b""),), False)
    classic = await bench.groups.join("g", join)
    await bench.clock.advance(0.2)
    joined = classic.result()
    assigned = Sync(joined.member_id, None, joined.generation, None, None, {joined.member_id: b"a"})
    sync = await bench.groups.sync("g", assigned)
    await settle()
    bench.store.release()
    await settle()
    assert sync.result().assignment == b"a"
    await asyncio.gather(changed, leaving, return_exceptions=True)
    assert not CONSUMER.is_one(bench.store.held["g"].metadata)
