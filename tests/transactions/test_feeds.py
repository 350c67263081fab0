"""Nodes that hold and follow the slots of transactions, under many schedules of a model broker."""

import asyncio
from contextlib import suppress
from itertools import count

from bridge.config import Settings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Identity, Outcome, Transaction
from bridge.telemetry.metrics import TransactionMetrics
from bridge.transactions.slot_table import SlotCopy
from bridge.transactions.transactions import Partition, Transactions
from tests.owned_log.model import play_on_model
from tests.owned_log.nodes import LogSite
from tests.schedules.world import World
from tests.support.waiting import until

TOPIC_ID = "ab" * 16
P0 = Partition("t", TOPIC_ID, 0)
ALL = range(8)


async def node(site: LogSite, settings: Settings, mine: "range | tuple[int, ...]" = ()) -> Transactions:
    """One that has these slots."""
    numbers = count(1000)

    async def new_producer_id() -> int:
        return next(numbers)

    made = Transactions(
        await site.client(), site.admin, settings, TransactionMetrics(), new_producer_id, lambda: len(ALL)
    )
    site.logs.append(made._feeds.log)
    await made.open()
    made.assign(mine, mine)
    return made


async def begin(at: Transactions, name: str = "x") -> Transaction:
    """An open transaction."""
    await at.group_slot_of(name)
    await until(lambda: at.is_holder(name))
    coordinator = await at.coordinator()
    begun = await coordinator.init_producer_id(name, -1, -1, 60_000, None)
    added = await coordinator.add_partitions(name, begun.producer_id, begun.epoch, [P0], {}, protocol=1)
    assert added.error is ErrorCode.NONE
    return Transaction(at.slot_of(name), Identity(begun.producer_id, begun.epoch, 1))


async def end(at: Transactions, one: Transaction, name: str = "x", *, committed: bool = False) -> None:
    """Its outcome."""
    producer_id, epoch, _ = one.identity
    ended = await (await at.coordinator()).end(name, producer_id, epoch, committed=committed, protocol=1)
    assert ended.error is ErrorCode.NONE


async def confirmed(at: Transactions) -> None:
    """As readers do: a session that has just been opened is checked first, and that may take longer than one waits."""
    async with asyncio.timeout(30):
        while True:
            with suppress(KafkaError):
                return await at.outcomes.confirm()


def watched(at: Transactions, one: Transaction) -> "asyncio.Event":
    """Set when it is decided there."""
    decided = asyncio.Event()
    at.outcomes.watch(one, decided.set)
    return decided


def test_where_there_are_none_all_is_known_at_once() -> None:
    async def play(site: LogSite, world: World) -> None:
        one = await node(site, world.settings())
        await one.outcomes.confirm()
        assert not await one.all()
        assert await one.describe("x") is None
        forged = Transaction(3, Identity(1, 0, 1))
        assert one.outcomes.outcome(forged) is Outcome.OPEN
        await watched(one, forged).wait()
        assert one.outcomes.outcome(forged) is Outcome.COMMITTED
        await one.close()

    play_on_model(play)


def test_a_reader_that_knows_of_none_shows_nothing_of_the_first_that_another_node_begins() -> None:
    async def play(site: LogSite, world: World) -> None:
        reader, holder = await node(site, world.settings()), await node(site, world.settings(), ALL)
        await reader.outcomes.confirm()
        first = await begin(holder)
        assert reader.outcomes.outcome(first) is Outcome.OPEN
        decided = watched(reader, first)  # an entry of it is met
        await confirmed(reader)
        assert [one.transaction for one in reader.outcomes.open_in(TOPIC_ID, 0)] == [first]
        assert not decided.is_set()
        await end(holder, first)
        await decided.wait()
        assert reader.outcomes.outcome(first) is Outcome.ABORTED
        await reader.close()
        await holder.close()

    play_on_model(play)


def test_a_slot_goes_from_one_to_the_other_and_both_know_all() -> None:
    async def play(site: LogSite, world: World) -> None:
        one, other = await node(site, world.settings(), ALL), await node(site, world.settings())
        first = await begin(one)
        one.assign((), ())
        other.assign(ALL, ())
        await until(lambda: other.is_holder("x"))
        assert one.outcomes.outcome(first) is Outcome.OPEN
        await end(other, first)
        await confirmed(one)
        assert one.outcomes.outcome(first) is other.outcomes.outcome(first) is Outcome.ABORTED
        second = Transaction(first.slot, first.identity._replace(n=2))
        await (await other.coordinator()).add_partitions("x", first.identity.producer_id, 0, [P0], {}, protocol=1)
        await confirmed(one)
        for at in (one, other):
            assert await at.stamp("x", first.identity.producer_id, 0, [(TOPIC_ID, 0)]) == second
        await one.close()
        await other.close()

    play_on_model(play)


def test_a_copy_that_a_follower_completes_too_late_takes_no_holders_place() -> None:
    async def play(site: LogSite, world: World) -> None:
        one, other = await node(site, world.settings(), ALL), await node(site, world.settings())
        first = await begin(one)
        await confirmed(other)
        late = other._feeds._followers[first.slot]
        one.assign((), ())
        other.assign(ALL, ())
        await until(lambda: other.is_holder("x"))
        late._swapped(SlotCopy())
        await end(other, first)
        assert other.outcomes.outcome(first) is Outcome.ABORTED
        await one.close()
        await other.close()

    play_on_model(play)


def test_a_node_that_starts_later_has_all_before_it_serves() -> None:
    async def play(site: LogSite, world: World) -> None:
        holder = await node(site, world.settings(), ALL)
        first = await begin(holder)
        await end(holder, first)
        later = await node(site, world.settings())
        assert later.outcomes.outcome(first) is Outcome.ABORTED
        await later.close()
        await holder.close()

    play_on_model(play)
