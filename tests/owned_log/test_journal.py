"""Writes and the entries they go into: with a producer that answers as the test says, and on a real Pulsar."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge.owned_log import (
    OwnedLogError,
    Record,
    RecordTooLarge,
    SlotNotOwned,
    SlotUnavailable,
    WriteTimedOut,
    journal,
)
from bridge.owned_log.batch import unpack
from bridge.owned_log.dependencies import SlotDependencies
from bridge.owned_log.errors import copy_of
from bridge.owned_log.journal import Journal
from bridge.owned_log.read_back import ReadBack
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import MessageTooLarge, Position, PulsarError, Receipt
from bridge.telemetry.metrics import GroupMetrics
from tests.owned_log.nodes import LogSite, owner

MARKER = Position(7, 3)
REFUSED = PulsarError(pb.NotAllowedError, "refused")
ONE = [Record("k", b"1"), Record("l", b"2")]


class Sends:
    """A producer whose sends have the outcomes that the test gives them."""

    def __init__(self) -> None:
        self.max_message_size = 1 << 20
        self.entries: list[list[Record]] = []
        self._sends: list[Any] = []

    def enqueue(self, metadata: pb.MessageMetadata, payload: bytes, num_messages: int) -> Any:
        self.entries.append(list(unpack(metadata, memoryview(payload))))
        self._sends.append(SimpleNamespace(future=asyncio.get_running_loop().create_future(), maybe_stored=False))
        return self._sends[-1]

    async def succeed(self, at: int, position: Position | None = None) -> None:
        placed = position or Position(MARKER.ledger, MARKER.entry + 1 + at)
        self._sends[at].future.set_result(Receipt(placed, at, at, False))
        await turns()

    async def fail(self, at: int, error: PulsarError, *, maybe_stored: bool) -> None:
        self._sends[at].maybe_stored = maybe_stored
        self._sends[at].future.set_exception(error)
        await turns()


class Bench:
    """A journal, and what it has applied."""

    def __init__(self) -> None:
        self.sends = Sends()
        self.read_back = ReadBack(MARKER)
        self.applied: list[Record] = []
        dependencies = SimpleNamespace(translate=copy_of, metrics=GroupMetrics())
        producer = cast(Producer, self.sends)
        self.journal = Journal(producer, self.read_back, self._stored, cast(SlotDependencies, dependencies))

    def _stored(self, records: Sequence[Record]) -> None:
        self.applied += records


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_is_stored_together_is_one_entry_and_settled_when_it_is_applied() -> None:
    bench = Bench()
    before = bench.journal.write([Record(f"k{number}", b"v") for number in range(999)], together=False)
    stored = bench.journal.write(ONE, together=True)  # it does not fit into the same entry
    await turns()
    assert [len(entry) for entry in bench.sends.entries] == [999, 2]
    await bench.sends.succeed(0)
    assert before.done.done()
    assert before.settled.done()
    assert not stored.settled.done()
    assert len(bench.applied) == 999
    await bench.sends.succeed(1)
    assert stored.done.result() is stored.settled.result() is None
    assert bench.applied[-2:] == ONE
    assert bench.journal.pending_bytes == 0


@pytest.mark.parametrize(
    "records",
    [
        [Record(f"k{number}", b"v") for number in range(1001)],
        [Record("k", bytes(600_000)), Record("l", bytes(600_000))],
        [Record("k", bytes(2_000_000))],
    ],
    ids=["too many", "too large together", "one too large"],
)
async def test_what_does_not_fit_into_one_entry_is_refused_at_once(records: list[Record]) -> None:
    bench = Bench()
    with pytest.raises(RecordTooLarge):
        bench.journal.write(records, together=True)
    await turns()
    assert bench.sends.entries == []
    assert bench.journal.pending_bytes == 0


async def test_nothing_to_store_is_settled_at_once() -> None:
    stored = Bench().journal.write([], together=True)
    assert stored.done.done()
    assert stored.settled.done()


async def test_a_receipt_that_comes_too_late_settles_and_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "WRITE_TIMEOUT", 0.01)
    bench = Bench()
    stored = bench.journal.write(ONE, together=True)
    with pytest.raises(WriteTimedOut):
        await stored.done
    assert not stored.settled.done()
    await bench.sends.succeed(0)
    assert stored.settled.done()
    assert bench.applied == ONE


async def test_what_times_out_before_it_is_sent_is_settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "WRITE_TIMEOUT", 0.01)
    bench = Bench()
    sent = []
    for _ in range(4):  # as many entries as may be on their way
        sent.append(bench.journal.write(ONE, together=True))
        await turns()
    waiting = bench.journal.write(ONE, together=True)
    with pytest.raises(WriteTimedOut):
        await waiting.done
    assert waiting.settled.done()
    assert not any(one.settled.done() for one in sent)
    await bench.sends.succeed(0)
    assert len(bench.sends.entries) == 4
    assert sent[0].settled.done()


async def test_a_write_of_several_entries_is_settled_with_its_last_one() -> None:
    bench = Bench()
    stored = bench.journal.write([Record(f"k{number}", b"v") for number in range(1001)], together=False)
    await turns()
    await bench.sends.fail(0, REFUSED, maybe_stored=False)
    assert isinstance(stored.done.exception(), SlotUnavailable)
    assert not stored.settled.done()
    await bench.sends.succeed(1, MARKER.after)
    assert stored.settled.done()
    assert len(bench.applied) == 1


async def test_a_receipt_settles_nothing_before_it_is_known_to_count() -> None:
    bench = Bench()
    stored = bench.journal.write(ONE, together=True)
    await turns()
    await bench.sends.succeed(0, Position(9, 0))  # another ledger: another holder's marker may lie before it
    assert not stored.settled.done()
    bench.read_back.read(Position(9, 0), 0)
    assert stored.settled.done()
    assert bench.applied == ONE


@pytest.mark.parametrize("error", [MessageTooLarge(2, 1), REFUSED])
async def test_an_entry_that_is_not_stored_is_settled_and_costs_no_slot(error: PulsarError) -> None:
    bench = Bench()
    stored = bench.journal.write(ONE, together=True)
    await turns()
    await bench.sends.fail(0, error, maybe_stored=False)
    assert isinstance(stored.done.exception(), OwnedLogError)
    assert stored.settled.done()
    assert not bench.journal.doubt.done()


async def test_an_entry_that_may_be_stored_is_settled_only_by_giving_the_slot_up() -> None:
    """It was written on a connection that was lost, and refused on the next one."""
    bench = Bench()
    stored = bench.journal.write(ONE, together=True)
    await turns()
    await bench.sends.fail(0, REFUSED, maybe_stored=True)
    assert isinstance(stored.done.exception(), SlotUnavailable)
    assert not stored.settled.done()
    assert isinstance(bench.journal.doubt.result(), SlotUnavailable)
    bench.journal.end(SlotUnavailable("given up"))
    assert stored.settled.done()
    assert bench.applied == []


@pytest.mark.parametrize("receipt", [True, False])
async def test_the_end_of_the_slot_settles_what_is_under_way(receipt: bool) -> None:
    bench = Bench()
    writes = []
    for _ in range(6):
        writes.append(bench.journal.write(ONE, together=True))
        await turns()
    if receipt:
        await bench.sends.succeed(0, Position(9, 0))  # and not known to count
    bench.journal.end(SlotNotOwned("lost"))
    assert all(isinstance(one.done.exception(), SlotNotOwned) and one.settled.done() for one in writes)
    await bench.sends.succeed(1)  # too late: the state is another holding's
    assert bench.applied == []


async def test_one_write_may_take_several_entries(real: LogSite) -> None:
    topic = real.name()
    one = await owner(real, topic)
    records = [Record(f"k{number}", b"%d" % number) for number in range(2500)]
    await one.log.write(0, records)
    assert one.state.values[0] == dict(records)
    assert one.metrics.entries_written.value == 3
    await one.log.close()
    assert (await owner(real, topic)).state.values[0] == dict(records)
