"""An abort can always be stored, whatever its transaction and those before it have named, and keeps little of that."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest

from bridge.config import TransactionSettings
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.owned_log import Record, Stored
from bridge.owned_log.batch import OVERHEAD
from bridge.storage.visibility import Identity, Outcome, Transaction
from bridge.telemetry.metrics import TransactionMetrics
from bridge.transactions.coordinator import Coordinator
from bridge.transactions.state import Partition, Status
from bridge.transactions.table import Table
from tests.transactions.fake_log import FakeLog

P0 = Partition("topic", "ab" * 16, 0)
_LIMIT = 1 << 20


async def _nothing(*_: object) -> None:
    pass


@dataclass
class _Limited(FakeLog):
    """With the limit of an entry of `owned_log.journal` (`_parts`, `write(together=True)`)."""

    def store(self, slot: int, records: Sequence[Record], spare: int = 0) -> Stored:
        size = spare + sum(4 * len(key) + len(value or b"") + OVERHEAD for key, value in records)
        if size > _LIMIT or len(records) > 1000:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the records do not fit into one entry")
        return super().store(slot, records, spare)


class Site:
    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.table = Table(_nothing, _nothing)
        self.log = _Limited(state=self.table)
        for slot in range(self.log.count):
            self.log.take(slot)
        self.coordinator = Coordinator(
            self.log, self.table, TransactionSettings(), TransactionMetrics(), self._id, "ns", lambda: self.now
        )

    async def _id(self) -> int:
        await asyncio.sleep(0)
        return 1000


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    await made.coordinator.close()
    await made.table.close()


@pytest.mark.parametrize("protocol", [1, 2])
async def test_many_aborted_ones_that_name_much_can_be_stored(site: Site, protocol: int) -> None:
    """Each names 30 groups of its own, of 5,000 characters: nine of them are more than an entry holds."""
    one = await site.coordinator.init_producer_id("t", -1, -1, 1000, None)
    slot = site.log.slot_of("t")
    epoch = one.epoch
    for number in range(40):
        added = await site.coordinator.add_partitions("t", 1000, epoch, [P0], {}, protocol=protocol)
        assert added.error is ErrorCode.NONE
        for group in range(30):
            name = f"{number}-{group}".ljust(5000, "g")
            assert (await site.coordinator.add_group("t", 1000, epoch, name, protocol=protocol)).error is ErrorCode.NONE
        record = site.table.record(slot, "t")
        assert record is not None
        identity = record.identity
        if protocol == 1:
            aborted = site.coordinator.end("t", 1000, epoch, committed=False, protocol=1)
            assert (await aborted).error is ErrorCode.NONE
        else:
            site.now += 10
            await site.coordinator.look()  # its time is over
        after = site.table.record(slot, "t")
        assert after is not None
        assert after.status is not Status.OPEN, f"transaction {number} stays open"
        assert site.table.outcome(Transaction(slot, identity)) is Outcome.ABORTED
        epoch = after.epoch


@pytest.mark.parametrize("name", ["t", "t" * 32_000])
async def test_what_may_be_added_may_be_aborted(site: Site, name: str) -> None:
    """A transaction is filled up to what an entry holds."""
    await site.coordinator.init_producer_id(name, -1, -1, 1000, None)
    slot = site.log.slot_of(name)
    await site.coordinator.add_partitions(name, 1000, 0, [P0], {}, protocol=2)
    length = 32_000
    number = 0
    while length:
        number += 1
        group = f"{number:06}".ljust(length, "g")[: max(length, 6)]
        try:
            added = await site.coordinator.add_group(name, 1000, 0, group, protocol=2)
        except KafkaError:
            length //= 2
            continue
        if added.error is not ErrorCode.NONE:
            break
    site.now += 10
    await site.coordinator.look()
    after = site.table.record(slot, name)
    assert after is not None
    assert after.status is not Status.OPEN, "it stays open"
    assert site.table.outcome(Transaction(slot, Identity(1000, 0, 0))) is Outcome.ABORTED


async def test_names_of_groups_are_not_kept(site: Site) -> None:
    """Each transaction has 20 groups of its own; any client may name them, and none has to be there."""
    epoch = (await site.coordinator.init_producer_id("t", -1, -1, 1000, None)).epoch
    for number in range(30):
        for group in range(20):
            name = f"{number}-{group}".ljust(4_000, "g")
            assert (await site.coordinator.add_group("t", 1000, epoch, name, protocol=2)).error is ErrorCode.NONE
        epoch = (await site.coordinator.end("t", 1000, epoch, committed=False, protocol=2, connection=None)).epoch
    held = site.table.aborted_records(site.log.slot_of("t"))
    assert held is not None
    assert sum(len(value) for _, value in held) < 30 * 300
