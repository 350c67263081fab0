"""Followers of slots that are compacted and trimmed by a real Pulsar, and while a model of it fails."""

import asyncio
import random
from contextlib import suppress

import pytest

from bridge.owned_log import OwnedLogError, Record
from bridge.pulsar.admin import Retention
from bridge.pulsar.consumer import Reader
from tests.owned_log.contract import partition
from tests.owned_log.following import Following
from tests.owned_log.model import play_on_model
from tests.owned_log.nodes import LogNode, LogSite, confirmed, follow, owner, start
from tests.schedules import faults
from tests.schedules.world import World
from tests.support.waiting import compact, until


async def put_some(node: LogNode, chance: random.Random, count: int = 30) -> None:
    """Values and deletions of few keys."""
    values = [b"%d" % chance.randrange(100) if chance.random() < 0.6 else None for _ in range(count)]
    await asyncio.gather(*(node.put(f"k{chance.randrange(8)}", value) for value in values))


class Away:
    """The follower's reader while it cannot come back."""

    def __init__(self, following: Following) -> None:
        tail = following.follower._tail
        assert tail is not None
        self._reader: Reader = tail.slot._reader

    async def __aenter__(self) -> None:
        self._reader._start = lambda delay=0: None  # type: ignore[method-assign]
        assert self._reader._connection is not None
        self._reader._reopen(self._reader._connection)

    async def __aexit__(self, *_: object) -> None:
        del self._reader._start
        self._reader._start()


async def trimmed(site: LogSite, node: LogNode, topic: str, *, whole: bool) -> None:
    """Have Pulsar compact the slot and delete what it has of it otherwise; if not the whole, but for a new entry."""
    await compact(site.admin, topic)
    await site.admin.unload(topic)  # a new ledger
    await until(node.owns)
    if not whole:
        await node.put("new", b"1")
    async with asyncio.timeout(20):
        while len((await site.admin.internal_stats(topic)).ledgers) > 1:
            await site.admin.trim(topic)
            await asyncio.sleep(0.1)


async def test_compactions_under_way_bring_nothing_deleted_back(real: LogSite) -> None:
    topic, chance = real.name(), random.Random(1)
    node = await owner(real, topic)
    followings = [await follow(real, partition(topic))]
    for turn in range(8):
        compacting = asyncio.ensure_future(compact(real.admin, partition(topic)))
        for _ in range(5):
            await put_some(node, chance)
            await asyncio.sleep(chance.random() * 0.1)
        if turn % 2:
            await compacting
        followings.append(await follow(real, partition(topic)))
        await asyncio.gather(*map(confirmed, followings))
        assert all(one.values == node.state.values[0] for one in followings)
        await compacting
    assert len(followings[0].copies) == 1
    await node.log.close()
    assert (await owner(real, topic)).state.values[0] == followings[0].values


async def test_a_slot_that_ends_with_a_deletion_and_is_compacted_to_it_is_loaded(real: LogSite) -> None:
    topic = real.name()
    node = await owner(real, topic)
    for key in "abc":
        await node.put(key, b"1")
    await node.put("c", None)
    await compact(real.admin, partition(topic))
    following = await follow(real, partition(topic))
    await confirmed(following)
    assert following.values == {"a": b"1", "b": b"1"}
    await node.put("b", None)
    await confirmed(following)
    assert following.values == {"a": b"1"}
    assert len(following.copies) == 1


@pytest.mark.parametrize("whole", [False, True], ids=["in part", "wholly"])
async def test_what_is_trimmed_while_a_follower_is_away_is_not_missed(real: LogSite, whole: bool) -> None:
    await real.admin.set_namespace_retention(real.namespace, Retention(0, 0))
    await real.admin.set_namespace_deduplication(real.namespace, False)  # its cursor keeps all but the last 1,000
    topic = real.name()
    node = await owner(real, topic)
    await real.admin.set_topic_retention(topic, Retention(0, 0))
    await node.put("k", b"1")
    following = await follow(real, partition(topic))
    await confirmed(following)
    async with Away(following):
        await real.admin.unload(partition(topic))
        await until(node.owns)
        await node.put("k", None)
        await node.put("l", b"1")
        await trimmed(real, node, partition(topic), whole=whole)
    await confirmed(following)
    assert following.values == node.state.values[0]
    assert len(following.copies) == 2
    await confirmed(following)
    assert len(following.copies) == 2  # nothing was written meanwhile
    await node.put("m", b"1")
    await confirmed(following)
    assert following.values == node.state.values[0]


def test_a_follower_shows_what_was_acknowledged_whatever_fails() -> None:
    """The slot moves to and fro, and Pulsar fails, forgets readers, and is slow."""

    async def play(site: LogSite, world: World) -> None:
        topic = site.name()
        nodes = [await owner(site, topic), await start(site, topic, assigned=False)]
        following = await follow(site, partition(topic))
        acknowledged = -1

        async def write() -> None:
            nonlocal acknowledged
            for number in range(40):
                for node in nodes:
                    with suppress(OwnedLogError):
                        await node.log.store(0, [Record("k", b"%d" % number)]).done
                        acknowledged = number
                await world.sleep(0, 0.2)

        async def ask() -> None:
            while True:
                least = acknowledged
                with suppress(OwnedLogError):
                    await following.follower.confirm()
                    assert int(following.values.get("k", b"-1")) >= least
                await world.sleep(0, 0.5)

        async def move() -> None:
            for _ in range(world.chance.randint(0, 4)):
                await world.sleep(0, 3)
                one, other = world.chance.sample(nodes, 2)
                one.log.assign(())
                other.log.assign([0])

        asking = asyncio.ensure_future(ask())
        await asyncio.gather(write(), move(), faults.some(world, partition(topic), most=5, seconds=8.0))
        await faults.heal(world)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert asking.cancelled()
        await until(lambda: any(node.owns() for node in nodes), 100)
        holder = next(node for node in nodes if node.owns())
        await confirmed(following)
        assert following.values == holder.state.values[0]

    play_on_model(play)
