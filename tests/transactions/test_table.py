import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.visibility import Identity, Outcome, Transaction
from bridge.transactions import table as table_module
from bridge.transactions.records import aborted_key, encode, encode_aborted, id_key
from bridge.transactions.slot_table import SlotCopy
from bridge.transactions.state import Status, TransactionRecord
from bridge.transactions.table import Table
from tests.support.waiting import until

TOPIC_ID = "ab" * 16


def record(
    status: Status = Status.OPEN, epoch: int = 0, n: int = 1, revision: int = 1, topic_id: str = TOPIC_ID
) -> TransactionRecord:
    partitions = {("topic", topic_id): ((0, 3),)} if status is Status.OPEN else {}
    firsts = {(topic_id, 1): 17} if status is Status.OPEN else {}
    return TransactionRecord(
        revision, 1000, epoch, n, status, 1, 60_000, 5_000, 5_000, None, partitions, firsts, frozenset()
    )


def transaction(n: int = 1, epoch: int = 0, slot: int = 0, producer_id: int = 1000) -> Transaction:
    return Transaction(slot, Identity(producer_id, epoch, n))


def copy(*records: TransactionRecord) -> SlotCopy:
    made = SlotCopy()
    for one in records:
        made.apply(id_key("t"), encode(one))
    return made


@dataclass
class Site:
    """A table, and the questions that it asks."""

    asked: Counter[int] = field(default_factory=Counter)
    answers: "asyncio.Queue[Callable[[], None] | None]" = field(default_factory=asyncio.Queue)
    table: Table = field(init=False)
    decided: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = Table(self.confirm, self.confirm_all)

    async def confirm(self, slot: int) -> None:
        self.asked[slot] += 1
        answer = await self.answers.get()
        if answer is not None:
            answer()

    async def confirm_all(self) -> None:
        await self.confirm(-1)

    def follow(self, one: TransactionRecord, slot: int = 0, key: str = "t") -> None:
        """A follower gets an entry."""
        made = self.table._slot(slot).copy
        assert made is not None
        made.apply(id_key(key), encode(one))
        self.table.touch(slot)

    def watch(self, one: Transaction, name: str = "x") -> None:
        self.table.watch(one, lambda: self.decided.append(name))

    async def answer(self, then: Callable[[], None] | None = None) -> None:
        self.answers.put_nowait(then)
        await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    await made.table.close()


# ---- how a transaction stands ----------------------------------------------------------------------------------------


async def test_what_is_not_loaded_is_open(site: Site) -> None:
    assert site.table.outcome(transaction()) is Outcome.OPEN
    assert not site.table.open_in(TOPIC_ID, 0)
    site.table.show(0, copy(record(Status.COMMITTED)))
    assert site.table.outcome(transaction()) is Outcome.COMMITTED


async def test_no_slot_has_such_a_number(site: Site) -> None:
    assert site.table.outcome(transaction(slot=-1)) is Outcome.COMMITTED
    assert site.table.outcome(transaction(slot=1024)) is Outcome.COMMITTED


async def test_what_has_no_record_is_committed_once_a_confirm_has_found_none(site: Site) -> None:
    site.table.show(0, copy())
    site.watch(transaction())
    await settle()
    assert site.asked == {0: 1}
    assert site.table.outcome(transaction()) is Outcome.OPEN
    await site.answer()
    assert site.decided == ["x"]
    assert site.table.outcome(transaction()) is Outcome.COMMITTED
    assert site.table.outcome(transaction(2)) is Outcome.OPEN  # nobody has met this one


async def test_what_the_confirm_finds_counts(site: Site) -> None:
    site.table.show(0, copy())
    site.watch(transaction())
    await settle()
    await site.answer(lambda: site.follow(record()))
    assert not site.decided
    assert site.table.outcome(transaction()) is Outcome.OPEN
    site.follow(record(Status.ABORTED, revision=2))
    await settle()
    assert site.decided == ["x"]
    assert site.table.outcome(transaction()) is Outcome.ABORTED


async def test_a_confirm_that_began_before_the_entry_was_met_says_nothing_of_it(site: Site) -> None:
    site.table.show(0, copy())
    site.watch(transaction(1), "one")
    await settle()
    site.watch(transaction(2), "other")
    await site.answer()
    assert site.decided == ["one"]
    assert site.table.outcome(transaction(2)) is Outcome.OPEN
    assert site.asked == {0: 2}
    await site.answer()
    assert site.decided == ["one", "other"]


async def test_nothing_counts_as_committed_before_there_is_an_answer(site: Site) -> None:
    def fails() -> None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    site.watch(transaction())
    await settle()
    await site.answer(fails)
    assert site.table.outcome(transaction()) is Outcome.OPEN
    assert not site.decided


