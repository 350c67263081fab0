"""The tail of a partition gets entries from its reader and from own appends, in any order of the two."""

from __future__ import annotations

import asyncio
from itertools import permutations, product
from typing import cast

import pytest

from bridge.errors import BridgeError
from bridge.pulsar.consumer import Reader
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import EARLIEST, ClientClosed, Entry, Position
from bridge.runtime.futures import FutureWaiter
from bridge.storage import entries
from bridge.storage.read.batches import BatchMaker
from bridge.storage.read.cache import Cache
from bridge.storage.read.log_end import LogEnd
from bridge.storage.read.tail import Tail, TopicRecreated
from bridge.telemetry.metrics import Metrics

RECORDS = 10


def entry(number: int, *, size: int = 100, ledger: int = 1) -> Entry:
    """The entry at (ledger, number), whose records take the offsets from 10 × number on."""
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=RECORDS)
    return Entry(Position(ledger, number), (number + 1) * RECORDS - 1, None, metadata, memoryview(b""), size)


class HandFed:
    """Stands for the reader at a broker: gives what the test puts in."""

    topic = "persistent://public/default/t"

    def __init__(self) -> None:
        self.entries: asyncio.Queue[Entry | BridgeError] = asyncio.Queue()

    async def receive(self) -> Entry:
        got = await self.entries.get()
        if isinstance(got, BridgeError):
            raise got
        return got

    async def close(self) -> None:
        self.entries.put_nowait(ClientClosed("the reader"))


class Partition:
    """A tail with what it needs, fed by hand."""

    def __init__(self, reached: Position = EARLIEST) -> None:
        self.reader = HandFed()
        self.end = LogEnd()
        self.failures: list[BridgeError] = []
        cache = Cache(1 << 30, Metrics().storage)
        reader = cast(Reader, self.reader)
        self.before: list[Entry] = []
        """What is stored before the reader begins."""
        self.tail = Tail(reader, self.end, cache, BatchMaker(1 << 20), self.failures.append, reached, self.earlier)

    async def earlier(self, last: Entry) -> list[Entry]:
        await asyncio.sleep(0)
        return self.before

    async def receive(self, one: Entry) -> None:
        """The reader brings an entry."""
        self.reader.entries.put_nowait(one)
        for _ in range(4):
            await asyncio.sleep(0)

    async def acknowledge(self, one: Entry) -> None:
        """A receipt comes for an entry of our own: as the appender does it."""
        assert one.index is not None
        self.tail.add_appended(one.index + 1 - RECORDS, one)
        self.end.advance(one.index + 1)

    def bases(self, offset: int = 0) -> list[int]:
        return [batch.base for batch in self.tail.slice(offset, 1 << 30) or []]


@pytest.fixture
async def partition() -> Partition:
    made = Partition()
    await asyncio.sleep(0)
    return made


def interleavings(count: int) -> list[tuple[str, ...]]:
    """Every order of receipts and received entries, each kind in its own order."""
    return sorted(set(permutations(("receipt",) * count + ("entry",) * count)))


@pytest.mark.parametrize("order", interleavings(3), ids="-".join)
async def test_each_entry_is_there_once_and_in_order_from_receipt_or_reader(
    partition: Partition, order: tuple[str, ...]
) -> None:
    at = {"receipt": 0, "entry": 0}
    bring = {"receipt": partition.acknowledge, "entry": partition.receive}
    for kind in order:
        await bring[kind](entry(at[kind]))
        at[kind] += 1
        # what is acknowledged can be read at once
        assert partition.bases() == [RECORDS * number for number in range(max(at.values()))]
        assert partition.tail.reached == Position(1, max(at.values()) - 1)
    assert partition.end.offset == 3 * RECORDS
    assert not partition.failures


@pytest.mark.parametrize(("first", "when"), list(product(["receipt", "entry"], range(2))))
async def test_a_waiter_is_woken_when_the_entry_can_be_read(partition: Partition, first: str, when: int) -> None:
    """Behind an entry of another writer that the reader has not brought yet, a receipt alone makes nothing readable."""
    other, own = entry(0), entry(1)
    steps = [partition.acknowledge(own), partition.receive(other)]
    if first == "entry":
        steps.reverse()
    waiter = FutureWaiter()
    for number, step in enumerate(steps):
        if number == when:  # as a Fetch: asked to be told before looking
            partition.end.add_waiter(waiter)
        await step
        if waiter.future.done() and not partition.bases():
            waiter = FutureWaiter()
            partition.end.add_waiter(waiter)
    assert waiter.future.done()
    assert partition.bases() == [0, RECORDS]


