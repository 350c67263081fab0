"""Batches of both formats and of every size in a real Pulsar: what stands there, and where, also after a crash."""

import asyncio

import pytest

from bridge import codec
from bridge.codec import NO_PRODUCER, Rebuild, Record
from bridge.codec.compression import KafkaCodec
from bridge.codec.packing import pack
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, Entry
from bridge.storage import entries
from bridge.storage.append.preparation import Plan, PreparedEntry, prepare_entries
from bridge.storage.partition import PartitionLog
from tests.storage.conftest import NOW, Bench

FORMATS = ("pulsar", "kafka")
PID = 4711
COUNT = 300
SMALL = 9_000  # bytes of an entry, for batches of several entries


def batch(
    count: int = COUNT, producer: tuple[int, int, int] = NO_PRODUCER, compressed: KafkaCodec = KafkaCodec.NONE
) -> memoryview:
    records = [Record(at, NOW + at, b"%d" % at, b"value %099d" % at, [(b"h", b"\xff")]) for at in range(count)]
    return memoryview(pack(codec.build_batch(records, Rebuild(0, count, 0, producer=producer)), compressed))


def cut(entry_format: str, producer: tuple[int, int, int] = NO_PRODUCER) -> list[PreparedEntry]:
    parts = prepare_entries(batch(producer=producer), Plan(SMALL, entry_format), NOW)
    assert len(parts) > 3
    return parts


async def read_all(log: PartitionLog, size: int = 1 << 20) -> list[Record]:
    records: list[Record] = []
    while not records or records[-1].offset + 1 < await log.latest():
        found = await log.read(records[-1].offset + 1 if records else 0, size, 10)
        records += [record for data in found for record in entries.records_of(data)]
    return records


async def stored(bench: Bench, topic: str) -> list[Entry]:
    reader = await bench.client.reader(topic, EARLIEST)
    try:
        last = await reader.last_position()
        found = [await reader.receive()]
        while found[-1].position < last:
            found.append(await reader.receive())
        return found
    finally:
        await reader.close()


@pytest.mark.parametrize("compressed", [KafkaCodec.NONE, KafkaCodec.ZSTD])
async def test_format_kafka_is_the_batch_as_it_came(bench: Bench, compressed: KafkaCodec) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    sent = batch(5, (PID, 0, 0), compressed)
    for one in (sent, batch(5, (PID, 0, 5), compressed)):
        await bench.append(log, *prepare_entries(one, Plan(1 << 20, "kafka"), NOW))
    first, second = await stored(bench, topic)
    assert first.payload == sent
    assert (first.index, second.index) == (4, 9)
    assert first.metadata.num_messages_in_batch == 5
    assert ("entry.format", "kafka") in [(one.key, one.value) for one in first.metadata.properties]
    for at in (log, bench.log(topic, cache_bytes=0)):
        data = b"".join(await at.read(0, 1 << 20, 10))
        assert data[: len(sent)] == sent
        # the second may come in an answer of its own: which entries arrive together is up to the broker
        assert [record.offset for record in await read_all(at)] == list(range(10))
        found = await at.at_time(NOW + 3)
        assert found is not None and found.offset == 3


async def test_formats_may_alternate_in_one_topic(bench: Bench) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    ways = [(entry_format, one) for entry_format in FORMATS for one in KafkaCodec]
    for entry_format, one in ways:
        log.apply_configs({"entry.format": entry_format})
        await bench.append(log, *prepare_entries(batch(compressed=one), log.plan, NOW))
    assert len(await stored(bench, topic)) == len(ways)
    records = await read_all(bench.log(topic))
    assert [record.offset for record in records] == list(range(len(ways) * COUNT))
    assert [record[1:] for record in records] == [record[1:] for record in records[:COUNT]] * len(ways)


@pytest.mark.parametrize("entry_format", FORMATS)
async def test_the_past_of_a_producer_outlives_the_bridge(bench: Bench, entry_format: str) -> None:
    topic = await bench.topic()
    plan = Plan(1 << 20, entry_format)
    one, two = (prepare_entries(batch(7, (PID, 3, sequence)), plan, NOW) for sequence in (0, 7))
    before = bench.log(topic)
    assert await bench.append(before, *one) == [0]
    await before.close()
    log = bench.log(topic)
    assert [await bench.append(log, *each) for each in (two, one, two)] == [[7], [0], [7]]


