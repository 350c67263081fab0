"""A slot while its broker or its connection fails: in virtual time, on the model broker."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from bridge.owned_log import OwnedLogError, Record, SlotLoading, SlotUnavailable, WriteTimedOut
from bridge.owned_log.holding import Holding
from bridge.pulsar.admin import InternalStats
from tests.owned_log.contract import outcomes, partition
from tests.owned_log.model import play_on_model
from tests.owned_log.nodes import LogSite, owner, start
from tests.schedules import faults
from tests.schedules.world import World
from tests.support.waiting import until


def test_a_broker_that_stops_answering_fails_writes_in_time() -> None:
    async def play(site: LogSite, world: World) -> None:
        node = await owner(site, site.name())
        await node.put("k", b"1")
        world.broker.freeze()
        before = world.now
        writes = [node.log.write(0, [Record("k", b"%d" % number)]) for number in range(2, 50)]
        assert not any(await outcomes(node, writes))
        assert world.now - before < 6
        assert any(isinstance(write.exception(), WriteTimedOut) for write in writes)
        with pytest.raises(SlotUnavailable):  # at once, and nothing is kept in memory
            node.log.write(0, [Record("k", b"50")])
        world.broker.thaw()
        await asyncio.sleep(100)
        await node.log.owned(0)
        await node.put("k", b"51")
        assert node.get("k") == b"51"

    play_on_model(play)


def test_what_is_settled_is_known() -> None:
    """Once it is settled, its records are in the state, or the slot was lost, or they never will be."""

    async def play(site: LogSite, world: World) -> None:
        topic = site.name()
        node = await owner(site, topic)
        settled: dict[int, str] = {}

        def settle(number: int, losses: int, _: object) -> None:
            lost = len(node.state.losses) > losses
            settled[number] = "lost" if lost else "applied" if node.get(f"k{number}") else "never"

        for number in range(12):
            with suppress(OwnedLogError):
                await node.log.owned(0)
                stored = node.log.store(0, [Record(f"k{number}", b"v")])
                stored.settled.add_done_callback(partial(settle, number, len(node.state.losses)))
            await faults.some(world, partition(topic), most=1, seconds=2)
        await faults.heal(world)
        await until(node.owns, 100)
        told = dict(settled)
        for number, how in told.items():
            assert (node.get(f"k{number}") is not None) == (how == "applied") or how == "lost"
        await node.log.close()
        other = await owner(site, topic)
        assert not [number for number, how in told.items() if how == "never" and other.get(f"k{number}")]
        assert len(told) == len(settled)

    play_on_model(play)


def test_a_slot_in_doubt_is_given_up_and_read_anew() -> None:
    """Nothing else tells whether an entry is stored that was refused when it was sent again."""

    async def play(site: LogSite, world: World) -> None:
        node = await owner(site, site.name())
        await node.put("k", b"1")
        holding = node.log.slots[0]._holding
        assert holding is not None
        assert holding.journal is not None
        world.broker.freeze()
        stored = node.log.store(0, [Record("k", b"2")])
        holding.journal.doubt.set_result(SlotUnavailable("refused"))
        world.loop.after(3.0, world.broker.thaw)
        await stored.settled
        acknowledged = stored.done.exception() is None
        await until(lambda: node.state.losses == [0], 100)
        await until(node.owns, 100)
        assert node.get("k") == b"2" or not acknowledged

    play_on_model(play)


def test_a_lost_connection_is_no_lost_slot() -> None:
    async def play(site: LogSite, world: World) -> None:
        topic = site.name()
        node = await owner(site, topic)
        for number in range(20):
            if number % 5 == 0:
                world.broker.reset_connection()
            try:
                await node.log.owned(0)
                await node.put("k", b"%d" % number)
            except OwnedLogError:
                continue
            assert node.get("k") == b"%d" % number
        acknowledged = node.get("k")
        await asyncio.sleep(30)
        await node.log.owned(0)
        await node.log.close()
        found = (await owner(site, topic)).get("k")
        assert int(found or -1) >= int(acknowledged or -1)

    play_on_model(play)


def test_writes_that_fail_keep_no_later_ones_from_being_stored() -> None:
    async def play(site: LogSite, world: World) -> None:
        topic = site.name()
        node = await owner(site, topic)
        writes = [node.log.write(0, [Record(f"k{number}", b"v")]) for number in range(5)]
        await asyncio.sleep(world.chance.random() * 0.05)
        world.broker.topic(partition(topic)).fail_writes()
        stored = await outcomes(node, writes)
        await asyncio.sleep(30)
        await node.log.owned(0)
        await node.put("last", b"v")
        for number, acknowledged in enumerate(stored):
            assert node.get(f"k{number}") == b"v" or not acknowledged

    play_on_model(play)


def test_while_a_slot_loads_it_says_so() -> None:
    async def play(site: LogSite, world: World) -> None:
        topic = site.name()
        one = await owner(site, topic)
        await one.put("k", b"v")
        await one.log.close()
        other = await start(site, topic)
        met: set[type[Exception]] = set()
        while not other.owns():
            try:
                other.log.check(0)
            except OwnedLogError as error:
                met.add(type(error))
            await asyncio.sleep(0.0001)
        assert met == {SlotUnavailable, SlotLoading}
        assert other.get("k") == b"v"

    play_on_model(play)


def test_a_request_waits_a_while_for_its_slot() -> None:
    async def play(site: LogSite, world: World) -> None:
        topic = site.name()
        await site.admin.create_partitioned(topic, 1)
        world.broker.freeze()
        node_starting = asyncio.ensure_future(start(site, topic))
        await asyncio.sleep(1)
        assert not node_starting.done()
        world.broker.thaw()
        node = await node_starting
        world.broker.freeze()
        before = world.now
        try:
            await node.log.owned(0)
        except OwnedLogError:
            assert world.now - before == pytest.approx(3, abs=0.1)
        world.broker.thaw()
        await asyncio.sleep(60)
        await until(node.owns)

    play_on_model(play)


def test_a_slot_that_is_compacted_while_it_is_read_is_read_again() -> None:
    """A deletion may be gone that was not read yet, of a record that was: here one that is read for the first time."""

    async def play(site: LogSite, world: World) -> None:
        topic = site.name()
        one = await owner(site, topic)
        await one.put("k", b"v")
        await one.log.close()
        other = await start(site, topic, assigned=False)
        told, asked = iter([3, 4, 4]), site.admin.internal_stats

        async def internal_stats(topic: str) -> InternalStats:
            return replace(await asked(topic), compacted_ledger=next(told, 4))

        other.log._dependencies.admin.internal_stats = internal_stats  # type: ignore[method-assign]
        apply = other.state.apply

        def applied(slot: int, key: str, value: bytes | None, *, replaying: bool) -> None:
            name = "deleted" if not other.state.replayed else key
            apply(slot, name, value, replaying=replaying)

        other.state.apply = applied  # type: ignore[method-assign]
        other.log.assign([0])
        await until(other.owns, 100)
        assert other.state.values[0] == {"k": b"v"}

    play_on_model(play)


def test_a_slot_that_is_released_in_the_turn_in_which_it_was_read_stays_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(site: LogSite, world: World) -> None:
        load, is_read, told = Holding.load, asyncio.Event(), asyncio.Event()

        async def told_late(holding: Holding) -> None:
            await load(holding)
            is_read.set()
            await told.wait()

        monkeypatch.setattr(Holding, "load", told_late)
        node = await start(site, site.name())
        await is_read.wait()
        told.set()
        node.log.assign([])
        await node.log.slots[0].close()
        monkeypatch.setattr(Holding, "load", load)
        assert not node.log.slots[0].is_owned
        assert node.state.taken == node.state.losses

    play_on_model(play)
