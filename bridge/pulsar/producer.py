"""A producer: sends in the order of the calls."""

import asyncio
from collections.abc import Sequence

from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Receipt

Buffer = bytes | bytearray | memoryview


class Producer:
    """Made by `PulsarClient.producer`."""

    topic: str
    name: str

    @property
    def max_message_size(self) -> int | None:
        """The broker's limit for metadata and payload together; None before the first open."""
        raise NotImplementedError

    @property
    def pending_count(self) -> int:
        """Sends without an outcome."""
        raise NotImplementedError

    @property
    def pending_bytes(self) -> int:
        """Their bytes."""
        raise NotImplementedError

    @property
    def last_sequence_id(self) -> int:
        """What the broker had stored for this name at the (latest) open; -1 = nothing."""
        raise NotImplementedError

    def send(
        self, metadata: pb.MessageMetadata, payload: Sequence[Buffer] | Buffer, num_messages: int
    ) -> asyncio.Future[Receipt]:
        """Take a place in the order of sends; the metadata and payload are the producer's from now on."""
        raise NotImplementedError

    async def opened(self) -> None:
        """Wait until the broker has accepted this producer, or raise why it never will."""
        raise NotImplementedError

    async def writable(self) -> None:
        """Wait until the pending bytes are below `max_pending_bytes`; `send` itself never refuses."""
        raise NotImplementedError

    async def close(self, *, flush: bool = True) -> None:
        """Close; with flush, after every pending send has its outcome."""
        raise NotImplementedError
