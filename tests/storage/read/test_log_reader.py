"""A read of what is not in memory opens what it needs once."""

import asyncio

import pytest

from bridge.pulsar.types import Position
from bridge.storage import entries
from bridge.storage.partition import PartitionLog
from bridge.storage.read import log_reader
from bridge.storage.read.catch_up import CatchUpReader
from bridge.storage.read.log_reader import LogReader
from bridge.storage.read.tail import Tail
from bridge.storage.read.tail_owner import TailOwner
from tests.storage.conftest import Bench, prepared


async def test_a_slow_read_asks_for_the_tail_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(7, value=b"x" * 50) for _ in range(100)])
    log = bench.log(topic, cache_bytes=0)
    await log.latest()
    asked: list[Position | None] = []
    open_tail = TailOwner.open

    async def counted(owner: TailOwner, begin: Position | None = None) -> Tail:
        asked.append(begin)
        return await open_tail(owner, begin)

    monkeypatch.setattr(TailOwner, "open", counted)
    for number, offset in enumerate((0, 7, 350), 1):
        (data, *_) = await log.read(offset, 1, 10)
        assert entries.records_of(data)[0].offset == offset
        assert len(asked) == number


async def test_a_tail_that_has_ended_meanwhile_is_opened_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), prepared(7), prepared(7))
    log = bench.log(topic)
    open_tail = TailOwner.open
    tails: list[Tail] = []

    async def ended(owner: TailOwner, begin: Position | None = None) -> Tail:
        tail = await open_tail(owner, begin)
        if not tails:
            await owner.close()
            owner._closed = False  # it is only the tail that ended
        tails.append(tail)
        return tail

    monkeypatch.setattr(TailOwner, "open", ended)
    (data, *_) = await log.read(0, 1 << 20, 10)
    assert entries.records_of(data)[0].offset == 0
    first, second = tails
    assert not first.is_running
    assert second.is_running


async def test_what_was_read_ahead_is_answered_without_waiting(bench: Bench) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(7, value=b"x" * 50) for _ in range(100)])
    log = bench.log(topic)
    await log.latest()
    (first, *more) = await log.read(0, 3000, 10)
    _, following = entries.summary(([first, *more])[-1])
    async with asyncio.timeout(30):
        while (found := log.read_nowait(following, 3000)) is None:
            await log.read(0, 3000, 10)  # the same again: what follows comes meanwhile
    assert entries.records_of(found[0])[0].offset == following


async def test_a_reader_leaves_off_where_much_follows_in_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "_LONG_RUN_BYTES", 20_000)
    topic = await bench.topic()
    await bench.append(bench.log(topic), *[prepared(7, value=b"x" * 50) for _ in range(100)])
    log = bench.log(topic)
    await log.latest()
    readers, memory = log._storage.catch_up_readers, log._storage.cache.older
    await _read_all(log, 0, 60 * 7, 1 << 20)
    await log._log_reader.close()
    memory.drop_first()
    opened: list[int] = []
    open_reader = LogReader._open_catch_up_reader

    async def noted(reader: LogReader, offset: int) -> CatchUpReader:
        opened.append(offset)
        return await open_reader(reader, offset)

    monkeypatch.setattr(LogReader, "_open_catch_up_reader", noted)
    await _read_all(log, 0, 50 * 7, 1)
    assert opened == [0], "memory had it from the next run on"
    assert not readers.covers(log._log_reader, 50 * 7)


async def _read_all(log: PartitionLog, offset: int, end: int, max_bytes: int) -> None:
    """Every record from one offset to another, in order."""
    while offset < end:
        for data in await log.read(offset, max_bytes, 10):
            for record in entries.records_of(data):
                assert record.offset == offset
                offset += 1
