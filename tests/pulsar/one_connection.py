"""One connection to a broker whose producers are opened one request at a time: no retries, no second connection."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from bridge.config import PulsarSettings
from bridge.pulsar import Access, AccessMode, Position, commands
from bridge.pulsar.connection.broker_connection import Address, BrokerConnection
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import entry_frame_head, entry_head
from bridge.telemetry.metrics import PulsarMetrics


class OpenProducer:
    """A producer that the broker has granted, and what it was told since."""

    def __init__(self, connection: BrokerConnection, producer_id: int, name: str, topic_epoch: int) -> None:
        self.topic_epoch = topic_epoch
        self.receipts: list[Position] = []
        self.errors: list[int] = []
        self.sent = 0
        self.lost = asyncio.Event()
        """Set when the broker has closed it, or its connection."""
        self.changed = asyncio.Event()
        self._connection = connection
        self.producer_id = producer_id
        self._name = name
        connection.producers[producer_id] = self

    def send(self, payload: bytes) -> None:
        """Write an entry; `receipts` tells when it is stored."""
        metadata = pb.MessageMetadata(
            producer_name=self._name, sequence_id=self.sent, publish_time=time.time_ns() // 1_000_000
        )
        head = entry_head(metadata.SerializeToString(), (payload,))
        command = commands.send(self.producer_id, self.sent, None, 1)
        self._connection.write([entry_frame_head(command, head, len(payload)), payload])
        self.sent += 1

    async def stored(self, count: int) -> None:
        """Wait for so many receipts in all, or until it is lost."""
        async with asyncio.timeout(30):
            while len(self.receipts) < count and not self.lost.is_set():
                self.changed.clear()
                await self.changed.wait()

    def receipt(self, connection: BrokerConnection, receipt: pb.CommandSendReceipt) -> None:
        """An entry is stored."""
        self.receipts.append(Position.of(receipt.message_id))
        self.changed.set()

    def send_error(self, connection: BrokerConnection, error: pb.CommandSendError) -> None:
        """An entry is refused."""
        self.errors.append(error.error)

    def detached(self, connection: BrokerConnection) -> None:
        """It is over."""
        self.lost.set()
        self.changed.set()


class OneConnection:
    """See the module. For a Pulsar of one broker: no lookup is followed elsewhere."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.connection = connection
        self._ids = itertools.count(1)

    @classmethod
    async def open(cls, service_url: str, operation_timeout: float = 30.0) -> OneConnection:
        """Connect; `operation_timeout` bounds each request in seconds."""
        settings = PulsarSettings(service_url=service_url, operation_timeout_seconds=operation_timeout)
        parts = urlsplit(service_url)
        address = Address(parts.hostname or "", parts.port or 6650, tls=False)
        return cls(
            await BrokerConnection.open(address, settings, PulsarMetrics(), Access.by(settings, PulsarMetrics()))
        )

    def close(self) -> None:
        """Hang up."""
        self.connection.close()

    async def producer(
        self, topic: str, name: str = "", mode: AccessMode = AccessMode.SHARED, topic_epoch: int | None = None
    ) -> OpenProducer:
        """Ask once; PulsarError when refused."""
        await self.connection.request(lambda request_id: commands.lookup(request_id, topic))
        producer_id, used = next(self._ids), name or f"facts-{secrets.token_hex(6)}"
        answer = await self.connection.request(
            lambda request_id: commands.producer(
                request_id, producer_id, topic, name=used, user_provided_name=bool(name), epoch=1, properties={},
                access_mode=mode, topic_epoch=topic_epoch,
            )
        )  # fmt: skip
        return OpenProducer(self.connection, producer_id, used, answer.producer_success.topic_epoch)

    async def close_producer(self, producer: OpenProducer) -> None:
        """Until the broker has let go of it; hanging up alone does not tell when that is."""
        await self.connection.request(lambda request_id: commands.close_producer(request_id, producer.producer_id))


Connect = Callable[..., Awaitable[OneConnection]]
"""The fixture `connect`."""
