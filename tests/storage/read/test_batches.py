"""Slow conversions run in a thread, whatever the entry claims; the others run at once while there is time."""

import gzip
import struct
import threading
from typing import Any

import pytest

from bridge import codec
from bridge.codec import Rebuild, Record
from bridge.codec.compression import KafkaCodec, PulsarCodec, compress_pulsar
from bridge.codec.packing import pack
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Entry, Position
from bridge.runtime.futures import at_once, loop_time
from bridge.runtime.threads import WorkerThreads
from bridge.storage import entries
from bridge.storage.read.batches import Batch, kafka_batches
from bridge.storage.read.time_lookup import _first_record
from tests.codec.old_messages import GZIP, message

MIB = 1 << 20
LIMIT = 16 * MIB
NOW = 1_700_000_000_000


def entry(payload: bytes, count: int = 1, *, kafka: bool = False, **fields: Any) -> Batch:
    """As another writer has stored it."""
    metadata = pb.MessageMetadata(producer_name="n", sequence_id=1, publish_time=NOW, **fields)
    metadata.num_messages_in_batch = count
    if kafka:
        metadata.properties.add(key="entry.format", value="kafka")
    found = Entry(Position(1, 0), count - 1, None, metadata, memoryview(payload), len(payload))
    return Batch(found, found.payload, LIMIT)


def records(count: int, size: int) -> bytes:
    made = [Record(at, NOW + at, b"k", bytes(size), []) for at in range(count)]
    return codec.build_batch(made, Rebuild(0, count, 0))


def payload(count: int, size: int) -> bytes:
    return codec.encode_payload(records(count, size)[codec.HEADER_SIZE :], count, NOW).data


def zipped(size: int) -> bytes:
    """A message set of magic 1 as KoP stored it: few bytes that open to many."""
    inner = message(bytes(size), timestamp=NOW)
    whole = message(gzip.compress(inner), attributes=GZIP, timestamp=NOW)
    return struct.pack(">q", 0) + whole[8:]


def packed(count: int, size: int) -> Batch:
    plain = payload(count, size)
    small = compress_pulsar(PulsarCodec.ZSTD, plain)
    return entry(small, count, compression=pb.ZSTD, uncompressed_size=len(plain))


SLOW = {
    "opens to much": lambda: packed(1, MIB),
    "large": lambda: entry(payload(1, MIB)),
    "many messages": lambda: entry(payload(20_000, 0), 20_000),
    "a message set": lambda: entry(zipped(MIB), kafka=True),
    "many batches": lambda: entry(records(1, 1) * 1000, 1000, kafka=True),
}
QUICK = {
    "small": lambda: entry(payload(10, 1000), 10),
    "small, compressed": lambda: packed(10, 1000),
    "Kafka's, compressed": lambda: entry(pack(records(1, MIB), KafkaCodec.ZSTD), kafka=True),
}


def at_hand(batches: list[Batch], seconds: float = -1.0) -> list[bytes] | None:
    """What they are, where nothing has to be waited for within so many seconds."""
    return at_once(kafka_batches(batches, LIMIT, WorkerThreads(), loop_time() + seconds))


@pytest.mark.parametrize("name", SLOW)
async def test_slow_conversions_run_in_a_thread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, to_kafka = set[int](), entries.to_kafka

    def noted(*args: Any, **options: Any) -> bytes:
        threads.add(threading.get_ident())
        return to_kafka(*args, **options)

    monkeypatch.setattr(entries, "to_kafka", noted)
    one = SLOW[name]()
    assert one.is_slow
    assert at_hand([one], 60) is None
    assert await one.newest(WorkerThreads()) >= NOW
    assert at_hand([one]) == await kafka_batches([one], LIMIT, WorkerThreads(), 0.0)
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("name", QUICK)
async def test_quick_conversions_run_at_once_within_the_deadline(name: str) -> None:
    first, second = QUICK[name](), QUICK[name]()
    assert at_hand([first, second]) is None
    assert not first.is_converted
    found = at_hand([first, second], 60)
    assert found is not None
    assert len(found) == 2
    assert at_hand([first, second]) == found


async def test_what_is_behind_a_first_batch_above_the_limit_is_not_converted() -> None:
    quick, slow = QUICK["small"](), SLOW["large"]()
    assert await kafka_batches([quick, slow], 1, WorkerThreads(), loop_time() + 60) == [quick.kafka()]
    assert not slow.is_converted


def test_a_record_is_found_by_its_time_among_very_many() -> None:
    for count in (100, 20_000):
        assert _first_record(records(count, 0), NOW + 70, 0) == (70, NOW + 70)
        assert _first_record(records(count, 0), NOW, 80) == (80, NOW + 80)
        assert _first_record(records(count, 0), NOW + count, 0) is None
