"""Records of aborted transactions go when nothing is left of them, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from bridge.config import TransactionSettings
from bridge.pulsar.types import Position, PulsarError
from bridge.storage.topics.closed_logs import Extent
from bridge.storage.visibility import Identity
from bridge.telemetry.metrics import TransactionMetrics
from bridge.transactions import pruning, records
from bridge.transactions.aborted import MOST_ALONE
from bridge.transactions.coordinator import Coordinator
from bridge.transactions.pruning import Pruning, Remains
from bridge.transactions.records import AbortedKey
from bridge.transactions.state import Partition
from bridge.transactions.table import Table
from tests.transactions.fake_log import FakeLog

ID = "t"
P0, P1 = Partition("topic", "ab" * 16, 0), Partition("topic", "ab" * 16, 1)
DAY = 86_400
BEGIN = 1_000_000 * DAY
"""When each test begins, in seconds."""


async def nothing(*_: object) -> None:
    pass


@dataclass
class Site:
    """A holder, and what it is told to be left."""

    log: FakeLog
    table: Table
    metrics: TransactionMetrics = field(default_factory=TransactionMetrics)
    now: float = BEGIN
    extents: dict[int, Extent | None] = field(default_factory=dict)
    """By partition; those that are not in here are empty."""
    pendings: set[Identity] = field(default_factory=set)
    away: bool = False
    """Nothing is told."""
    asked: list[int] = field(default_factory=list)
    ids: int = 999
    coordinator: Coordinator = field(init=False)
    pruning: Pruning = field(init=False)

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(
            self.log, self.table, TransactionSettings(), self.metrics, self.new_id, "ns", lambda: self.now
        )
        self.restart()

    def restart(self) -> None:
        """A process that remembers nothing of former looks."""
        self.pruning = Pruning(self.coordinator, self.table, Remains(self.extent, self.pending), lambda: self.now)

    async def new_id(self) -> int:
        self.ids += 1
        return self.ids

    async def extent(self, topic: str, partition: int) -> Extent | None:
        assert topic == "topic"
        self.asked.append(partition)
        if self.away:
            raise PulsarError(0, "away")
        return self.extents.get(partition)

    async def pending(self) -> frozenset[Identity]:
        if self.away:
            raise TimeoutError
        return frozenset(self.pendings)

    async def begun(self) -> None:
        await self.coordinator.init_producer_id(ID, -1, -1, 60_000, None)

    async def aborted(self, *partitions: Partition, group: str = "") -> Identity:
        """One more aborted transaction of the id."""
        for partition in partitions:
            await self.coordinator.add_partitions(ID, 1000, 0, [partition], {}, protocol=1)
        if group:
            await self.coordinator.add_group(ID, 1000, 0, group, protocol=1)
        found = self.table.record(self.log.slot_of(ID), ID)
        assert found is not None
        await self.coordinator.end(ID, 1000, 0, committed=False, protocol=1)
        return found.identity

    async def look(self, *, after: float = 0.0) -> None:
        self.now += after
        await self.pruning.look()

    def is_known(self, identity: Identity) -> bool:
        """Whether it is among the aborted ones; the newest of an id is told by the id's record as well."""
        known = self.table._slot(self.log.slot_of(ID)).outcomes
        return known is not None and identity in known.aborted

    @property
    def kept(self) -> int:
        return self.table.count_aborted(self.log.slot_of(ID))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    table = Table(nothing, nothing)
    made = Site(FakeLog(state=table), table)
    for slot in range(made.log.count):
        made.log.take(slot)
    await made.begun()
    yield made
    await made.coordinator.close()
    await table.close()


def held(first: int, last: int, stored_at: float | None = None) -> Extent:
    """A partition with these entries."""
    at = None if stored_at is None else int(stored_at * 1000)
    return Extent(Position(1, first), at, Position(1, last))


async def test_what_nothing_is_left_of_is_forgotten_a_day_later_at_the_second_look(site: Site) -> None:
    identity = await site.aborted(P0)
    await site.look(after=DAY - 1)
    await site.look()
    assert site.is_known(identity)
    await site.look(after=1)
    assert site.is_known(identity)
    await site.look()
    assert not site.is_known(identity)
    assert (site.kept, site.metrics.pruned_records.value) == (0, 1)
    assert site.log.written[-1].records == [("a/1000/0/1", None)]


