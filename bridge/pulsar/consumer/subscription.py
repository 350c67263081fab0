"""The common part of readers and consumers: a subscription held open, its entries queued, its flow controlled."""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from bridge.errors import CorruptEntry
from bridge.pulsar import commands
from bridge.pulsar.connection.broker_connection import BrokerConnection
from bridge.pulsar.connection.context import ClientContext
from bridge.pulsar.connection.reconnecting import Backoff, ReconnectingHandler
from bridge.pulsar.consumer.flow_control import FlowControl
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import ChecksumMismatch, ProtocolError, count_messages, parse_body
from bridge.pulsar.types import Entry, OperationTimeout, Position, PulsarError, SubscriptionType

_E = TypeVar("_E", bound=Entry)
_VALIDATION_ERRORS: Final = {True: pb.CommandAck.ChecksumMismatch, False: pb.CommandAck.BatchDeSerializeError}


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """How a subscription is opened and how much of it is held here."""

    subscription: str
    durable: bool
    subscription_type: SubscriptionType = SubscriptionType.EXCLUSIVE
    consumer_name: str | None = None
    earliest: bool = False
    read_compacted: bool = False
    permits: int = 1000
    max_buffer: int = 8 << 20
    more_buffer: int = 0
    """Bytes by which the buffer is larger while few others read."""
    properties: Mapping[str, str] | None = None
    waits_if_busy: bool = True
    """Whether to wait for another exclusive consumer to leave."""


def parse_entry(message: pb.CommandMessage, body: memoryview) -> Entry | CorruptEntry:
    """What a Message command carries; CorruptEntry(reason, position) where that is not an entry."""
    position = Position.of(message.message_id)
    try:
        broker_metadata, metadata, payload = parse_body(body)
    except ProtocolError as error:
        corrupt = CorruptEntry(str(error), position)
        corrupt.__cause__ = error
        return corrupt
    index = timestamp = None
    if broker_metadata is not None:
        index = broker_metadata.index if broker_metadata.HasField("index") else None
        timestamp = broker_metadata.broker_timestamp if broker_metadata.HasField("broker_timestamp") else None
    return Entry(position, index, timestamp, metadata, payload, len(body))


def entry_messages(entry: Entry) -> int:
    """How many messages the broker counts for an entry."""
    return max(entry.metadata.num_messages_in_batch, 1)


