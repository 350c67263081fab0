"""Consumers that are behind: who asks for the same at the same time shares one reader, and what it has read."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from bridge.errors import CorruptEntry
from bridge.pulsar.consumer import Reader
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import ClientClosed, Entry, OperationTimeout, Position
from bridge.runtime.threads import WorkerThreads
from bridge.storage import entries
from bridge.storage.read.batches import Batch, BatchMaker
from bridge.storage.read.catch_up import CatchUpReader, CatchUpReaders
from bridge.storage.read.log_reader import LogReader
from bridge.telemetry.metrics import Metrics
from tests.storage.conftest import Bench, prepared
from tests.support.waiting import until


class Scripted:
    """A reader of Pulsar's whose entries come when the test says so."""

    def __init__(self) -> None:
        self.entries: asyncio.Queue[Entry | CorruptEntry] = asyncio.Queue()
        self.is_closed = False

    def bring(self, *offsets: int) -> None:
        """These entries have come, of one record each."""
        for offset in offsets:
            metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
            self.entries.put_nowait(Entry(Position(1, offset), offset, None, metadata, memoryview(b"v"), 100))

    async def receive(self) -> Entry:
        return self._taken(await self.entries.get())

    def receive_nowait(self) -> Entry | None:
        return None if self.entries.empty() else self._taken(self.entries.get_nowait())

    def _taken(self, entry: Entry | CorruptEntry) -> Entry:
        if isinstance(entry, CorruptEntry):
            raise entry
        return entry

    async def close(self) -> None:
        self.is_closed = True


class Opener:
    """Opens readers, each when the test lets it."""

    def __init__(self) -> None:
        self.readers = CatchUpReaders(4, 30, Metrics().storage)
        self.may_open = asyncio.Event()
        self.may_look = asyncio.Event()
        self.looked: list[Position] = []
        """Last chunks of which those before were looked for."""
        self.before: list[Entry] = []
        self.error: Exception | None = None
        self.opened: list[Scripted] = []
        self.asked = 0

    async def make(self) -> CatchUpReader:
        self.asked += 1
        await self.may_open.wait()
        if self.error is not None:
            raise self.error
        self.opened.append(Scripted())
        reader, maker = cast(Reader, self.opened[-1]), BatchMaker(1 << 20)
        return CatchUpReader(reader, 0, maker, lambda batch: batch, WorkerThreads(1), self.earlier)

    async def earlier(self, last: Entry) -> list[Entry]:
        await self.may_look.wait()
        self.looked.append(last.position)
        return self.before

    def read(self, offset: int = 0, max_bytes: int = 1) -> asyncio.Task[list[Batch]]:
        return asyncio.create_task(self.readers.read("p", offset, max_bytes, 10.0, self.make))

    async def begun(self, *offsets: int, max_bytes: int = 1) -> Scripted:
        """A reader that has brought these entries, the first of which was read."""
        self.may_open.set()
        first = self.read(max_bytes=max_bytes)
        await turns()
        self.opened[0].bring(*offsets)
        assert [batch.base for batch in await first][:1] == [0]
        await turns()
        return self.opened[0]


@pytest.fixture
def opener() -> Opener:
    return Opener()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_those_who_ask_while_a_reader_is_opened_wait_for_the_same(opener: Opener) -> None:
    reads = [opener.read() for _ in range(5)]
    await turns()
    opener.may_open.set()
    await turns()
    (reader,) = opener.opened
    reader.bring(0)
    found = await asyncio.gather(*reads)
    assert all(one == found[0] for one in found)
    assert [batch.base for batch in found[0]] == [0]


async def test_where_the_one_that_opens_is_gone_another_opens(opener: Opener) -> None:
    first, second = opener.read(), opener.read()
    await turns()
    first.cancel()
    await turns()
    assert opener.asked == 2
    opener.may_open.set()
    await turns()
    opener.opened[0].bring(0)
    assert [batch.base for batch in await second] == [0]


async def test_all_who_wait_for_a_reader_are_told_why_there_is_none(opener: Opener) -> None:
    reads = [opener.read() for _ in range(3)]
    await turns()
    opener.error = OperationTimeout("too late")
    opener.may_open.set()
    assert [type(one) for one in await asyncio.gather(*reads, return_exceptions=True)] == [OperationTimeout] * 3
    assert opener.asked == 1


async def test_one_that_waits_for_its_turn_and_goes_disturbs_no_other(opener: Opener) -> None:
    opener.may_open.set()
    first, second = opener.read(), opener.read()
    await turns()
    (reader,) = opener.opened
    second.cancel()
    await turns()
    assert not reader.is_closed
    reader.bring(0)
    assert [batch.base for batch in await first] == [0]


async def test_a_read_that_is_cancelled_in_its_midst_closes_its_reader(opener: Opener) -> None:
    opener.may_open.set()
    read = opener.read()
    await turns()
    read.cancel()
    await turns()
    assert opener.opened[0].is_closed


async def test_what_follows_is_received_and_converted_before_it_is_asked_for(opener: Opener) -> None:
    reader = await opener.begun(0, max_bytes=1 << 20)
    reader.bring(1, 2, 3)
    await turns()
    assert reader.entries.empty()
    found = opener.readers.read_nowait("p", 1, 1 << 20)
    assert found is not None
    assert [batch.base for batch in found] == [1, 2, 3]
    assert all(batch.is_converted for batch in found)
    assert opener.readers.read_nowait("p", 4, 1 << 20) is None
    assert opener.readers.read_nowait("another", 1, 1 << 20) is None


