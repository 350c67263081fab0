"""A client of the model broker: whether it is there, and what is sent to it."""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bridge.pulsar import protocol
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.schedules.broker.consumers import Consumer
from tests.schedules.broker.ledgers import Stored
from tests.schedules.broker.producers import Producer, Refusal
from tests.schedules.pipe import Endpoint

if TYPE_CHECKING:
    from tests.schedules.broker.server import Broker

Type = pb.BaseCommand
_NO_REQUEST: Final = (1 << 64) - 1
_LIVENESS_SECONDS: Final = 5.0  # connectionLivenessCheckTimeoutMillis
_BROKER_METADATA: Final = struct.Struct(">HI")


class Peer:
    """One connection, from the broker's side."""

    def __init__(self, broker: "Broker", endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.closed = False
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}
        self.watches: dict[int, bool] = {}
        """Those that are open, by id; False while they are being opened."""
        self._broker = broker
        self._trace = broker.trace
        self._who = f"pulsar/{endpoint.number}"
        self._recently_closed: dict[int, float] = {}
        self._checks: list[Callable[[bool], None]] = []
        endpoint.ended = self.lost

    # --- life -------------------------------------------------------------------------------------------------------

    def lost(self) -> None:
        """The client is gone: its names are free."""
        if self.closed:
            return
        self._trace(self._who, "= connection ends")
        self.closed = True
        self.endpoint.close()
        for producer in list(self.producers.values()):
            if producer.open and producer.topic is not None:
                producer.topic.drop_producer(producer)
            producer.closed = True
        for consumer in list(self.consumers.values()):
            consumer.closed = True
            if consumer.topic is not None:
                consumer.topic.consumers.remove(consumer)
        self.producers.clear()
        self.consumers.clear()
        self.watches.clear()
        self._broker.connections.pop(self.endpoint.number, None)
        self._answer_checks(False)

    def close(self) -> None:
        """The broker has enough of this client."""
        self._trace(self._who, "! the broker closes the connection")
        self.lost()

    def check_alive(self, then: Callable[[bool], None]) -> None:
        """Ask for a sign of life; a connection that gives none is closed."""
        if self.closed:
            then(False)
            return
        self._checks.append(then)
        if len(self._checks) == 1:
            self.send(type=Type.PING, ping=pb.CommandPing())
            self._broker.in_seconds(_LIVENESS_SECONDS, self._no_sign, list(self._checks))

    def _no_sign(self, checks: list[Callable[[bool], None]]) -> None:
        if self._checks and self._checks[0] is checks[0]:
            self.close()

    def _answer_checks(self, alive: bool) -> None:
        checks, self._checks = self._checks, []
        for then in checks:
            then(alive)

    # --- sending ----------------------------------------------------------------------------------------------------

    def send(self, **fields: Any) -> None:
        """Send a command: `send(type=…, field=message)`."""
        if not self.closed:
            self.endpoint.write(protocol.simple_frame(pb.BaseCommand(**fields).SerializeToString()))

    def error(self, request_id: int, refusal: Refusal) -> None:
        """Answer a request with an error."""
        self._trace(self._who, "> error %d: %s", request_id, refusal.message)
        self.send(
            type=Type.ERROR,
            error=pb.CommandError(request_id=request_id, error=refusal.code, message=refusal.message),
        )

    def success(self, request_id: int) -> None:
        """Answer a request."""
        self.send(type=Type.SUCCESS, success=pb.CommandSuccess(request_id=request_id))

    def send_receipt(self, receipt: pb.CommandSendReceipt, name: str) -> None:
        """Tell that an entry is stored."""
        place = receipt.message_id
        self._trace(self._who, "> receipt %s %d at %d:%d", name, receipt.sequence_id, place.ledger_id, place.entry_id)
        self.send(type=Type.SEND_RECEIPT, send_receipt=receipt)

    def send_error(self, producer: Producer, sequence: int, code: int, message: str) -> None:
        """Tell that an entry is not."""
        self._trace(self._who, "> send error %s %d: %s", producer.name, sequence, message)
        error = pb.CommandSendError(producer_id=producer.id, sequence_id=sequence, error=code, message=message)
        self.send(type=Type.SEND_ERROR, send_error=error)

    def send_entry(self, consumer: Consumer, entry: Stored) -> None:
        """Deliver an entry."""
        command = pb.BaseCommand(type=Type.MESSAGE)
        command.message.consumer_id = consumer.id
        command.message.message_id.ledger_id = entry.position.ledger
        command.message.message_id.entry_id = entry.position.entry
        broker = pb.BrokerEntryMetadata(index=entry.index, broker_timestamp=entry.at_ms).SerializeToString()
        body = _BROKER_METADATA.pack(protocol.MAGIC_BROKER_METADATA, len(broker)) + broker + entry.body
        self._trace(self._who, "> entry %s to consumer %d", entry.position, consumer.id)
        if not self.closed:
            self.endpoint.write(protocol.entry_frame_head(command.SerializeToString(), b"", len(body)) + body)

    def close_producer(self, producer: Producer) -> None:
        """The broker closes a producer and tells so."""
        if self.producers.pop(producer.id, None) is not None:
            self._recently_closed[producer.id] = self._broker.loop.now
            self._trace(self._who, "> close producer %s", producer.name)
            close = pb.CommandCloseProducer(producer_id=producer.id, request_id=_NO_REQUEST)
            self.send(type=Type.CLOSE_PRODUCER, close_producer=close)

    def forget_producer(self, producer: Producer) -> None:
        """A producer has been fenced out and is not told: its next send ends the connection."""
        if self.producers.get(producer.id) is producer:
            del self.producers[producer.id]

    def close_consumer(self, consumer: Consumer) -> None:
        """The broker closes a consumer and tells so."""
        if self.consumers.pop(consumer.id, None) is not None:
            close = pb.CommandCloseConsumer(consumer_id=consumer.id, request_id=_NO_REQUEST)
            self.send(type=Type.CLOSE_CONSUMER, close_consumer=close)
