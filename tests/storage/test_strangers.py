"""What a client that may produce to a topic can do to those who read it, on a real Pulsar: nothing but add to it."""

from __future__ import annotations

import asyncio

import pytest

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.pulsar.pb.PulsarApi_pb2 import CompressionType, MessageMetadata, SingleMessageMetadata
from bridge.storage import entries
from bridge.storage.entries import FORMAT_PROPERTY, KAFKA, PROPERTY
from bridge.storage.mark_signer import MarkSigner
from bridge.storage.partition import PartitionLog
from tests.storage.conftest import NOW, Bench, prepared


def noted(key: str, value: str) -> MessageMetadata:
    metadata = MessageMetadata()
    metadata.properties.add(key=key, value=value)
    return metadata


UNREADABLE = {
    "no lz4": MessageMetadata(compression=CompressionType.LZ4, uncompressed_size=100),
    "a size that is a lie": MessageMetadata(compression=CompressionType.ZSTD, uncompressed_size=1 << 31),
    "no batch": MessageMetadata(num_messages_in_batch=1),
    "no mark": noted(PROPERTY, "forged"),
    "a mark of tomorrow": noted(PROPERTY, '{"v":2}'),
    "no Kafka batch": noted(FORMAT_PROPERTY, KAFKA),
}


async def offsets_from(log: PartitionLog, offset: int) -> list[int]:
    """Of all records that a consumer gets who begins at this offset, as it counts them."""
    found: list[int] = []
    while offset < await log.latest():
        read = await log.read(offset, 1 << 20, 10.0)
        if not read:
            break
        records = [record for data in read for record in entries.records_of(data) if record.offset >= offset]
        found += [record.offset for record in records]
        offset = found[-1] + 1
    return found


def messages(count: int) -> bytes:
    """Of a native batch, each of which can be read."""
    head = SingleMessageMetadata(payload_size=5).SerializeToString()
    return (len(head).to_bytes(4, "big") + head + b"value") * count


async def natively(bench: Bench, topic: str, metadata: MessageMetadata, payload: bytes, counted: int = 1) -> None:
    """A stranger's entry; the broker counts so many messages, whatever its metadata say."""
    native = bench.client.producer(topic)
    sent = MessageMetadata()
    sent.CopyFrom(metadata)
    await native.enqueue(sent, payload, counted).future
    await native.close()


@pytest.mark.parametrize("name", UNREADABLE)
async def test_consumers_go_past_what_a_stranger_made_unreadable(bench: Bench, name: str) -> None:
    topic = await bench.topic()
    log = bench.log(topic)
    await bench.append(log, prepared(2, NOW))
    for _ in range(3):
        await natively(bench, topic, UNREADABLE[name], b"\xff\x01")
    await bench.append(log, prepared(2, NOW))
    counted = bench.metrics.pulsar.corrupt_entries.value
    for reads in (log, bench.log(topic)):
        assert await offsets_from(reads, 0) == [0, 1, 5, 6]
        assert await offsets_from(reads, 3) == [5, 6]
    assert bench.metrics.pulsar.corrupt_entries.value > counted


async def test_what_the_bridge_has_signed_is_never_left_out(bench: Bench) -> None:
    topic = await bench.topic()
    first = bench.log(topic)
    await bench.append(first, prepared(2, NOW))
    damaged = MessageMetadata(compression=CompressionType.LZ4, uncompressed_size=100)
    damaged.properties.add(key=PROPERTY, value='{"v":1,"t":5,"b":2}')
    native = bench.client.producer(topic)
    MarkSigner(bench.storage().mark_secret, topic).sign(damaged, native.name)
    await native.send(damaged, b"\xff\x01", 1)
    await native.close()
    log = bench.log(topic)
    with pytest.raises(KafkaError) as raised:
        await offsets_from(log, 2)
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("claimed", [2, 4, 9, 100])
@pytest.mark.parametrize("unloaded", [False, True], ids=["within a ledger", "first of a ledger"])
async def test_an_entry_takes_the_offsets_that_the_broker_counts(bench: Bench, claimed: int, unloaded: bool) -> None:
    """Not those that its metadata claim, which are other entries'."""
    topic = await bench.topic()
    log = bench.log(topic)
    expected = list(range(8))
    for _ in range(2):
        await bench.append(log, *(prepared(2, NOW + n) for n in range(2)))
    assert await offsets_from(log, 0) == expected, "a reader at the tail is open"
    if unloaded:
        await bench.admin.unload(topic)
    await natively(bench, topic, MessageMetadata(num_messages_in_batch=claimed), messages(claimed))
    await bench.append(log, *(prepared(2, NOW + n) for n in range(2)))
    expected += [9, 10, 11, 12]

    async def others(reads: PartitionLog, offset: int) -> list[int]:
        """All but its own record, which is seen by who begins there."""
        return [one for one in await offsets_from(reads, offset) if one != 8]

    for reads in (log, bench.log(topic)):
        for offset in (8, 12, 0, 3, 7, 9, 1, 0, 8):
            assert await others(reads, offset) == [one for one in expected if one >= offset]
    cold = bench.log(topic)
    assert await others(cold, 8) == [9, 10, 11, 12]
    assert await others(cold, 0) == expected
    assert not bench.gone, "no topic was taken for another one"


@pytest.mark.parametrize("counted", [0, -1])
async def test_an_entry_of_no_messages_by_its_command_stops_nobody(bench: Bench, counted: int) -> None:
    """Pulsar stores it without an index (`ManagedLedgerInterceptorImpl.beforeAddEntry`)."""
    topic = await bench.topic()
    log = bench.log(topic)
    assert await bench.append(log, prepared(1)) == [0]
    await natively(bench, topic, MessageMetadata(), b"value", counted)
    again = bench.log(topic)  # as after a restart: the entry is the last one
    assert await again.latest() == 1
    assert await bench.append(again, prepared(1)) == [1]
    assert await offsets_from(again, 0) == [0, 1]
    assert await offsets_from(bench.log(topic), 0) == [0, 1]


async def test_however_many_entries_of_no_messages_are_passed(bench: Bench) -> None:
    """A search goes further back than it looks at once, and a reader that is there meets them as they come."""
    topic = await bench.topic()
    log = bench.log(topic)
    assert await bench.append(log, prepared(2)) == [0]
    assert await offsets_from(log, 0) == [0, 1]
    native = bench.client.producer(topic)
    await asyncio.gather(*(native.enqueue(MessageMetadata(), b"value", 0).future for _ in range(100)))
    await native.close()
    assert await bench.log(topic).latest() == 2
    assert await bench.append(log, prepared(1)) == [2]
    assert await offsets_from(log, 0) == [0, 1, 2]
    cold = bench.log(topic)
    assert await offsets_from(cold, 1) == [1, 2]
    found = await cold.at_time(NOW + 1)
    assert found is not None
    assert found.offset == 1


async def test_pulsar_counts_from_0_again_behind_an_entry_of_no_messages(bench: Bench) -> None:
    """docs/security.md has it: if it is the last one when the topic is loaded. No bridge can help that."""
    topic = await bench.topic()
    assert await bench.append(bench.log(topic), prepared(3)) == [0]
    await natively(bench, topic, MessageMetadata(), b"value", 0)
    await bench.admin.unload(topic)
    assert await bench.append(bench.log(topic), prepared(1)) == [0]