async def test_no_more_is_read_ahead_than_the_next_answer_holds(opener: Opener) -> None:
    reader = await opener.begun(*range(20), max_bytes=200)
    ahead = 20 - reader.entries.qsize()
    assert 4 <= ahead <= 5, "as much as an answer holds, beside the answer, and the one that passes the limit"
    for offset in range(18):
        found = await opener.read(offset, 200)
        assert [batch.base for batch in found] == [offset, offset + 1]


async def test_the_same_can_be_asked_for_again(opener: Opener) -> None:
    await opener.begun(0, 1, 2, 3, max_bytes=200)
    for _ in range(3):
        found = opener.readers.read_nowait("p", 0, 200)
        assert found is not None
        assert [batch.base for batch in found] == [0, 1]


async def test_nothing_is_taken_from_a_read_that_waits(opener: Opener) -> None:
    reader = await opener.begun(0)
    waiting = opener.read(1)
    await turns()
    assert opener.readers.read_nowait("p", 1, 1) is None
    reader.bring(1)
    assert [batch.base for batch in await waiting] == [1]


async def test_what_came_before_an_entry_that_cannot_be_read_is_served(opener: Opener) -> None:
    reader = await opener.begun(0, max_bytes=200)
    reader.bring(1)
    reader.entries.put_nowait(CorruptEntry("not an entry", Position(1, 2)))
    await turns()
    assert [batch.base for batch in await opener.read(1, 200)] == [1]
    with pytest.raises(CorruptEntry):
        await opener.read(2, 200)
    assert reader.is_closed


async def test_an_entry_that_cannot_be_converted_is_told_to_who_asks_for_it(opener: Opener) -> None:
    reader = await opener.begun(0, max_bytes=200)
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=9)
    reader.entries.put_nowait(Entry(Position(1, 1), 9, None, metadata, memoryview(b"v"), 100))
    reader.bring(10)
    await turns()
    broken, good = await opener.read(1, 200)
    assert good.is_converted
    with pytest.raises(CorruptEntry):
        broken.kafka()


async def test_who_waits_is_told_that_the_reader_is_closed(opener: Opener) -> None:
    await opener.begun(0)
    waiting = opener.read(1)
    await turns()
    await opener.readers.close()
    with pytest.raises(ClientClosed):
        await waiting


def chunk(number: int, offset: int) -> Entry:
    """One of two chunks of a message."""
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, uuid="u", chunk_id=number, num_chunks_from_msg=2,
        total_chunk_msg_size=2,
    )  # fmt: skip
    return Entry(Position(1, offset), offset, None, metadata, memoryview(b"%d" % number), 100)


async def test_what_is_before_a_reader_is_read_when_a_message_of_it_ends(opener: Opener) -> None:
    reader = await opener.begun(0, max_bytes=1 << 20)
    opener.before = [chunk(0, -1)]
    reader.entries.put_nowait(chunk(1, 1))
    reader.bring(2)
    await turns()
    reading = opener.read(1, 1 << 20)
    await turns()
    assert not reading.done(), "what follows the message came before it"
    opener.may_look.set()
    (first, *_) = await reading
    assert [one.value for one in entries.records_of(first.kafka())] == [b"01"]
    await turns()
    found = await opener.read(1, 1 << 20)
    assert [batch.base for batch in found] == [1, 2]
    assert opener.looked == [Position(1, 1)]


async def test_what_is_read_while_the_next_entry_is_waited_for_stays_before_it(opener: Opener) -> None:
    """The reader waits for an entry, and a read takes the one that has come, which has to wait."""
    reader = await opener.begun(0, max_bytes=1 << 20)
    opener.before = [chunk(0, -1)]
    await turns()  # it waits for the next entry
    reader.entries.put_nowait(chunk(1, 1))
    assert opener.readers.read_nowait("p", 1, 1 << 20) is None, "the last chunk was taken without the first"
    reader.bring(2)
    await turns()
    reader.bring(3)
    opener.may_look.set()
    await turns()
    found = await opener.read(1, 1 << 20)
    assert [batch.base for batch in found] == [1, 2, 3]


async def test_of_readers_that_hold_too_much_together_the_least_recently_used_are_closed(opener: Opener) -> None:
    """As those of consumers of large records, each of which holds one."""
    opener.readers = CatchUpReaders(4, 30, Metrics().storage, most_held=250)
    opener.may_open.set()
    reads = []
    for number in range(4):
        reads.append(asyncio.create_task(opener.readers.read(f"p{number}", 0, 1, 10.0, opener.make)))
        await turns()
        opener.opened[number].bring(0)
        assert [batch.base for batch in await reads[number]] == [0]
        await turns()
    assert [one.is_closed for one in opener.opened] == [True, True, False, False]


async def test_readers_that_meet_hold_what_they_read_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their clients ask from different offsets at the same time: each entry is kept, and converted, once."""
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(5, value=b"x" * 1000) for _ in range(40)])
    log = bench.log(topic, cache_bytes=1 << 20)
    await log.latest()
    kept: list[Batch] = []
    keep = LogReader._keep

    def noted(reader: LogReader, batch: Batch) -> Batch:
        kept.append(keep(reader, batch))
        return kept[-1]

    monkeypatch.setattr(LogReader, "_keep", noted)
    offsets = (0, 5, 10, 15)
    found = await asyncio.gather(*(log.read(offset, 1 << 20, 10) for offset in offsets))
    assert [entries.records_of(data[0])[0].offset for data in found] == list(offsets)
    await until(lambda: len({batch.base for batch in kept}) < len(kept))  # they read ahead, and meet
    assert len(set(map(id, kept))) == len({batch.base for batch in kept})