async def test_what_was_confirmed_as_absent_is_remembered_in_bounds(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.transactions.slot_table._MAX_ABSENT", 2)
    site.table.show(0, copy())
    for n in (1, 2, 3):
        site.watch(transaction(n))
    await settle()
    await site.answer()
    await site.answer()
    assert len(site.decided) == 3
    outcomes = [site.table.outcome(transaction(n)) for n in (1, 2, 3)]
    assert outcomes.count(Outcome.COMMITTED) == 2


# ---- who waits -------------------------------------------------------------------------------------------------------


async def test_who_waits_is_called_soon_and_never_at_once(site: Site) -> None:
    site.table.show(0, copy(record(Status.COMMITTED)))
    site.watch(transaction())
    assert not site.decided
    await settle()
    assert site.decided == ["x"]
    assert not site.asked


async def test_what_is_known_as_open_is_not_asked_for_at_once(site: Site) -> None:
    site.table.show(0, copy(record()))
    site.watch(transaction())
    await settle()
    assert not site.asked
    site.watch(transaction(2))  # above its record: this view is old
    await settle()
    assert site.asked == {0: 1}


async def test_who_waits_sees_an_entry_as_a_whole(site: Site) -> None:
    site.table.show(0, copy(record()))
    seen: list[Outcome] = []
    site.table.watch(transaction(), lambda: seen.append(site.table.outcome(transaction())))
    entry = [(id_key("t"), encode(record(Status.EMPTY, 1, 0, 2))), (aborted_key(Identity(1000, 0, 1)), b"")]
    entry[1] = (entry[1][0], encode_aborted(1, record()))
    made = site.table._slot(0).copy
    assert made is not None
    for key, value in entry:  # in whichever order
        made.apply(key, value)
        site.table.touch(0)
    await settle()
    assert seen == [Outcome.ABORTED]


async def test_one_that_fails_takes_nothing_from_the_others(site: Site) -> None:
    def fails() -> None:
        raise RuntimeError

    site.table.show(0, copy(record()))
    site.table.watch(transaction(), fails)
    site.watch(transaction())
    site.follow(record(Status.COMMITTED, revision=2))
    await settle()
    assert site.decided == ["x"]


async def test_what_stays_open_is_asked_for_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_HEAL_SECONDS", 0.01)
    site.table.show(0, copy(record()))
    site.table.show(1, copy(record()))
    site.watch(transaction())
    await until(lambda: bool(site.asked))
    assert site.asked == {0: 1}
    await site.answer(lambda: site.follow(record(Status.COMMITTED, revision=2)))
    assert site.decided == ["x"]


# ---- copies ----------------------------------------------------------------------------------------------------------


async def test_a_slot_that_is_lost_stays_as_it_was_until_a_follower_has_a_copy(site: Site) -> None:
    events: list[str] = []
    site.table.on_owned.append(lambda slot: events.append(f"owned {slot}"))
    site.table.on_lost.append(lambda slot: events.append(f"lost {slot}"))
    site.table.show(0, copy(record()))
    site.table.reset(0)  # taken
    assert site.table.outcome(transaction(0)) is Outcome.COMMITTED  # below the record that is known
    site.table.apply(0, id_key("t"), encode(record(n=2, revision=4)), replaying=True)
    assert site.table.record(0, "t") == record()
    site.table.owned(0)
    assert site.table.record(0, "t") == record(n=2, revision=4)
    assert site.table.aborted_records(0) is not None
    site.table.apply(0, id_key("t"), encode(record(Status.COMMITTED, n=2, revision=5)), replaying=False)
    site.table.reset(0)  # lost
    site.table.lost(0)
    assert events == ["owned 0", "lost 0"]
    assert site.table.outcome(transaction(2)) is Outcome.COMMITTED
    assert site.table.owned_slots() == []
    site.table.show(0, copy(record(n=3, revision=6)))
    assert site.table.outcome(transaction(3)) is Outcome.OPEN
    assert site.table.aborted_records(0) is None


async def test_who_waits_is_told_at_a_swap(site: Site) -> None:
    site.table.show(0, copy(record()))
    site.watch(transaction())
    site.table.reset(0)
    site.table.apply(0, id_key("t"), encode(record(Status.COMMITTED, revision=2)), replaying=True)
    await settle()
    assert not site.decided
    site.table.owned(0)
    await settle()
    assert site.decided == ["x"]


async def test_what_a_slot_holds_is_counted_for_its_compaction(site: Site) -> None:
    site.table.reset(0)
    site.table.apply(0, id_key("t"), encode(record()), replaying=True)
    assert site.table.live_records(0) == 1
    site.table.owned(0)
    assert site.table.live_records(0) == 1
    assert site.table.live_records(5) == 0


# ---- open transactions of a partition --------------------------------------------------------------------------------


async def test_open_transactions_are_found_by_the_partitions_that_they_name(site: Site) -> None:
    other = "cd" * 16
    site.table.show(0, copy(record()))
    site.table.show(1, copy(record(topic_id=other)))
    assert [tuple(one) for one in site.table.open_in(TOPIC_ID, 1)] == [(transaction(), 17, 5_000)]
    assert [tuple(one) for one in site.table.open_in(TOPIC_ID, 3)] == [(transaction(), None, 5_000)]
    assert not site.table.open_in(TOPIC_ID, 4)
    assert [one.transaction.slot for one in site.table.open_in(other, 0)] == [1]
    site.follow(record(Status.COMMITTED, revision=2))
    assert not site.table.open_in(TOPIC_ID, 1)
    site.follow(record(n=2, revision=3))
    assert [one.transaction for one in site.table.open_in(TOPIC_ID, 1)] == [transaction(2)]
    site.follow(record(n=2, revision=4, topic_id=other))
    assert not site.table.open_in(TOPIC_ID, 1)
    assert len(site.table.open_in(other, 1)) == 2


async def test_a_producer_that_has_an_open_transaction_is_known(site: Site) -> None:
    assert not site.table.has_open(1000, 0, TOPIC_ID, 1)
    site.table.show(1, copy(record()))
    assert site.table.has_open(1000, record().epoch, TOPIC_ID, 1)
    assert site.table.has_open(1000, record().epoch + 1, TOPIC_ID, 1)
    assert not site.table.has_open(1000, record().epoch - 1, TOPIC_ID, 1)
    assert not site.table.has_open(1000, record().epoch, TOPIC_ID, 9)
    assert not site.table.has_open(1001, record().epoch, TOPIC_ID, 1)
    site.follow(record(Status.COMMITTED, revision=2), slot=1)
    assert not site.table.has_open(1000, record().epoch, TOPIC_ID, 1)
