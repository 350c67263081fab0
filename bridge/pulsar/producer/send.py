"""One entry on its way through a producer: what is sent, and what is called when it has its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import Buffer, entry_head
from bridge.pulsar.types import PulsarError, Receipt

if TYPE_CHECKING:
    from bridge.pulsar.connection.broker_connection import BrokerConnection

REFUSALS: Final = frozenset({pb.ChecksumError, pb.NotAllowedError})
"""Errors that speak of one entry, for what is in it; others speak of its producer or topic."""


class Send:
    """One entry on its way."""

    __slots__ = (
        "alone",
        "cancelled",
        "connection",
        "future",
        "head",
        "highest",
        "maybe_stored",
        "metadata",
        "num_messages",
        "on_done",
        "payload",
        "queued_at",
        "sent_at",
        "sequence_id",
        "size",
    )

    def __init__(
        self,
        future: asyncio.Future[Receipt],
        metadata: pb.MessageMetadata,
        payload: Sequence[Buffer],
        num_messages: int,
        queued_at: float,
        on_done: Callable[[Send], None] | None,
    ) -> None:
        self.future = future
        self.on_done = on_done
        self.metadata = metadata
        self.payload = payload
        self.num_messages = num_messages
        self.size = sum(map(len, payload))
        self.head = b""  # checksum and metadata, once encoded; the same for every attempt
        self.sequence_id = -1
        self.highest: int | None = None
        self.queued_at = queued_at  # when its producer took it; loop time, as the next
        self.sent_at = 0.0
        self.connection: BrokerConnection | None = None  # on which it was written and an outcome may come
        self.maybe_stored = False  # written to a connection that was lost since
        self.alone = False  # nothing is written behind it before it has its outcome
        self.cancelled = False  # it is not sent (again), whatever becomes of it

    @property
    def is_cancelled(self) -> bool:
        """Whether it is not to be sent any more."""
        return self.cancelled or self.future.cancelled()

    @property
    def is_unwritten(self) -> bool:
        """Whether it is not on its way to the broker."""
        return self.connection is None

    def encode(self, producer_name: str, next_sequence_id: int) -> int:
        """Fill in what the metadata leaves open and make the head; the sequence id that is next after this entry's."""
        metadata = self.metadata
        metadata.producer_name = producer_name
        if not metadata.HasField("publish_time"):
            metadata.publish_time = time.time_ns() // 1_000_000
        if not metadata.HasField("sequence_id"):
            metadata.sequence_id = next_sequence_id
        self.sequence_id = metadata.sequence_id
        if self.num_messages > 1 and not metadata.HasField("highest_sequence_id"):
            metadata.highest_sequence_id = self.sequence_id + self.num_messages - 1
        if metadata.HasField("highest_sequence_id"):
            self.highest = metadata.highest_sequence_id
        self.head = entry_head(metadata.SerializeToString(), self.payload)
        return max(next_sequence_id, (self.highest or self.sequence_id) + 1)

    def is_named(self, sequence_id: int) -> bool:
        """Whether an error speaks of this one: of a batch, brokers name the first sequence id or the highest."""
        return sequence_id in (self.sequence_id, self.highest)

    def is_permanently_refused(self, code: int) -> bool:
        """Refused for itself; or its bytes changed under our hands since the checksum was made."""
        if code == pb.ChecksumError:
            return entry_head(self.metadata.SerializeToString(), self.payload) != self.head
        return code in REFUSALS

    def succeed(self, receipt: Receipt) -> None:
        """The broker has stored it."""
        if not self.future.done():
            self.future.set_result(receipt)
            self._call_on_done()

    def fail(self, error: PulsarError) -> None:
        """It will never be stored, or its outcome is unknown."""
        if not self.future.done():
            self.future.set_exception(error)
            self._call_on_done()

    def _call_on_done(self) -> None:
        # The callee may hold this send: a cycle would wait for the garbage collector.
        on_done, self.on_done = self.on_done, None
        if on_done is not None:
            on_done(self)