@pytest.mark.parametrize("entry_format", FORMATS)
async def test_a_large_batch_is_several_entries_and_one_run_of_offsets(bench: Bench, entry_format: str) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    parts = cut(entry_format)
    await log.make_ready()
    bases = await asyncio.gather(*log.append_all([*parts, *parts]))
    assert (bases[0], bases[len(parts)]) == (0, COUNT)
    assert len(await stored(bench, topic)) == 2 * len(parts)
    records = await read_all(log)
    assert [record.offset for record in records] == list(range(2 * COUNT))
    assert [record.key for record in records] == [b"%d" % (at % COUNT) for at in range(2 * COUNT)]


@pytest.mark.parametrize("entry_format", FORMATS)
@pytest.mark.parametrize("arrived", [1, 2, -1])
async def test_a_crash_in_the_middle_of_a_large_batch_is_made_good(
    bench: Bench, entry_format: str, arrived: int
) -> None:
    """Of the batch the first parts were stored; its client, who was told nothing, sends all of it again."""
    topic = await bench.topic()
    first, second = (cut(entry_format, (PID, 0, sequence)) for sequence in (0, COUNT))
    before = bench.log(topic)
    await bench.append(before, *first, *second[:arrived])
    await before.close()
    log = bench.log(topic)
    bases = await bench.append(log, *second)
    assert bases[0] == COUNT
    assert bases == [COUNT + sum(part.record_count for part in second[:at]) for at in range(len(second))]
    assert await bench.append(log, *first) == [base - COUNT for base in bases]
    records = await read_all(log)
    assert [record.key for record in records] == [b"%d" % (at % COUNT) for at in range(2 * COUNT)]


async def test_an_entry_too_large_for_the_broker_is_refused_before_any_is_sent(bench: Bench) -> None:
    log = bench.log(await bench.topic())
    await log.writable()
    large = [Record(0, NOW, None, bytes(6 << 20), [])]
    prepared = prepare_entries(memoryview(codec.build_batch(large, Rebuild(0, 1, 0))), Plan(8 << 20), NOW)
    with pytest.raises(KafkaError) as raised:
        log.append_all([*prepare_entries(batch(1), log.plan, NOW), *prepared])
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert await log.latest() == 0


async def test_large_compressed_entries_are_converted_once_for_all_consumers(bench: Bench) -> None:
    """In a thread, for however many who ask at the same time; what comes of it stays in the tail's memory."""
    topic = await bench.topic()
    log = bench.log(topic, cache_bytes=1 << 24)
    await log.latest()
    await bench.append(log, *prepare_entries(batch(20_000, compressed=KafkaCodec.LZ4), Plan(4 << 20), NOW))
    assert await log.latest() == 20_000
    assert log.read_nowait(0, 1 << 24) is None
    found = await asyncio.gather(*(log.read(at, 1 << 24, 10) for at in range(5)))
    assert all(one[0] is found[0][0] for one in found)
    now = log.read_nowait(0, 1 << 24)
    assert now is not None and now[0] is found[0][0]
    assert codec.read_header(found[0][0]).attributes == KafkaCodec.LZ4


async def test_what_is_decompressed_for_consumers_counts_as_large_as_it_is(bench: Bench) -> None:
    """A cache of one megabyte holds little of what is two uncompressed."""
    bench.settings = bench.settings.with_values(storage={"fetch_compression": "none"})
    log = bench.log(await bench.topic(), cache_bytes=1 << 20)
    await log.latest()
    for _ in range(3):
        await bench.append(log, *prepare_entries(batch(20_000, compressed=KafkaCodec.ZSTD), Plan(4 << 20), NOW))
    assert await log.latest() == 60_000
    assert log.read_nowait(20_000, 1) is None
    (data,) = await log.read(20_000, 1, 10)
    assert codec.read_header(data).attributes == 0
    assert len(data) > 2 << 20


async def test_an_entry_of_either_format_that_a_stranger_has_damaged_has_no_record(bench: Bench) -> None:
    topic = await bench.topic()
    native = bench.client.producer(topic)
    metadata = pb.MessageMetadata(compression=pb.ZSTD, uncompressed_size=1 << 20)
    await native.send(metadata, b"not zstd", 1)
    metadata = pb.MessageMetadata(num_messages_in_batch=1)
    metadata.properties.add(key="entry.format", value="kafka")
    await native.send(metadata, bytes(batch(1))[:-1], 1)
    await native.close()
    log = bench.log(topic)
    for offset in (0, 1):
        for _ in range(2):
            (found,) = await log.read(offset, 1, 10)
            assert codec.read_header(found).base_offset == offset
            assert entries.records_of(found) == []