async def test_the_lost_wake_up(partition: Partition) -> None:
    """The end moves before the entry is here: a Fetch looks too early, and the entry wakes it though no end moves."""
    first = FutureWaiter()
    partition.end.add_waiter(first)
    partition.end.advance(RECORDS)  # known of by other means than an append of this process
    assert first.future.done()
    assert partition.bases() == []
    second = FutureWaiter()
    partition.end.add_waiter(second)
    await partition.receive(entry(0))
    assert second.future.done()
    assert partition.bases() == [0]


async def test_entries_ahead_of_the_reader_are_bounded_and_come_from_it(partition: Partition) -> None:
    size = 1 << 20
    for number in range(1, 10):  # entry 0 is another writer's
        await partition.acknowledge(entry(number, size=size))
    assert partition.bases() == []
    for number in range(6):
        await partition.receive(entry(number, size=size))
    assert partition.bases() == [RECORDS * number for number in range(6)]
    for number in range(6, 10):
        await partition.receive(entry(number, size=size))
    assert partition.bases() == [RECORDS * number for number in range(10)]


async def test_a_tail_opened_in_the_middle_begins_with_what_its_reader_brings() -> None:
    partition = Partition(reached=Position(1, 4))
    await asyncio.sleep(0)
    await partition.acknowledge(entry(6))
    assert partition.bases(6 * RECORDS) == []
    await partition.receive(entry(5))
    assert partition.bases(6 * RECORDS - 1) == [5 * RECORDS, 6 * RECORDS]
    assert partition.tail.slice(5 * RECORDS, 1 << 30) is None, "its writer says where it begins: that may be a lie"
    assert partition.tail.slice(0, 1 << 30) is None


async def test_offsets_that_go_back_mean_another_topic(partition: Partition) -> None:
    await partition.acknowledge(entry(0))
    await partition.acknowledge(entry(1))
    await partition.receive(entry(0, ledger=7))
    assert [type(error) for error in partition.failures] == [TopicRecreated]
    assert not partition.tail.is_running


def chunk(number: int, total: int, offset: int, entry_id: int) -> Entry:
    """A chunk of one byte."""
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, uuid="u", chunk_id=number, num_chunks_from_msg=total,
        total_chunk_msg_size=total,
    )  # fmt: skip
    return Entry(Position(1, entry_id), offset, None, metadata, memoryview(b"%d" % number), 100)


async def test_a_tail_opened_within_a_message_reads_what_is_before_it() -> None:
    partition = Partition(reached=Position(1, 0))
    await asyncio.sleep(0)
    partition.before = [chunk(0, 3, 0, 0), chunk(1, 3, 1, 1)]
    last = chunk(2, 3, 2, 2)
    partition.tail.add_appended(2, last)  # ahead of the reader
    await partition.receive(chunk(1, 3, 1, 1))
    assert partition.bases(1) == [1], "the last chunk was taken without the first"
    await partition.receive(last)
    assert partition.bases(1) == [1, 2]
    (whole,) = partition.tail.slice(2, 1) or []
    assert [one.value for one in entries.records_of(whole.kafka())] == [b"012"]


async def test_what_is_acknowledged_while_a_tail_looks_back_comes_after_it() -> None:
    partition = Partition(reached=Position(1, 0))
    await asyncio.sleep(0)
    partition.before = [chunk(0, 2, 0, 0)]
    last, following = chunk(1, 2, RECORDS - 1, 1), entry(1)
    following.position = Position(1, 2)
    partition.reader.entries.put_nowait(last)
    await asyncio.sleep(0)  # it looks back now
    await partition.acknowledge(following)
    assert partition.bases(RECORDS - 1) == []
    await partition.receive(following)
    assert partition.bases(RECORDS - 1) == [RECORDS - 1, RECORDS]
    assert not partition.failures
