"""Markers, which no reader gets, have offsets and end no wait; on a real Pulsar."""

import asyncio

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.admin.admin import Admin, InternalStats
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.storage import entries
from bridge.storage.partition import PartitionLog
from tests.storage.conftest import Bench, prepared


async def mark(bench: Bench, topic: str, count: int = 1) -> None:
    """What KoP wrote where a transaction ends."""
    writer = bench.client.producer(topic)
    for _ in range(count):
        await writer.send(pb.MessageMetadata(num_messages_in_batch=1, marker_type=21), b"\0\0\0\2\x18\0", 1)
    await writer.close()


async def offsets(log: PartitionLog, start: int) -> list[int]:
    found: list[int] = []
    while start < await log.latest():
        data = await log.read(start, 1 << 20, 10)
        found += [record.offset for batch in data for record in entries.records_of(batch)]
        start = found[-1] + 1
    return found


async def test_markers_are_gaps(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    assert await bench.append(log, prepared(2)) == [0]
    await mark(bench, topic, 3)
    assert await bench.append(log, prepared(2)) == [5]
    for each in (log, bench.log(topic), bench.log(topic, cache_bytes=0)):
        assert await offsets(each, 0) == [0, 1, 5, 6]
        assert await offsets(each, 3) == [5, 6]


async def test_a_log_that_ends_with_markers_ends_before_them(bench: Bench) -> None:
    topic = await bench.topic()
    await bench.append(bench.log(topic), prepared(2))
    await mark(bench, topic, 3)
    log = bench.log(topic)
    assert await log.latest() == 2
    assert await offsets(log, 0) == [0, 1]
    newest = await log.newest()
    assert newest is not None and newest.offset == 1
    for offset in (2, 4, 5):  # a consumer that has read past the markers elsewhere continues from there
        assert await log.read(offset, 100, 10) == []
    with pytest.raises(KafkaError) as raised:
        await log.read(6, 100, 10)
    assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert await bench.append(log, prepared(2)) == [5]
    assert await offsets(log, 2) == [5, 6]


async def test_markers_may_come_while_the_tail_is_read(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    assert await bench.append(log, prepared(2)) == [0]
    assert await log.latest() == 2
    await mark(bench, topic, 2)
    assert await log.read(4, 100, 10) == []
    assert await bench.append(log, prepared(1)) == [4]


async def test_a_log_of_markers_alone_is_empty(bench: Bench) -> None:
    topic = await bench.topic()
    await mark(bench, topic, 2)
    log = bench.log(topic)
    assert await log.latest() == 0
    assert await bench.append(log, prepared(1)) == [2]
    assert await offsets(log, await log.earliest()) == [2]


async def test_reads_beyond_the_end_share_what_is_asked_of_pulsar(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = bench.log(await bench.topic())
    assert await log.latest() == 0
    asked: list[str] = []
    ask = Admin.internal_stats

    async def counted(admin: Admin, topic: str) -> InternalStats:
        asked.append(topic)
        return await ask(admin, topic)

    monkeypatch.setattr(Admin, "internal_stats", counted)
    refused = await asyncio.gather(*(log.read(1 << 40, 100, 10) for _ in range(100)), return_exceptions=True)
    assert {error.code for error in refused if isinstance(error, KafkaError)} == {ErrorCode.OFFSET_OUT_OF_RANGE}
    assert len(refused) == 100
    assert 1 <= len(asked) <= 3
