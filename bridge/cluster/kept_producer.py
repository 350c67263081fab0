"""A producer on a topic that all nodes share that is opened again whatever ends it, also when the topic is deleted."""

import asyncio
from collections.abc import Callable

from bridge.cluster.membership.record_format import encode
from bridge.cluster.membership.records import Record
from bridge.cluster.topics import ClusterTopics
from bridge.errors import BridgeError
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.connection import Backoff
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import PulsarError, Receipt
from bridge.telemetry import log

_log = log.get(__name__)


class KeptProducer:
    """`on_attachment` is called with True when Pulsar has accepted the producer, with False when it is lost."""

    def __init__(
        self,
        client: PulsarClient,
        topics: ClusterTopics,
        topic: str,
        name: str | None = None,
        on_attachment: Callable[[bool], None] = lambda attached: None,
    ) -> None:
        self._client = client
        self._topics = topics
        self._topic = topic
        self._name = name
        self._tell = on_attachment
        self._backoff = Backoff()
        self._opening: asyncio.Task[None] | None = None
        self._is_closed = False
        self._producer = self._open()

    @property
    def is_refused_name(self) -> bool:
        """Whether another producer has the name at present."""
        error = self._producer.last_error
        is_held = error is not None and error.code == pb.ProducerBusy and error.refusal is None
        return is_held and not self._producer.attached

    def send(self, record: Record) -> "asyncio.Future[Receipt]":
        """Store a record, sent again after any reconnect; the future fails where the producer has ended.

        Raises InvalidClusterRecord for a record that cannot be written.
        """
        return self.send_entry(pb.MessageMetadata(), encode(record), 1)

    def send_entry(self, metadata: pb.MessageMetadata, payload: bytes, count: int) -> "asyncio.Future[Receipt]":
        """As `send`, an entry with so many messages."""
        return self._producer.send(metadata, payload, count)

    def close(self) -> None:
        """Open it no more; its client closes it."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()

    def _open(self) -> Producer:
        producer = self._client.producer(self._topic, name=self._name, must_exist=True)
        producer.on_attachment = self._attached
        producer.terminated.add_done_callback(self._ended)
        return producer

    def _attached(self, attached: bool) -> None:
        if attached:
            self._backoff = Backoff()
        self._tell(attached)

    def _ended(self, ended: "asyncio.Future[PulsarError]") -> None:
        if not self._is_closed:
            error = ended.result()
            _log.warning("! cluster producer ended", extra={"topic": self._topic, "reason": str(error)})
            self._tell(False)
            self._opening = asyncio.get_running_loop().create_task(self._open_again(error))

    async def _open_again(self, error: PulsarError) -> None:
        await asyncio.sleep(self._backoff.next())
        if error.code == pb.TopicNotFound:
            try:
                await self._topics.create_one(self._topic)
            except BridgeError as refused:
                _log.warning("! cluster topic is missing", extra={"topic": self._topic, "reason": str(refused)})
        self._producer = self._open()
