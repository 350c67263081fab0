"""Readers of committed records: they get all of committed transactions, in order, and nothing of any other.

The log is a real Pulsar's; what is decided, and when, is the test's.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from bridge import codec
from bridge.codec import CONTROL, TRANSACTIONAL
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.runtime.futures import FutureWaiter
from bridge.security.left_out import LeftOut, Run, decode, encode, merged
from bridge.storage import entries
from bridge.storage.append.preparation import PreparedEntry
from bridge.storage.partition import PartitionLog
from bridge.storage.read import stable_offset
from bridge.storage.read.log_end import LogEnd
from bridge.storage.read.stable_offset import StableOffset
from bridge.storage.visibility import OpenTransaction, Outcome, Transaction
from tests.storage.conftest import Bench, prepared
from tests.storage.outcomes import KnownOutcomes, transaction

_MIB = 1 << 20


def part(whose: Transaction | None, sequence: int, count: int = 2) -> PreparedEntry:
    """A batch of a transaction's producer, or of nobody's."""
    if whose is None:
        return prepared(count)
    return prepared(count, producer=(whose.identity.producer_id, whose.identity.epoch, sequence), transaction=whose)


def offsets(batches: Sequence[bytes]) -> list[int]:
    """Those of the records that a client hands to its application."""
    found = []
    for data in batches:
        for one in entries.split(memoryview(data)):
            header = codec.read_header(one)
            if header.attributes & CONTROL:
                assert header.attributes & TRANSACTIONAL
                assert header.record_count == 1
                (control,) = codec.read_records(one, bytes(one[codec.HEADER_SIZE :]))
                assert control.key == bytes((0, 0, 0, 1))  # version 0, a commit
                assert control.offset == header.base_offset + header.last_offset_delta
            else:
                found += [record.offset for record in entries.records_of(bytes(one))]
    return found


def position_after(batches: Sequence[bytes]) -> int:
    """Where a client goes on."""
    return entries.summary(batches[-1])[1]


async def read_on(log: PartitionLog, offset: int, max_bytes: int) -> tuple[list[int], int]:
    """All that a consumer of committed records gets until it has to wait, and its position then."""
    found: list[int] = []
    while True:
        batches = await log.read(offset, max_bytes, 10, committed=True)
        at_once = log.read_nowait(offset, max_bytes, committed=True)
        assert at_once is None or offsets(at_once) == offsets(batches)
        if not batches:
            return found, offset
        found += [one for one in offsets(batches) if one >= offset]
        assert position_after(batches) > offset
        offset = position_after(batches)


def expected(log: Sequence[tuple[Transaction | None, int]], outcomes: KnownOutcomes) -> tuple[list[int], int]:
    """The same by the rules alone, of entries in their order with their records' count."""
    found: list[int] = []
    at = 0
    for whose, count in log:
        outcome = Outcome.COMMITTED if whose is None else outcomes.outcome(whose)
        if outcome is Outcome.OPEN:
            break
        if outcome is Outcome.COMMITTED:
            found += range(at, at + count)
        at += count
    return found, at