async def test_a_clock_that_was_ahead_for_a_while_deletes_nothing_that_is_left(site: Site) -> None:
    await site.aborted(P0)
    site.extents[0] = held(0, 0)
    await site.look(after=10 * DAY)
    site.now = BEGIN + DAY
    identity = await site.aborted(P0)
    site.extents[0] = held(1, 5)
    for _ in range(4):
        await site.look(after=DAY)
    assert site.is_known(identity)


async def test_what_is_left_in_one_partition_is_kept_whatever_is_gone_elsewhere(site: Site) -> None:
    identity = await site.aborted(P0, P1)
    site.extents[1] = held(0, 9)
    for _ in range(3):
        await site.look(after=DAY)
    assert site.is_known(identity)
    site.extents[1] = held(9, 12)
    for _ in range(3):
        await site.look(after=DAY)
    assert site.is_known(identity)
    del site.extents[1]
    await site.look(after=1)
    await site.look(after=1)
    assert not site.is_known(identity)


async def test_the_broker_s_time_of_the_first_entry_tells_what_is_gone(site: Site) -> None:
    identity = await site.aborted(P0)
    site.extents[0] = held(5, 9, BEGIN + DAY - 0.001)
    for _ in range(3):
        await site.look(after=DAY)
    assert site.is_known(identity)
    site.extents[0] = held(6, 9, BEGIN + DAY)
    await site.look()
    await site.look()
    assert not site.is_known(identity)


async def test_a_place_noted_a_day_after_the_decision_tells_what_is_gone(site: Site) -> None:
    early = await site.aborted(P0)
    site.extents[0] = held(0, 9)
    await site.look(after=DAY - 1)  # too early: what is written now may be of it
    site.extents[0] = held(10, 12)
    await site.look(after=1)  # all that was there is gone, but that was not all of it
    await site.look(after=1)
    assert site.is_known(early)
    late = await site.aborted(P0)
    site.extents[0] = held(13, 20)
    await site.look(after=1)
    await site.look(after=1)
    assert not site.is_known(early)
    assert site.is_known(late)
    site.restart()
    for _ in range(3):
        await site.look(after=DAY)
    assert site.is_known(late)
    site.extents[0] = held(21, 22)
    await site.look()
    await site.look()
    assert not site.is_known(late)


async def test_a_pending_offset_keeps_it_and_is_asked_for_only_where_a_group_is_named(site: Site) -> None:
    plain, grouped = await site.aborted(P0), await site.aborted(P0, group="g")
    site.pendings.add(grouped)
    for _ in range(3):
        await site.look(after=DAY)
    assert (site.is_known(plain), site.is_known(grouped)) == (False, True)
    site.pendings.clear()
    await site.look()
    await site.look()
    assert not site.is_known(grouped)


async def test_what_cannot_be_told_is_not_gone(site: Site) -> None:
    identities = [await site.aborted(P0), await site.aborted(group="g")]
    site.away = True
    for _ in range(3):
        await site.look(after=DAY)
    assert all(map(site.is_known, identities))
    site.away = False
    await site.look()
    site.away = True
    await site.look()  # one answer was not enough
    assert all(map(site.is_known, identities))


async def test_a_block_is_forgotten_whole_and_not_while_one_of_it_is_left(site: Site) -> None:
    identities = [await site.aborted(P0, group="g") for _ in range(MOST_ALONE + 1)]
    site.pendings.add(identities[3])
    assert site.kept == 1
    for _ in range(3):
        await site.look(after=DAY)
    assert all(map(site.is_known, identities))
    site.pendings.clear()
    await site.look()
    await site.look()
    assert not any(map(site.is_known, identities))
    assert site.kept == 0