class Subscription(ReconnectingHandler, Generic[_E]):
    """See the module; subclasses say where to start and what becomes of the queue on the way to a new session."""

    def __init__(self, kind: str, topic: str, context: ClientContext, options: SubscriptionOptions) -> None:
        super().__init__(kind, topic, context)
        self.ended = False  # the topic is terminated and everything was received
        self._id = 0  # a new one for each session: what is under way to an old one cannot be taken for the new one's
        self._options = options
        self._flow = FlowControl(options.permits, options.max_buffer, context.queued, options.more_buffer)
        self._queue: deque[_E | CorruptEntry] = deque()
        self._receiver: asyncio.Future[None] | None = None
        context.metrics.readers.inc()
        self._start()

    # --- for users ------------------------------------------------------------------------------------------------

    async def receive(self) -> _E:
        """The next entry, waiting for it; CorruptEntry(reason, position) for one that cannot be decoded.

        One caller at a time. Raises ClientClosed after close, PulsarError when the broker will give no more.
        """
        while True:
            entry = self.receive_nowait()
            if entry is not None:
                return entry
            if self._failure is not None:
                raise self._failure
            if self._receiver is not None:
                raise RuntimeError("another task is receiving")
            self._receiver = self._loop.create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None

    def receive_nowait(self) -> _E | None:
        """The next entry if one is here; CorruptEntry as `receive`."""
        if not self._queue:
            return None
        entry = self._queue.popleft()
        if isinstance(entry, CorruptEntry):
            raise entry
        self._consumed(entry)
        return entry

    async def last_position(self) -> Position:
        """The last readable entry of the topic; (-1, -1) = there is none."""
        answer = await self._ask(commands.last_message_id)
        return Position.of(answer.get_last_message_id_response.last_message_id)

    async def close(self) -> None:
        """Leave; receive() raises from now on."""
        if self.closed:
            return
        connection = await self._stop(f"the {type(self).__name__.lower()}")
        self._metrics.readers.dec()
        self._clear_queue()
        self._flow.close()
        if connection is not None:
            self._close_session(connection)

    # --- for subclasses -------------------------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def _parse(message: pb.CommandMessage, body: memoryview) -> _E | CorruptEntry:
        """What a Message command carries; CorruptEntry(reason, position) where that is not an entry."""

    @staticmethod
    @abstractmethod
    def _message_count(entry: _E) -> int:
        """How many messages the broker counts for an entry."""

    @abstractmethod
    def _start_at(self) -> Position | None:
        """The first entry wanted of a new session; None = the broker knows."""

    @abstractmethod
    def _accepts(self, position: Position) -> bool:
        """Whether this entry is new here."""

    async def _subscribed(self, connection: BrokerConnection) -> None:
        """The broker has accepted us; nothing flows yet."""

    def _overfilled(self) -> None:
        """More has come than was meant to be held, and more is allowed to come."""

    def _flowing(self, connection: BrokerConnection) -> None:
        """Permits are about to be given: what else goes with them."""

    async def _ask(self, build: Callable[[int, int], bytes]) -> pb.BaseCommand:
        """Ask something about our consumer, again if the connection breaks meanwhile, until the operation's timeout."""
        last: PulsarError = OperationTimeout(f"{self.topic}: not attached in time")
        backoff = Backoff()
        try:
            async with asyncio.timeout(self._context.settings.operation_timeout_seconds):
                while True:
                    connection = await self._ready()
                    try:
                        return await connection.request(lambda request_id: build(request_id, self._id))
                    except PulsarError as error:
                        if not error.retriable:
                            raise
                        last = error
                    await asyncio.sleep(backoff.next())
        except TimeoutError:
            raise last from None

    # --- on the connection ----------------------------------------------------------------------------------------

    async def _attach(self) -> BrokerConnection:
        address = await self._context.lookup.find(self.topic)
        async with await self._pool.place(address):
            connection = await self._pool.get(address)
            await self._subscribe(connection)
        return connection

    async def _subscribe(self, connection: BrokerConnection) -> None:
        """Open a session on this connection, nothing flowing yet."""
        self._id = next(self._context.ids)
        connection.consumers[self._id] = self
        try:
            await connection.request(lambda request_id: self._open_command(request_id, self._id))
            await self._subscribed(connection)
        except (PulsarError, asyncio.CancelledError):
            self._close_session(connection)
            raise

    def _close_session(self, connection: BrokerConnection) -> None:
        """Close the session on the broker's side; its answer tells nothing worth waiting for."""
        session = self._id
        if connection.consumers.pop(session, None) is not None:
            connection.notify(lambda request_id: commands.close_consumer(request_id, session))

    def _open_command(self, request_id: int, session: int) -> bytes:
        options = self._options
        return commands.subscribe(
            request_id,
            session,
            self.topic,
            options.subscription,
            durable=options.durable,
            subscription_type=options.subscription_type,
            consumer_name=options.consumer_name,
            start=self._start_at(),
            earliest=options.earliest,
            read_compacted=options.read_compacted,
            properties=options.properties,
        )

    def _is_open_on(self, connection: BrokerConnection) -> bool:
        return connection.consumers.get(self._id) is self

    def _attached(self, connection: BrokerConnection) -> None:
        self._flow.reset()
        self._refill()

    def _gives_up(self, error: PulsarError, elapsed: float) -> bool:
        if error.code == pb.ConsumerBusy and not self._options.waits_if_busy and not self._was_attached:
            return True
        if error.refusal is not None:  # also where it was open before: nothing waits for an outcome, as sends do
            return True
        return super()._gives_up(error, elapsed)

    def _failed(self, error: PulsarError) -> None:
        self._wake()

    # --- entries --------------------------------------------------------------------------------------------------

    def message(self, message: pb.CommandMessage, body: memoryview) -> None:
        """An entry has come."""
        entry = self._parse(message, body)
        if isinstance(entry, CorruptEntry):
            # The broker counted this one's permits by its metadata, whatever its checksum says.
            position, messages = Position.of(message.message_id), count_messages(body)
        else:
            position, messages = entry.position, self._message_count(entry)
        self._flow.received(messages, len(body))
        accepted = self._accepts(position)
        if accepted:
            self._metrics.entries_read.inc()
            self._metrics.bytes_read.inc(len(body))
            self._queue.append(entry)
            if self._flow.is_overfull:
                self._overfilled()
        if isinstance(entry, CorruptEntry):
            self._discard(entry, position)
        if not accepted or isinstance(entry, CorruptEntry):
            self._flow.consumed(messages, len(body))
            self._refill()
        if accepted:
            self._wake()

    def _discard(self, corrupt: CorruptEntry, position: Position) -> None:
        """Tell the broker that its entry is no good, as the specification asks."""
        self._metrics.corrupt_entries.inc()
        self._log.error("! pulsar entry is corrupt", extra={"position": str(position), "reason": str(corrupt.args[0])})
        if self._connection is not None:
            reason = _VALIDATION_ERRORS[isinstance(corrupt.__cause__, ChecksumMismatch)]
            self._connection.write([commands.ack(self._id, [position], validation_error=reason)])

    def _consumed(self, entry: _E) -> None:
        self._flow.consumed(self._message_count(entry), entry.size)
        self._refill()

    def _refill(self) -> None:
        if self._connection is None:
            return
        permits = self._flow.refill()
        if permits:
            self._flowing(self._connection)
            self._connection.write([commands.flow(self._id, permits)])

    def _wake(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    def _clear_queue(self) -> None:
        self._queue.clear()
        self._flow.cleared()

    def reached_end(self) -> None:
        """The topic is terminated and everything was delivered."""
        self.ended = True

    def active_changed(self, active: bool) -> None:
        """Only of interest to consumers."""
