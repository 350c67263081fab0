"""Batches made by hand, as memory has them."""

from __future__ import annotations

from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.pulsar.types import Entry, Position
from bridge.storage.read.batches import Batch


def batch(base: int, count: int = 10, size: int = 100_000) -> Batch:
    """A batch of `count` records that counts for `size` bytes and a little more."""
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=count)
    entry = Entry(Position(1, base), base + count - 1, None, metadata, memoryview(b""), size)
    found = Batch(entry, entry.payload, 1 << 20)
    found.follow(base)
    return found