async def test_a_block_that_gets_another_one_before_it_is_deleted_is_kept(site: Site) -> None:
    identities = [await site.aborted(P0) for _ in range(2 * MOST_ALONE + 1)]
    await site.coordinator.add_partitions(ID, 1000, 0, [P0], {}, protocol=1)
    site.now += DAY
    look, slot = pruning._Look(site.pruning._remains, site.pruning._since, site.pruning._now), site.log.slot_of(ID)
    gone = await site.pruning._gone(slot, look)
    assert len(gone) == 1 + MOST_ALONE
    site.log.is_prompt = False
    ending = asyncio.ensure_future(site.coordinator.end(ID, 1000, 0, committed=False, protocol=1))
    await _settled()
    deleting = asyncio.ensure_future(site.coordinator.forget_aborted(slot, 1000, gone))
    await _settled()
    site.log.receipt()
    await ending
    assert await deleting == 0
    assert site.kept == 1
    assert all(map(site.is_known, [*identities, Identity(1000, 0, 2 * MOST_ALONE + 2)]))


async def _settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_an_expired_id_has_left_is_forgotten(site: Site) -> None:
    identity = await site.aborted(P0)
    await site.coordinator.look()
    site.now += 8 * DAY
    site.coordinator._expired_at = -1e9
    await site.coordinator.look()
    assert site.table.record(site.log.slot_of(ID), ID) is None
    assert site.is_known(identity)
    await site.look()
    await site.look()
    assert site.kept == 0


async def test_each_partition_is_asked_once_however_many_name_it(site: Site) -> None:
    for _ in range(5):
        await site.aborted(P0, P1)
    site.extents = {0: held(0, 1), 1: held(0, 1)}
    await site.look(after=DAY)
    assert sorted(site.asked) == [0, 1]


@pytest.mark.parametrize(("bound", "most"), [("_MOST_AT_A_LOOK", 2), ("_MOST_BYTES_AT_A_LOOK", 100)])
async def test_only_so_many_are_looked_for_at_a_time(
    site: Site, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """Each record may be as large as an entry, and all that go are in memory with their values until they have gone."""
    monkeypatch.setattr(pruning, bound, most)
    for _ in range(5):
        await site.aborted(P0)
    left = []
    for _ in range(4):
        await site.look(after=DAY)
        left.append(site.kept)
    assert left == [5, 3, 3, 1]


async def test_a_failed_deletion_is_tried_again(site: Site) -> None:
    identity = await site.aborted(P0)
    await site.look(after=DAY)
    site.log.is_prompt = False
    look = asyncio.ensure_future(site.look())
    await _settled()
    site.log.never()
    await look
    assert site.is_known(identity)
    site.log.is_prompt = True
    await site.look()
    await site.look()
    assert not site.is_known(identity)


async def test_a_record_of_a_later_version_is_left_alone(site: Site) -> None:
    identity = Identity(7, 0, 1)
    slot = site.log.slot_of(ID)
    later = b'{"v":2,"t":1,"w":[],"g":[]}'
    site.table.apply(slot, records.aborted_key(identity), later, replaying=False)
    held_records = site.table.aborted_records(slot)
    assert held_records is not None
    assert held_records.value(AbortedKey(identity)) == later
    for _ in range(3):
        await site.look(after=DAY)
    assert site.is_known(identity)


@pytest.mark.parametrize(("has_times", "most_days"), [(True, 7 + 1 + 1), (False, 2 * (7 + 1) + 1)])
async def test_months_of_aborted_transactions_leave_some_days_of_them(
    site: Site, has_times: bool, most_days: int
) -> None:
    """One an hour, each alone in its block, in a partition that keeps its records for a week."""
    most = 0
    for hour in range(24 * 60):
        site.now += 3600
        begun = await site.coordinator.init_producer_id(ID, -1, -1, 60_000, None)
        await site.coordinator.add_partitions(ID, 1000, begun.epoch, [P0], {}, protocol=1)
        await site.coordinator.end(ID, 1000, begun.epoch, committed=False, protocol=1)
        first = max(hour - 7 * 24, 0)
        site.extents[0] = held(first, hour, BEGIN + 3600 * first if has_times else None)
        if hour % 6 == 0:
            await site.look()
            most = max(most, site.kept)
    assert 24 * 7 < most <= 24 * most_days
    assert site.metrics.pruned_records.value == 24 * 60 - site.kept
