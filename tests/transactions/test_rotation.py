"""A commit in the last epoch: the record has a new producer id behind it, and nothing has the old one any more."""

import asyncio
from dataclasses import replace

from bridge.storage.visibility import Identity, Outcome, Transaction
from bridge.transactions.records import encode, id_key
from bridge.transactions.slot_table import SlotCopy
from bridge.transactions.state import LAST_EPOCH, Status, TransactionRecord, end
from bridge.transactions.table import Table

OPEN = TransactionRecord(
    1, 1000, LAST_EPOCH, 0, Status.OPEN, 2, 60_000, 1, 1, None, {("topic", "ab" * 16): ((0, 0),)}, {}, frozenset("g")
)
COMMITTED = Transaction(0, OPEN.identity)


class Site:
    def __init__(self) -> None:
        self.asked = 0
        self.table = Table(self.confirm, lambda: self.confirm(-1))
        copy = SlotCopy()
        copy.apply(id_key("t"), encode(OPEN))
        self.table.show(0, copy)
        self.decided: list[str] = []

    async def confirm(self, _: int) -> None:
        self.asked += 1
        await asyncio.sleep(0)

    def commit(self) -> None:
        """The follower gets the decision, as EndTxn's answer leaves."""
        change = end(OPEN, 1000, LAST_EPOCH, True, 2, 2000, 5)
        assert not isinstance(change, type(None))
        record = change.record  # type: ignore[union-attr]
        assert record is not None
        assert record.producer_id == 2000
        copy = self.table._slot(0).copy
        assert copy is not None
        copy.apply(id_key("t"), encode(record))
        self.table.touch(0)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_who_waits_is_told_as_soon_as_the_decision_is_read() -> None:
    """Not a second or two later."""
    site = Site()
    site.table.watch(COMMITTED, lambda: site.decided.append("x"))
    site.commit()
    await settle()
    assert site.decided == ["x"]
    assert site.table.outcome(COMMITTED) is Outcome.COMMITTED
    await site.table.close()


async def test_a_confirm_shows_it() -> None:
    """What ListOffsets and OffsetFetch do before they answer: promise 7, at once on every node."""
    site = Site()
    site.table.watch(COMMITTED, lambda: None)  # as whoever has an entry or an offset of it
    site.commit()
    await site.table.confirm()
    assert site.table.outcome(COMMITTED) is Outcome.COMMITTED
    await site.table.close()


async def test_it_is_not_shown_while_it_is_open() -> None:
    site = Site()
    site.table.watch(COMMITTED, lambda: site.decided.append("x"))
    await site.table.confirm()
    await settle()
    assert site.table.outcome(COMMITTED) is Outcome.OPEN
    assert not site.decided
    other = Transaction(0, Identity(7, 0, 0))  # of an id that has expired
    site.table.watch(other, lambda: site.decided.append("y"))
    await settle()
    assert site.decided == ["y"]
    assert replace(OPEN).identity == COMMITTED.identity
    await site.table.close()
