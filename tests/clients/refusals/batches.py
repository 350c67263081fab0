"""Record batches, good and bad, and topics that take only some."""

from __future__ import annotations

import gzip
import hashlib
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import crc32c
from lz4 import frame

from bridge.apis import create_topics, init_producer_id, produce
from bridge.codec._records import append_record
from bridge.codec.compression import KafkaCodec, compress_kafka
from bridge.kafka.error_codes import ErrorCode
from tests.clients.model import attempts
from tests.clients.refusals.case import World
from tests.clients.refusals.topics import configs, create, named

_NOW = 1_700_000_000_000


def record(delta: int = 0, key: bytes = b"\x02k", value: bytes = b"\x02v") -> bytes:
    """One record; key and value with their lengths."""
    body = b"\0\0" + bytes([delta << 1]) + key + value + b"\0"
    return bytes([len(body) << 1]) + body


def plain(
    *,
    base: int = 0,
    timestamp: int = _NOW,
    length: int | None = None,
    magic: int = 2,
    attributes: int = 0,
    last_delta: int = 0,
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    count: int = 1,
    body: bytes | None = None,
) -> bytes:
    """A batch of one record, but for what is said to be otherwise; its checksum fits."""
    head = struct.pack(">hiqqqhii", attributes, last_delta, timestamp, timestamp, producer, epoch, sequence, count)
    covered = head + (record() if body is None else body)
    size = 9 + len(covered) if length is None else length
    return struct.pack(">qiibI", base, size, -1, magic, crc32c.crc32c(covered)) + covered


def wrong_checksum() -> bytes:
    """A batch that was damaged on its way."""
    batch = bytearray(plain())
    batch[-2] ^= 1
    return bytes(batch)


def message_set(magic: int) -> bytes:
    """A message of the formats before batches."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", _NOW) if magic else b"") + struct.pack(">i", -1)
    body += struct.pack(">i", 1) + b"v"
    return struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body


def compressed(codec: int, pack: Callable[[bytes], bytes], parts: int = 1, after: bytes = b"") -> bytes:
    """A batch of some 140 KB, packed in so many parts; then these bytes."""
    count = 20
    body = b"".join(record_of(delta) for delta in range(count))
    step = -(-len(body) // parts)
    packed = b"".join(pack(body[at : at + step]) for at in range(0, len(body), step))
    return plain(attributes=codec, count=count, last_delta=count - 1, body=packed + after)


def record_of(delta: int) -> bytes:
    """A record of 7 KB that hardly compresses."""
    out = bytearray()
    append_record(out, 0, delta, None, hashlib.shake_256(bytes([delta])).digest(7000), ())
    return bytes(out)


def lz4(data: bytes, **options: bool) -> bytes:
    """A frame as clients write it, but for what is said to be otherwise."""
    packed: bytes = frame.compress(data, **{"block_linked": False, "store_size": False, **options})
    return packed


def xerial(data: bytes) -> bytes:
    """A stream of snappy-java's."""
    return compress_kafka(KafkaCodec.SNAPPY, data)


def snappy_framed(data: bytes) -> bytes:
    """Snappy's own framing format, which Kafka never had."""
    return bytes(cramjam.snappy.compress(data))


def zstd_frame(data: bytes, exponent: int = 10, dictionary: bytes = b"") -> bytes:
    """A frame of uncompressed blocks, with a window of 2 to the exponent, and the id of a dictionary of one byte."""
    blocks = [data[at : at + 1024] for at in range(0, len(data), 1024)]
    heads = [(len(block) << 3 | (at == len(blocks) - 1)).to_bytes(3, "little") for at, block in enumerate(blocks)]
    start = b"\x28\xb5\x2f\xfd" + bytes([len(dictionary), exponent - 10 << 3]) + dictionary
    return start + b"".join(head + block for head, block in zip(heads, blocks, strict=True))


Write = Callable[..., Any]


def after(world: World, write: Write, *, epoch: int = 0, sequence: int = 5, first_epoch: int = 0) -> Any:
    """A batch of a new producer whose batches 0 to 4 are stored."""
    given = world.ask(
        init_producer_id.API, init_producer_id.Request(transactional_id=None, transaction_timeout_ms=0), 4
    )
    assert given.error_code == 0
    for number in range(5):
        batch = plain(producer=given.producer_id, epoch=first_epoch, sequence=number)
        _assert_written(world, write(world.topic, batch))
    return write(world.topic, plain(producer=given.producer_id, epoch=epoch, sequence=sequence))


def too_large(world: World, write: Write) -> Any:
    """A batch above the topic's max.message.bytes."""
    name = _created(world, write, max_message_bytes="100")
    return write(name, plain(body=record(value=b"\x46" + b"v" * 35) * 3, count=3, last_delta=2))


def within(world: World, write: Write, room: int) -> Any:
    """A batch for a topic whose max.message.bytes is larger by so many."""
    batch = plain()
    return write(_created(world, write, max_message_bytes=str(len(batch) + room)), batch)


def opens(world: World, write: Write, codec: str) -> Any:
    """A small batch of a large record, for a topic that stores it so."""
    name = _created(world, write, max_message_bytes="300", compression_type=codec)
    body = bytearray()
    append_record(body, 0, 0, b"k", bytes(4000), ())
    return write(name, plain(attributes=KafkaCodec.GZIP, body=gzip.compress(body)))


def keyless(world: World, write: Write) -> Any:
    """A record without a key for a topic that is compacted."""
    return write(compacted(world, write), plain(body=record(key=b"\x01")))


def moved(world: World, write: Write, minutes: int, **values: str) -> Any:
    """A record from so many minutes ahead, which the pinned texts call {time}."""
    ahead = time.time_ns() // 1_000_000 + minutes * 60_000
    world.made["time"] = str(ahead)
    return timed(world, write, ahead, **values)


def timed(world: World, write: Write, timestamp: int, **values: str) -> Any:
    """A record of that time for a new topic with these configs."""
    name = world.topic
    if values:
        name = _created(world, write, **values)
    return write(name, plain(timestamp=timestamp))


def compacted(world: World, write: Write) -> str:
    """A new topic that is compacted, called {new}."""
    return _created(world, write, cleanup_policy="compact")


def _created(world: World, write: Write, **values: str) -> str:
    """A new topic with a record: Kafka has created it before its broker leads it."""
    name = named(world, "records")
    (made,) = world.ask(create_topics.API, create(name, **configs(**values))).topics
    assert made.error_code == 0, made.error_message
    _await_leader(world, write(name, plain()))
    return name


def _await_leader(world: World, request: Any) -> None:
    for _ in attempts("a leader"):
        (partition,) = world.ask(produce.API, request).responses[0].partition_responses
        if not ErrorCode(partition.error_code).retriable:
            break


def _assert_written(world: World, request: Any) -> None:
    (partition,) = world.ask(produce.API, request).responses[0].partition_responses
    assert partition.error_code == 0, partition.error_message