@pytest.mark.parametrize("seed", range(6))
async def test_they_get_what_is_committed_wherever_it_is_read_from(bench: Bench, seed: int) -> None:
    """From memory, by the tail, by readers of their own; whatever is decided first, and however little is asked for."""
    chance = random.Random(seed)
    outcomes, topic = KnownOutcomes(), await bench.topic()
    everyone = [transaction(number) for number in range(5)]
    written = [(chance.choice([None, *everyone]), chance.randint(1, 4)) for _ in range(60)]
    writer = bench.log(topic, outcomes=outcomes)
    sequences = dict.fromkeys(everyone, 0)
    for whose, count in written:
        await bench.append(writer, part(whose, 0 if whose is None else sequences[whose], count))
        if whose is not None:
            sequences[whose] += count
    readers = [writer, bench.log(topic, 1 << 20, outcomes), bench.log(topic, 0, outcomes)]
    undecided = chance.sample(everyone, len(everyone))
    while True:
        wanted, end = expected(written, outcomes)
        for log in readers:
            start = chance.choice([0, end // 2])
            found, position = await read_on(log, start, chance.choice([1, 300, _MIB]))
            assert found == [one for one in wanted if one >= start]
            assert position == end
            assert log.last_stable == await log.latest(committed=True) == end
            assert await log.latest() == sum(count for _, count in written)
        if not undecided:
            break
        outcomes.decide(undecided.pop(), chance.choice([Outcome.COMMITTED, Outcome.ABORTED]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(4))
async def test_what_another_gateway_has_aborted_is_left_out_by_its_offsets(bench: Bench, seed: int) -> None:
    """Beside the bridge's own transactions, and from the moment on at which it is known."""
    chance = random.Random(seed)
    outcomes, topic, one = KnownOutcomes(), await bench.topic(), transaction(1)
    written = [(chance.choice([None, None, None, one]), chance.randint(1, 4)) for _ in range(40)]
    outcomes.decide(one, Outcome.COMMITTED)
    writer, sequence, runs, at = bench.log(topic), 0, [], 0
    for whose, count in written:
        await bench.append(writer, part(whose, sequence, count))
        sequence += count if whose is not None else 0
        if whose is None and chance.random() < 0.6:
            runs.append(Run(at, at + count))
        at += count
    asked: list[tuple[str, int]] = []
    known: list[LeftOut] = []

    def left_out(topic_id: str, partition: int) -> LeftOut | None:
        asked.append((topic_id, partition))
        return known[0] if known else None

    readers = []
    for cache_bytes in (1 << 20, 0):
        storage = replace(bench.storage(cache_bytes, outcomes), left_out=left_out)
        readers.append(PartitionLog(topic, storage, lambda: None, topic_id=b"\x01" * 16, index=3))
        bench.stack.push_async_callback(readers[-1].close)
    aborted = {offset for run in runs for offset in range(*run)}
    for wanted in ([*range(at)], [offset for offset in range(at) if offset not in aborted]):
        for log in readers:
            start = chance.choice([0, at // 2])
            found, position = await read_on(log, start, chance.choice([1, 300, _MIB]))
            assert found == [offset for offset in wanted if offset >= start]
            assert position == at == await log.latest(committed=True)
        bounds = decode(encode(merged(runs)))
        assert bounds is not None
        known = [LeftOut({0: bounds})]
    assert set(asked) == {("01" * 16, 3)}


async def test_a_reader_that_waits_at_an_open_transaction_is_woken_when_it_is_decided(bench: Bench) -> None:
    outcomes, one, other = KnownOutcomes(), transaction(1), transaction(2)
    log = bench.log(await bench.topic(), outcomes=outcomes)
    await log.latest()
    await bench.append(log, part(one, 0))
    await bench.append(log, part(other, 0))
    assert await log.read(0, _MIB, 10, committed=True) == []
    for decided, end in ((one, 2), (other, 4)):
        woken = FutureWaiter()
        log.end.add_waiter(woken)
        outcomes.decide(decided, Outcome.COMMITTED)
        async with asyncio.timeout(5):
            await woken.future
        assert offsets(log.read_nowait(0, _MIB, committed=True) or []) == list(range(end))
        assert log.last_stable == end


async def test_a_control_batch_stands_only_where_nothing_visible_follows(bench: Bench) -> None:
    outcomes, aborted, open_one = KnownOutcomes(), transaction(1), transaction(2)
    outcomes.decide(aborted, Outcome.ABORTED)
    log = bench.log(await bench.topic(), outcomes=outcomes)
    await log.latest()
    for whose, sequence in ((None, 0), (aborted, 0), (None, 0), (aborted, 2), (aborted, 4), (open_one, 0)):
        await bench.append(log, part(whose, sequence))
    batches = await log.read(0, _MIB, 10, committed=True)
    headers = [codec.read_header(data) for data in batches]
    assert [(one.base_offset, one.last_offset_delta, one.attributes) for one in headers] == [
        (0, 1, 0),
        (4, 1, 0),
        (6, 3, TRANSACTIONAL | CONTROL),
    ]
    assert (headers[-1].producer_id, headers[-1].producer_epoch) == aborted.identity[:2]
    # who reads what is not committed gets every batch as it is
    plain = [codec.read_header(data) for data in await log.read(0, _MIB, 10)]
    assert [one.attributes for one in plain] == [0, TRANSACTIONAL, 0, TRANSACTIONAL, TRANSACTIONAL, TRANSACTIONAL]


async def test_an_open_transaction_holds_the_stable_offset_before_it_is_met(bench: Bench) -> None:
    """Of a transaction that names the partition it may be known where its records begin at the earliest; else its
    time tells it."""
    outcomes, topic = KnownOutcomes(), await bench.topic()
    writer = bench.log(topic, outcomes=outcomes)
    await bench.append(writer, part(None, 0, 3))
    await bench.append(writer, part(None, 0, 3))
    log = bench.log(topic, outcomes=outcomes)
    assert await log.latest(committed=True) == 6
    assert outcomes.confirmed == 1
    outcomes.named = [OpenTransaction(transaction(1), 1, 0)]
    assert await log.latest(committed=True) == 1
    outcomes.named = [OpenTransaction(transaction(2), None, 1)]
    assert await log.latest(committed=True) == 0
    log.raise_start(2)
    assert await log.latest(committed=True) == 2  # never below the start of the log
    outcomes.named = [OpenTransaction(transaction(3), None, 1 << 50)]
    assert await log.latest(committed=True) == 6
    outcomes.named = [OpenTransaction(transaction(4), 2, 0), OpenTransaction(transaction(2), None, 1)]
    outcomes.decide(transaction(2), Outcome.COMMITTED)
    assert await log.latest(committed=True) == 2
    outcomes.decide(transaction(4), Outcome.ABORTED)
    assert await log.latest(committed=True) == 6


async def test_a_transaction_that_began_before_it_is_followed_holds_the_stable_offset_where_it_may_have_begun(
    bench: Bench,
) -> None:
    """A node that took the partition over meets its later entries, and not its first."""
    outcomes, topic, whose = KnownOutcomes(), await bench.topic(), transaction(1)
    writer = bench.log(topic, outcomes=outcomes)
    for sequence in (0, 2):
        await bench.append(writer, part(whose, sequence))
    for first in (0, None):
        outcomes.named = [OpenTransaction(whose, first, 1)]
        log = bench.log(topic, outcomes=outcomes)
        await log.read(await log.latest(), 1, 0)  # opens the tail, at the end
        await bench.append(writer, part(whose, 4 if first == 0 else 6))
        assert await log.latest(committed=True) == log.last_stable == 0
        ((found, at, written_ms),) = await log.open_transactions()
        assert (found, at) == (whose, 0)
        assert written_ms > 0


async def test_what_others_write_before_its_first_entry_is_stable(bench: Bench) -> None:
    outcomes, whose, silent = KnownOutcomes(), transaction(1), transaction(2)
    log = bench.log(await bench.topic(), outcomes=outcomes)
    await log.read(0, 1, 0)  # opens the tail
    outcomes.named = [OpenTransaction(whose, 0, 0), OpenTransaction(silent, 6, 0)]
    assert await log.open_transactions() == []
    await bench.append(log, part(None, 0))
    await bench.append(log, part(whose, 0))
    await bench.append(log, part(whose, 2))
    assert await log.latest(committed=True) == log.last_stable == 2
    assert [one[:2] for one in await log.open_transactions()] == [(whose, 2)]
    outcomes.decide(whose, Outcome.COMMITTED)
    assert await log.open_transactions() == []


async def test_without_transactions_nothing_is_asked(bench: Bench) -> None:
    outcomes = KnownOutcomes()
    log = bench.log(await bench.topic(), outcomes=outcomes)
    await bench.append(log, part(None, 0))
    assert offsets(await log.read(0, _MIB, 10, committed=True)) == [0, 1]
    assert log.read_nowait(0, _MIB, committed=True) == log.read_nowait(0, _MIB)
    assert not outcomes.confirmed


async def test_what_was_stored_before_the_tail_was_opened_holds_the_stable_offset(bench: Bench) -> None:
    """The tail begins at the last entry, and has met that one alone."""
    outcomes, topic, one = KnownOutcomes(), await bench.topic(), transaction(1)
    writer = bench.log(topic, outcomes=outcomes)
    await bench.append(writer, part(None, 0))
    await bench.append(writer, part(one, 0))
    await bench.append(writer, part(one, 2))
    log = bench.log(topic, outcomes=outcomes)
    assert await log.read(6, _MIB, 10, committed=True) == []  # opens it
    outcomes.named = [OpenTransaction(one, 2, 0)]
    assert log.last_stable == await log.latest(committed=True) == 2
    other = transaction(2)
    outcomes.named.append(OpenTransaction(other, 6, 0))
    await bench.append(log, part(None, 0))
    outcomes.decide(one, Outcome.COMMITTED)
    # the other one has written nothing yet: all from its first place on has been met
    assert log.last_stable == await log.latest(committed=True) == 8
    await bench.append(log, part(other, 0))
    assert log.last_stable == await log.latest(committed=True) == 8


async def test_a_transaction_that_a_stranger_names_stops_nobody(bench: Bench) -> None:
    """He may name one that is open, or never was: his entry is as plain as any other of his."""
    outcomes, topic = KnownOutcomes(), await bench.topic()
    own, stranger = bench.log(topic, outcomes=outcomes), bench.log(topic)
    stranger._appender._signer.sign = lambda metadata, producer: None  # type: ignore[method-assign]
    await bench.append(stranger, part(transaction(9), 0))
    await bench.append(own, part(None, 0))
    assert offsets(await own.read(0, _MIB, 10, committed=True)) == [0, 1, 2, 3]
    assert await own.latest(committed=True) == 4


async def test_where_outcomes_cannot_be_asked_for_readers_are_told_to_ask_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a code that clients expect of a partition's leader; what passes soon is waited for."""

    class Unknown(KnownOutcomes):
        async def confirm(self) -> None:
            await super().confirm()
            if self.confirmed != 2:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    log = bench.log(await bench.topic(), outcomes=Unknown())
    assert await log.latest(committed=True) == 0
    monkeypatch.setattr(stable_offset, "_CONFIRM_SECONDS", 0.2)
    with pytest.raises(KafkaError) as raised:
        await log.latest(committed=True)
    assert raised.value.code == ErrorCode.OFFSET_NOT_AVAILABLE


async def test_how_long_it_is_held_at_one_place_is_known_by_looking() -> None:
    outcomes, end = KnownOutcomes(), LogEnd()
    stable = StableOffset(outcomes, end, lambda: 0, lambda: None, cast(Any, None), "ab" * 16, 0)
    one, other = transaction(1), transaction(2)
    end.advance(10)
    assert stable.held_for(100.0) == 0
    outcomes.named = [OpenTransaction(one, 4, 0), OpenTransaction(other, 7, 0)]
    assert stable.held_for(110.0) == 0
    assert stable.held_for(120.0) == 10
    end.advance(20)
    assert stable.held_for(130.0) == 20
    outcomes.decide(one, Outcome.COMMITTED)
    assert stable.held_for(140.0) == 0  # by another, since some moment after the last look
    assert stable.held_for(150.0) == 10
    outcomes.decide(other, Outcome.ABORTED)
    assert stable.held_for(160.0) == 0
    outcomes.named = [OpenTransaction(transaction(3), 20, 0)]  # it has written nothing
    assert stable.held_for(170.0) == stable.held_for(180.0) == 0
