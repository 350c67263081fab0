import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from bridge.config import TransactionSettings
from bridge.errors import KafkaError, Unanswered
from bridge.kafka.error_codes import ErrorCode
from bridge.owned_log import Record
from bridge.runtime.futures import loop_time
from bridge.storage.visibility import Identity, Outcome, Transaction
from bridge.telemetry.metrics import TransactionMetrics
from bridge.transactions.coordinator import Coordinator
from bridge.transactions.newest_connections import Connection
from bridge.transactions.records import encode, id_key
from bridge.transactions.state import LAST_EPOCH, Change, Partition, Status, TransactionRecord
from bridge.transactions.table import Table
from tests.transactions.fake_log import FakeLog

_R = TypeVar("_R")

ID = "t"
TOPIC_ID = "ab" * 16
P0, P1 = Partition("topic", TOPIC_ID, 0), Partition("topic", TOPIC_ID, 1)


async def _nothing(*_: object) -> None:
    pass


@dataclass
class Site:
    """A coordinator, its log and its clock."""

    log: FakeLog
    table: Table
    metrics: TransactionMetrics
    now: float = 1_000_000.0
    ids: list[int] = field(default_factory=lambda: list(range(1000, 1100)))
    settings: TransactionSettings = field(default_factory=TransactionSettings)
    coordinator: Coordinator = field(init=False)
    tasks: list["asyncio.Future[Any]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.coordinator = Coordinator(
            self.log, self.table, self.settings, self.metrics, self.new_producer_id, "ns", lambda: self.now
        )

    async def new_producer_id(self) -> int:
        await asyncio.sleep(0)
        if not self.ids:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self.ids.pop(0)

    @property
    def slot(self) -> int:
        return self.log.slot_of(ID)

    @property
    def record(self) -> TransactionRecord:
        found = self.table.record(self.slot, ID)
        assert found is not None
        return found

    def outcome(self, epoch: int, n: int) -> Outcome:
        return self.table.outcome(Transaction(self.slot, Identity(1000, epoch, n)))

    async def init(
        self, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000, connection: Connection | None = None
    ) -> Change:
        return await self.coordinator.init_producer_id(ID, producer_id, epoch, timeout_ms, connection)

    async def add(self, *partitions: Partition, epoch: int = 0, connection: Connection | None = None) -> Change:
        return await self.coordinator.add_partitions(ID, 1000, epoch, partitions, {}, protocol=1, connection=connection)

    async def end(
        self, *, committed: bool = True, epoch: int = 0, connection: Connection | None = None, protocol: int = 1
    ) -> Change:
        return await self.coordinator.end(
            ID, 1000, epoch, committed=committed, protocol=protocol, connection=connection
        )

    async def begun(self, work: "Coroutine[Any, Any, _R]") -> "asyncio.Task[_R]":
        """A request, as far as it gets."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.append(task)
        await settle()
        return task


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def refused(task: "asyncio.Future[Any]") -> ErrorCode:
    error = task.exception()
    assert isinstance(error, KafkaError)
    return ErrorCode(error.code)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    table = Table(_nothing, _nothing)
    log = FakeLog(state=table)
    made = Site(log, table, TransactionMetrics())
    for slot in range(log.count):
        log.take(slot)
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)
    await made.coordinator.close()
    await table.close()


# ---- one after the other ---------------------------------------------------------------------------------------------


async def test_a_transaction_from_its_id_to_its_commit(site: Site) -> None:
    assert await site.init() == Change(record=site.record, producer_id=1000, epoch=0)
    assert (await site.add(P0, P1)).error is ErrorCode.NONE
    assert site.record.status is Status.OPEN
    assert site.outcome(0, 1) is Outcome.OPEN
    assert [one.transaction.identity for one in site.table.open_in(TOPIC_ID, 1)] == [(1000, 0, 1)]
    assert (await site.end()).error is ErrorCode.NONE
    assert site.outcome(0, 1) is Outcome.COMMITTED
    assert not site.table.open_in(TOPIC_ID, 1)
    await site.add(P0)
    await site.end(committed=False)
    assert (site.outcome(0, 1), site.outcome(0, 2)) == (Outcome.COMMITTED, Outcome.ABORTED)
    assert (site.metrics.commits.value, site.metrics.aborts.value) == (1, 1)
    assert site.log.confirms == 0


async def test_a_decision_is_one_entry_with_the_aborted_ahead(site: Site) -> None:
    await site.init()
    await site.add(P0)
    await site.end(committed=False)
    assert [key for key, _ in site.log.written[-1].records] == ["a/1000/0/1", "t/t"]
    await site.add(P0)
    await site.init(1000, 0)
    assert [key for key, _ in site.log.written[-1].records] == ["a/1000/0/2", "t/t"]
    assert site.outcome(0, 2) is Outcome.ABORTED
    assert site.record.epoch == 1


async def test_many_aborted_ones_share_a_block(site: Site) -> None:
    await site.init()
    for _ in range(20):
        await site.add(P0)
        await site.end(committed=False)
    assert site.table.count_aborted(site.slot) < 10
    assert all(site.outcome(0, n) is Outcome.ABORTED for n in range(1, 21))


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_time_out_out_of_bounds_is_refused(site: Site, timeout_ms: int) -> None:
    assert (await site.init(timeout_ms=timeout_ms)).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not site.log.written


async def test_beyond_its_limit_no_new_id_is_taken(site: Site) -> None:
    site.settings = TransactionSettings(max_ids=1)
    site.restart()
    await site.init()
    other = await site.coordinator.init_producer_id("another", -1, -1, 1000, None)
    assert other.error is ErrorCode.POLICY_VIOLATION
    assert (await site.init()).error is ErrorCode.NONE


async def test_beyond_the_limit_of_open_ones_others_wait_until_one_has_ended(site: Site) -> None:
    site.settings = TransactionSettings(max_open=1)
    site.restart()
    coordinator = site.coordinator
    await site.init()
    other = await coordinator.init_producer_id("another", -1, -1, 1000, None)
    assert (await site.add(P0)).error is ErrorCode.NONE
    assert (await site.add(P1)).error is ErrorCode.NONE

    async def begins(epoch: int = other.epoch) -> list[ErrorCode]:
        partitions = coordinator.add_partitions("another", other.producer_id, epoch, [P0], {}, protocol=1)
        group = coordinator.add_group("another", other.producer_id, epoch, "g", protocol=1)
        return [(await one).error for one in (partitions, group)]

    assert await begins() == [ErrorCode.CONCURRENT_TRANSACTIONS] * 2
    assert site.metrics.refused.value == 2
    assert await begins(epoch=7) == [ErrorCode.PRODUCER_FENCED] * 2
    assert (await site.end()).error is ErrorCode.NONE
    assert await begins() == [ErrorCode.NONE] * 2


async def test_the_last_epoch_is_followed_by_a_new_producer_id(site: Site) -> None:
    await site.init()
    last = TransactionRecord(
        9, 1000, LAST_EPOCH, 1, Status.OPEN, 1, 1000, 1, 1, None, {("topic", TOPIC_ID): ((0, 0),)}, {}, frozenset()
    )
    site.log.lose(site.slot)
    site.log.take(site.slot, [Record(id_key(ID), encode(last))])
    assert (await site.init())[3:] == (1001, 0)
    assert site.outcome(LAST_EPOCH, 1) is Outcome.ABORTED


async def test_without_a_new_producer_id_nothing_is_written(site: Site) -> None:
    site.ids.clear()
    task = await site.begun(site.init())
    assert refused(task) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not site.log.written


async def test_what_does_not_fit_into_an_entry_is_refused_and_leaves_the_id_open(site: Site) -> None:
    await site.init()
    site.log.limit = 0
    assert refused(await site.begun(site.add(P0))) is ErrorCode.INVALID_REQUEST
    site.log.limit = 1000
    assert (await site.add(P0)).error is ErrorCode.NONE


# ---- no answer from memory -------------------------------------------------------------------------------------------


async def test_what_is_answered_without_a_write_is_confirmed(site: Site) -> None:
    await site.init()
    await site.add(P0)
    for confirms, again in enumerate((site.add(P0), site.add(P1, epoch=7), site.end(epoch=3)), 1):
        await again
        assert site.log.confirms == confirms
    await site.end()
    await site.end()
    assert site.log.confirms == 4
    assert await site.coordinator.describe(ID) == site.record
    assert site.log.confirms == 5


async def test_a_holder_that_was_frozen_refuses_nobody(site: Site) -> None:
    await site.init()
    site.log.confirm_error = ErrorCode.NOT_COORDINATOR
    for stale in (site.add(P0, epoch=7), site.end(), site.init(1000, 5)):
        assert refused(await site.begun(stale)) is ErrorCode.NOT_COORDINATOR


async def test_an_answer_that_rests_on_a_write_under_way_waits_for_it(site: Site) -> None:
    await site.init()
    site.log.is_prompt = False
    first, again = await site.begun(site.add(P0)), await site.begun(site.add(P0))
    assert not first.done()
    assert not again.done()
    site.log.receipt()
    await settle()
    assert first.result().error is again.result().error is ErrorCode.NONE


async def test_an_answer_that_rests_on_a_write_that_fails_fails(site: Site) -> None:
    await site.init()
    site.log.is_prompt = False
    first, again = await site.begun(site.add(P0)), await site.begun(site.add(P0))
    site.log.too_late()
    await settle()
    assert refused(first) is refused(again) is ErrorCode.COORDINATOR_NOT_AVAILABLE


# ---- the order of one id ---------------------------------------------------------------------------------------------


async def test_additions_are_under_way_together_and_each_has_those_before(site: Site) -> None:
    await site.init()
    site.log.is_prompt = False
    one, other = await site.begun(site.add(P0)), await site.begun(site.add(P1))
    assert len(site.log.waiting) == 2
    site.log.receipt()
    await settle()
    assert one.done()
    assert not other.done()
    site.log.receipt()
    await settle()
    assert other.done()
    assert site.record.names(TOPIC_ID, 0)
    assert site.record.names(TOPIC_ID, 1)
    assert site.record.revision == 3


async def test_a_decision_waits_for_all_additions_and_nothing_passes_it(site: Site) -> None:
    await site.init()
    site.log.is_prompt = False
    added = [await site.begun(site.add(one)) for one in (P0, P1)]
    end = await site.begun(site.end())
    following = await site.begun(site.add(P0))
    assert len(site.log.waiting) == 2
    site.log.receipt()
    await settle()
    assert len(site.log.waiting) == 1
    site.log.receipt()
    await settle()
    assert all(one.done() for one in added)
    assert len(site.log.waiting) == 1  # the decision alone
    assert not end.done()
    site.log.receipt()
    await settle()
    assert end.result().error is ErrorCode.NONE
    site.log.receipt()
    await settle()
    assert following.result().error is ErrorCode.NONE
    assert site.record.n == 2


async def test_init_producer_id_while_a_commit_is_under_way_has_nothing_to_abort(site: Site) -> None:
    await site.init()
    await site.add(P0)
    site.log.is_prompt = False
    end, init = await site.begun(site.end()), await site.begun(site.init())
    site.log.receipt()
    await settle()
    assert end.result().error is ErrorCode.NONE
    assert [key for key, _ in site.log.receipt().records] == ["t/t"]
    await settle()
    assert init.result()[3:] == (1000, 1)
    assert site.outcome(0, 1) is Outcome.COMMITTED


async def test_of_two_commits_the_second_is_a_repetition(site: Site) -> None:
    await site.init()
    await site.add(P0)
    site.log.is_prompt = False
    one, other = await site.begun(site.end()), await site.begun(site.end())
    assert len(site.log.waiting) == 1
    site.log.receipt()
    await settle()
    assert one.result().error is other.result().error is ErrorCode.NONE
    assert site.log.confirms == 1


async def test_a_time_out_and_a_commit_do_not_contradict(site: Site) -> None:
    await site.init()
    await site.add(P0)
    site.log.is_prompt = False
    end = await site.begun(site.end())
    site.now += 61
    look = await site.begun(site.coordinator.look())
    site.log.receipt()
    await settle()
    assert end.result().error is ErrorCode.NONE
    assert look.done()
    assert not site.log.waiting
    assert site.outcome(0, 1) is Outcome.COMMITTED


async def test_ids_do_not_wait_for_each_other(site: Site) -> None:
    site.log.is_prompt = False
    one = await site.begun(site.init())
    other = await site.begun(site.coordinator.init_producer_id("u", -1, -1, 1000, None))
    assert len(site.log.waiting) == 2
    site.log.receipt()
    site.log.receipt()
    await settle()
    assert one.result().error is other.result().error is ErrorCode.NONE


# ---- closed ids ------------------------------------------------------------------------------------------------------


async def test_a_write_without_receipt_closes_the_id_until_it_is_known(site: Site) -> None:
    await site.init()
    await site.add(P0)
    site.log.is_prompt = False
    end = await site.begun(site.end())
    site.log.too_late()
    await settle()
    assert refused(end) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for work in (site.init(), site.add(P1), site.end(committed=False)):
        assert refused(await site.begun(work)) is ErrorCode.CONCURRENT_TRANSACTIONS
    site.now += 61
    await site.coordinator.look()  # no abort from what was known before
    assert len(site.log.waiting) == 1
    standing = site.metrics.standings["ns"]
    assert (standing.closed, standing.open) == (1, 1)
    site.log.receipt()
    await settle()
    site.log.is_prompt = True
    assert (await site.end(committed=False)).error is ErrorCode.INVALID_TXN_STATE
    assert (await site.end()).error is ErrorCode.NONE
    assert site.outcome(0, 1) is Outcome.COMMITTED


async def test_a_write_that_is_known_not_to_be_stored_leaves_what_was(site: Site) -> None:
    await site.init()
    await site.add(P0)
    site.log.is_prompt = False
    end = await site.begun(site.end())
    site.log.never()
    await settle()
    assert refused(end) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    site.log.is_prompt = True
    assert (await site.end(committed=False)).error is ErrorCode.NONE
    assert site.outcome(0, 1) is Outcome.ABORTED


async def test_the_id_stays_closed_until_every_write_is_known(site: Site) -> None:
    await site.init()
    site.log.is_prompt = False
    one, other = await site.begun(site.add(P0)), await site.begun(site.add(P1))
    site.log.too_late()
    await settle()
    assert refused(one) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    site.log.receipt()
    await settle()
    assert refused(await site.begun(site.add(P0))) is ErrorCode.CONCURRENT_TRANSACTIONS
    site.log.receipt()
    await settle()
    assert other.result().error is ErrorCode.NONE
    site.log.is_prompt = True
    assert (await site.end()).error is ErrorCode.NONE


async def test_a_decision_that_waits_behind_a_write_without_receipt_is_not_made(site: Site) -> None:
    await site.init()
    site.log.is_prompt = False
    added, end = await site.begun(site.add(P0)), await site.begun(site.end())
    site.log.too_late()
    await settle()
    assert refused(added) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused(end) is ErrorCode.CONCURRENT_TRANSACTIONS


async def test_a_request_that_is_cancelled_keeps_its_place(site: Site) -> None:
    await site.init()
    await site.add(P0)
    site.log.is_prompt = False
    end = await site.begun(site.end())
    end.cancel()
    await settle()
    assert refused(await site.begun(site.init())) is ErrorCode.CONCURRENT_TRANSACTIONS
    site.log.receipt()
    await settle()
    site.log.is_prompt = True
    assert (await site.init())[3:] == (1000, 1)
    assert site.outcome(0, 1) is Outcome.COMMITTED


# ---- lost slots ------------------------------------------------------------------------------------------------------


async def test_a_lost_slot_is_forgotten_and_who_waits_is_sent_away(site: Site) -> None:
    await site.init()
    await site.add(P0)
    site.log.is_prompt = False
    end, waits = await site.begun(site.end()), await site.begun(site.init())
    site.log.lose(site.slot)
    await settle()
    assert refused(end) is refused(waits) is ErrorCode.NOT_COORDINATOR
    assert refused(await site.begun(site.add(P1))) is ErrorCode.NOT_COORDINATOR
    assert site.outcome(0, 1) is Outcome.OPEN  # readers go on with what was known
    assert site.table.owned_slots() == [1 - site.slot]


async def test_a_slot_that_is_taken_again_is_as_it_is_stored(site: Site) -> None:
    await site.init()
    await site.add(P0)
    site.log.is_prompt = False
    end = await site.begun(site.end())
    site.log.too_late()
    await settle()
    assert refused(end) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    records = [one for write in site.log.written if write.slot == site.slot for one in write.records]
    site.log.lose(site.slot)
    site.log.take(site.slot, records)  # the commit was stored
    site.log.is_prompt = True
    assert (await site.end()).error is ErrorCode.NONE
    assert (await site.end(committed=False)).error is ErrorCode.INVALID_TXN_STATE


async def test_a_slot_lost_while_a_producer_id_is_asked_for_takes_no_write(site: Site) -> None:
    task = asyncio.ensure_future(site.init())
    await asyncio.sleep(0)
    site.log.lose(site.slot)
    site.log.take(site.slot)
    await settle()
    assert refused(task) is ErrorCode.NOT_COORDINATOR
    assert not site.log.written


# ---- connections -----------------------------------------------------------------------------------------------------


async def test_a_delayed_request_of_an_older_connection_is_not_served(site: Site) -> None:
    old, new = Connection(5, loop_time() + 1), Connection(9, loop_time() + 2)
    await site.init(connection=old)
    await site.add(P0, connection=old)
    await site.end(connection=new)
    await site.add(P0, connection=new)
    for delayed in (site.end(connection=old), site.add(P1, connection=old)):
        with pytest.raises(Unanswered):
            await delayed
    assert site.outcome(0, 2) is Outcome.OPEN
    assert (await site.end(connection=new)).error is ErrorCode.NONE


async def test_a_connection_is_judged_when_its_request_is_served(site: Site) -> None:
    old, new = Connection(5, loop_time() + 1), Connection(9, loop_time() + 2)
    await site.init(connection=old)
    site.log.is_prompt = False
    added = await site.begun(site.add(P0, connection=old))
    newer = await site.begun(site.add(P1, connection=new))
    delayed = await site.begun(site.end(connection=old))
    site.log.receipt()
    site.log.receipt()
    await settle()
    assert added.result().error is newer.result().error is ErrorCode.NONE
    assert isinstance(delayed.exception(), Unanswered)


async def test_a_connection_from_before_the_slot_was_taken_is_not_served(site: Site) -> None:
    await site.init()
    before = Connection(5, site.table.taken_at(site.slot))
    with pytest.raises(Unanswered):
        await site.add(P0, connection=before)
    assert (await site.add(P0, connection=Connection(6, loop_time() + 1))).error is ErrorCode.NONE


async def test_an_epoch_that_begins_as_the_slot_is_lost_admits_nobody_at_the_next_taking(site: Site) -> None:
    before = Connection(5, loop_time())
    site.log.is_prompt = False
    begun = await site.begun(site.init(connection=before))
    site.log.receipt()
    site.log.lose(site.slot)  # in the same turn of the loop
    assert (await begun).error is ErrorCode.NONE
    site.log.is_prompt = True
    site.log.take(site.slot, [one for write in site.log.written for one in write.records])
    with pytest.raises(Unanswered):
        await site.add(P0, connection=before)


async def test_whoever_begins_an_epoch_is_served_on_any_connection(site: Site) -> None:
    before, newer = Connection(5, site.table.taken_at(site.slot)), Connection(9, loop_time() + 1)
    await site.init(connection=newer)
    assert (await site.init(connection=before))[3:] == (1000, 1)
    assert (await site.add(P0, epoch=1, connection=before)).error is ErrorCode.NONE
    assert (await site.end(epoch=0, connection=newer)).error is ErrorCode.PRODUCER_FENCED
    assert (await site.end(epoch=1, connection=before)).error is ErrorCode.NONE
    await site.add(P0, epoch=1, connection=newer)
    with pytest.raises(Unanswered):
        await site.end(epoch=1, connection=before)
    site.log.lose(site.slot)
    site.log.take(site.slot, [one for write in site.log.written for one in write.records])
    with pytest.raises(Unanswered):
        await site.end(epoch=1, connection=before)


async def test_a_zombie_is_fenced_on_any_connection_and_disturbs_nobody(site: Site) -> None:
    zombie, current = Connection(9, loop_time() + 2), Connection(5, loop_time() + 1)
    await site.init(connection=current)
    await site.init(connection=current)
    assert (await site.end(epoch=0, connection=zombie)).error is ErrorCode.PRODUCER_FENCED
    assert (await site.init(1000, 7, connection=zombie)).error is ErrorCode.PRODUCER_FENCED
    assert (await site.add(P0, epoch=1, connection=current)).error is ErrorCode.NONE


# ---- time-outs and expiry --------------------------------------------------------------------------------------------


async def test_what_is_open_for_its_time_out_is_aborted_and_its_producer_fenced(site: Site) -> None:
    await site.init()
    await site.add(P0)
    site.now += 59
    await site.coordinator.look()
    assert site.outcome(0, 1) is Outcome.OPEN
    assert site.metrics.standings["ns"].open_seconds == 59
    site.now += 1
    await site.coordinator.look()
    assert site.outcome(0, 1) is Outcome.ABORTED
    assert (await site.end()).error is ErrorCode.PRODUCER_FENCED
    assert (site.metrics.timeouts.value, site.metrics.aborts.value) == (1, 1)


async def test_an_administrator_aborts_the_transaction_of_one_epoch(site: Site) -> None:
    await site.init()
    await site.add(P0)
    for stale in ((1000, 1), (1001, 0)):
        assert await site.coordinator.abort(ID, *stale) == Change()
    assert site.outcome(0, 1) is Outcome.OPEN
    await site.coordinator.abort(ID, 1000, 0)
    assert site.outcome(0, 1) is Outcome.ABORTED
    assert (await site.end()).error is ErrorCode.PRODUCER_FENCED
    revision = site.record.revision
    await site.coordinator.abort(ID, 1000, 0)
    await site.coordinator.abort(ID, 1000, 1)
    assert await site.coordinator.abort("another", 1000, 0) == Change()
    assert (site.record.revision, site.metrics.aborts.value) == (revision, 1)


async def test_a_clock_that_is_set_back_delays_no_time_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.init(timeout_ms=1000)
    await site.add(P0)
    site.now -= 3600
    await site.coordinator.look()
    assert site.outcome(0, 1) is Outcome.OPEN
    later = loop_time() + 1.5
    monkeypatch.setattr("bridge.transactions.coordinator.loop_time", lambda: later)
    await site.coordinator.look()
    assert site.outcome(0, 1) is Outcome.ABORTED


async def test_a_time_out_that_fails_is_tried_again(site: Site) -> None:
    await site.init()
    await site.add(P0)
    site.now += 60
    site.log.is_prompt = False
    look = await site.begun(site.coordinator.look())
    site.log.never()
    await settle()
    assert look.done()
    assert look.exception() is None
    site.log.is_prompt = True
    await site.coordinator.look()
    assert site.outcome(0, 1) is Outcome.ABORTED


async def test_ids_that_nobody_uses_are_forgotten_but_not_open_ones(site: Site) -> None:
    await site.init()
    await site.add(P0)
    await site.end(committed=False)
    await site.coordinator.init_producer_id("open", -1, -1, 900_000, None)
    site.now += 604_800
    await site.coordinator.add_partitions("open", 1001, 0, [P0], {}, protocol=1, connection=None)
    await site.coordinator.look()
    assert site.table.record(site.slot, ID) is None
    assert site.metrics.expired_ids.value == 1
    assert site.table.count() == 1
    assert site.outcome(0, 1) is Outcome.ABORTED  # of an id that is forgotten
    assert (await site.end()).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (await site.init(1000, 0))[3:] == (1002, 0)


async def test_all_that_is_coordinated_here_is_listed_when_it_is_confirmed(site: Site) -> None:
    await site.init()
    await site.coordinator.init_producer_id("u", -1, -1, 1000, None)
    assert {name for name, _ in await site.coordinator.all()} == {ID, "u"}
    assert site.log.confirms == 2
    site.log.lose(site.slot)
    with pytest.raises(KafkaError):
        await site.coordinator.all()
