"""KoP's own topics as it writes them, byte by byte; batches by kafka-python, which has no code of the bridge."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Sequence

import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from bridge.pulsar import Admin, PulsarClient
from bridge.pulsar.pb import PulsarApi_pb2 as pb

PARTITIONS = 50
NEVER = 1 << 60
Sent = tuple[bytes | None, bytes]
"""A message of the topic: key and value."""


def text(value: str) -> bytes:
    """A string of Kafka's."""
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def java_partition(group: str, partitions: int = PARTITIONS) -> int:
    """Of a group of ASCII letters, as Java says."""
    code = 0
    for letter in group:
        code = (code * 31 + ord(letter) + (1 << 31)) % (1 << 32) - (1 << 31)
    return code % partitions


def commit_key(group: str, topic: str, partition: int, version: int = 1) -> bytes:
    """The key of a commit."""
    return struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)


def commit_value(offset: int, metadata: str = "", at: int = 1_700_000_000_000, expires: int = NEVER) -> bytes:
    """The value of a commit, version 1."""
    return struct.pack(">hq", 1, offset) + text(metadata) + struct.pack(">qq", at, expires)


def batch(records: Iterable[tuple[bytes, bytes | None]], producer: int = -1) -> bytes:
    """A batch v2; of a transaction where there is a producer."""
    epoch = 0 if producer >= 0 else -1
    builder = DefaultRecordBatchBuilder(2, 0, producer >= 0, producer, epoch, epoch, 1 << 20)
    for at, (key, value) in enumerate(records):
        assert builder.append(at, 1_700_000_000_000, key, value, []) is not None
    return bytes(builder.build())


def commit(
    group: str, topic: str, offsets: dict[int, int | None], metadata: str = "", producer: int = -1, expires: int = NEVER
) -> Sent:
    """A group's commit of several partitions, or None to forget one."""
    records = [
        (commit_key(group, topic, partition), None if at is None else commit_value(at, metadata, expires=expires))
        for partition, at in offsets.items()
    ]
    return commit_key(group, "", -1), batch(records, producer)


def ended(group: str, producer: int, *, committed: bool) -> Sent:
    """The end of a producer's transaction."""
    marker = bytearray(batch([(struct.pack(">hh", 0, committed), bytes(6))], producer))
    marker[21:23] = (0x30).to_bytes(2, "big")
    marker[17:21] = int(crc32c.crc32c(bytes(marker[21:]))).to_bytes(4, "big")
    return commit_key(group, "", -1), bytes(marker)


def metadata_of(group: str) -> Sent:
    """A record of the group itself, as its members change."""
    key = struct.pack(">h", 2) + text(group)
    value = struct.pack(">h", 1) + text("consumer") + struct.pack(">i", 7) + text("range") + text("m") + bytes(4)
    return key, batch([(key, value)])


def forgotten_group(group: str) -> Sent:
    """The end of a group."""
    key = struct.pack(">h", 2) + text(group)
    return key, batch([(key, None)])


EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, FENCING = range(8)
"""How a transactional id stands."""


def state(transactional_id: str, producer: int, status: int, *partitions: tuple[str, int]) -> Sent:
    """The state of a transactional id, with the partitions (a topic's full name, and which) of its transaction."""
    value = struct.pack(">hqhib", 0, producer, 0, 60_000, status) + struct.pack(">i", len(partitions))
    for topic, number in partitions:
        value += text(topic) + struct.pack(">ii", 1, number)
    return struct.pack(">h", 0) + text(transactional_id), value + struct.pack(">qq", 1_700_000_000_000, 1)


def snapshot(
    partition: str,
    after: int,
    opened: Iterable[tuple[int, int, int]] = (),
    aborted: Iterable[tuple[int, int, int]] = (),
    topic_id: str | None = "",
) -> Sent:
    """A partition's snapshot: producers with first and last offsets; None: of a KoP that did not name topics' ids."""
    opened, aborted = list(opened), list(aborted)
    value = _java_text(partition) + (b"" if topic_id is None else _java_text(topic_id)) + struct.pack(">q", after)
    value += struct.pack(">iqiiqq", 1, 77, 0, -1, -1, -1)
    value += struct.pack(">i", len(opened)) + b"".join(struct.pack(">qqq", *one) for one in opened)
    value += struct.pack(">i", len(aborted)) + b"".join(struct.pack(">qqqq", *one, one[2] + 1) for one in aborted)
    return partition.encode(), value


def _java_text(value: str) -> bytes:
    """As `DataOutput.writeUTF` has ASCII."""
    return struct.pack(">H", len(value)) + value.encode()


async def create(admin: Admin, namespace: str, name: str = "__consumer_offsets", partitions: int = PARTITIONS) -> str:
    """One of the topics, empty."""
    topic = f"persistent://{namespace}/{name}"
    await admin.create_partitioned(topic, partitions)
    return topic


async def write(client: PulsarClient, topic: str, partition: int, sent: Sequence[Sent], batched: int = 1) -> None:
    """Messages in their order, alone or (as Java's producer may) so many in an entry."""
    producer = client.producer(f"{topic}-partition-{partition}", must_exist=True)
    for at in range(0, len(sent), batched):
        some = sent[at : at + batched]
        if len(some) == 1:
            ((key, value),) = some
            metadata = pb.MessageMetadata(event_time=1_700_000_000_000)
            if key is not None:
                metadata.partition_key, metadata.partition_key_b64_encoded = base64.b64encode(key).decode(), True
            await producer.send(metadata, value, 1)
        else:
            await producer.send(pb.MessageMetadata(num_messages_in_batch=len(some)), _together(some), len(some))
    await producer.close()


def _together(sent: Sequence[Sent]) -> bytes:
    payload = b""
    for key, value in sent:
        single = pb.SingleMessageMetadata(payload_size=len(value), event_time=1_700_000_000_000)
        if key is not None:
            single.partition_key, single.partition_key_b64_encoded = base64.b64encode(key).decode(), True
        head = single.SerializeToString()
        payload += struct.pack(">I", len(head)) + head + value
    return payload
