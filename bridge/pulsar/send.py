"""One entry on its way through a producer: what is sent, and who is told of its outcome."""

import asyncio
from collections.abc import Callable, Sequence

from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import Buffer
from bridge.pulsar.types import PulsarError, Receipt


class Send:
    """One entry on its way."""

    __slots__ = (
        "future",
        "head",
        "highest",
        "metadata",
        "num_messages",
        "payload",
        "sent_at",
        "sequence_id",
        "size",
        "told",
    )

    def __init__(
        self,
        future: "asyncio.Future[Receipt]",
        metadata: pb.MessageMetadata,
        payload: Sequence[Buffer],
        num_messages: int,
        told: Callable[["asyncio.Future[Receipt]"], None] | None,
    ) -> None:
        self.future = future
        self.told = told
        self.metadata = metadata
        self.payload = payload
        self.num_messages = num_messages
        self.size = sum(map(len, payload))
        self.head = b""  # checksum and metadata, once encoded; the same for every attempt
        self.sequence_id = -1
        self.highest: int | None = None
        self.sent_at = 0.0

    def succeed(self, receipt: Receipt) -> None:
        """The broker has stored it."""
        if not self.future.done():
            self.future.set_result(receipt)
            if self.told is not None:
                self.told(self.future)

    def fail(self, error: PulsarError) -> None:
        """It will never be stored, or nobody will ever know."""
        if not self.future.done():
            self.future.set_exception(error)
            if self.told is not None:
                self.told(self.future)
