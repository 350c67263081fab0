"""Record batches, good and bad, and topics that take only some."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

import crc32c

from bridge.apis import create_topics, init_producer_id, produce
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
