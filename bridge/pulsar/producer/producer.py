"""A producer: sends in the order of the calls, through every reconnect, and matches the receipts to them."""

import asyncio
import math
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from bridge.pulsar import commands
from bridge.pulsar.connection.broker_connection import Address, BrokerConnection
from bridge.pulsar.connection.context import ClientContext
from bridge.pulsar.connection.lookup import whole_topic
from bridge.pulsar.connection.reconnecting import ReconnectingHandler
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer.opening import Opening
from bridge.pulsar.producer.pending import PendingSends
from bridge.pulsar.producer.send import Send
from bridge.pulsar.protocol import Buffer, entry_frame_head
from bridge.pulsar.types import (
    AccessMode,
    ClientClosed,
    MessageTooLarge,
    Position,
    PulsarError,
    Receipt,
    SendCancelled,
    signed,
)

_NO_LONGER_POSSIBLE: Final = frozenset({pb.TopicTerminatedError, pb.ProducerFenced})
_IS_UNWRITTEN: Final = attrgetter("is_unwritten")
_IS_CANCELLED: Final = attrgetter("is_cancelled")
# Where the oldest entry has waited so long for its receipt, no more are written behind it: what the broker has not read
# cannot be taken back.
_LATE_SECONDS: Final = 1.0
# Then so much is written at a time, and the next when that has its outcome, until it has it soon.
_LATE_BYTES: Final = 64 * 1024
# And no more is pending before callers wait: what they hold is of no use here, and not there for other topics.
_LATE_PENDING_BYTES: Final = 1024 * 1024


class Producer(ReconnectingHandler):
    """Made by `PulsarClient.producer`.

    `send` never waits and never refuses; a caller that wants bounded memory awaits `writable()` first. The outcome of a
    send is its future's: a receipt, or PulsarError when the broker will never take it.
    """

    def __init__(
        self,
        topic: str,
        context: ClientContext,
        *,
        name: str | None = None,
        properties: Mapping[str, str] | None = None,
        access_mode: AccessMode = AccessMode.SHARED,
        must_exist: bool = False,
        predecessor: "Producer | None" = None,
        may_send: asyncio.Event | None = None,
    ) -> None:
        """`predecessor`: had the name, and has to leave first; `may_send`: while it is not set, nothing is opened."""
        super().__init__("producer", topic, context)
        # A name of our own making, instead of the broker's, lets entries be encoded before the first connect.
        self.name = name or f"bridge-{secrets.token_hex(8)}"
        self.last_sequence_id = -1  # what the broker had stored under the name at the latest open
        self.max_message_size: int | None = None  # for metadata and payload together; None before the first open
        self._user_provided_name = name is not None
        self._id = next(context.ids)
        self._properties = dict(properties or {})
        self._access_mode = access_mode
        name_is_free = None if predecessor is None else predecessor.released
        self._opening = Opening(context.lookup, topic, name_is_free, may_send, must_exist=must_exist, mode=access_mode)
        self._epoch = 0
        self._topic_epoch: int | None = None
        # Under a given name the numbers go on where the broker says: unknown until then.
        self._next_sequence_id: int | None = None if name else 0
        self.released: asyncio.Future[None] = self._loop.create_future()
        """Done when the broker holds nothing for this one any more, or cannot be told."""
        self._pending = PendingSends(context.settings.max_pending_bytes)
        self._barrier: Send | None = None  # nothing is written before this one has its outcome
        self._is_late = False
        self._unclosed_connection: BrokerConnection | None = None  # where the broker must be told before we come back
        self._previous_connection: BrokerConnection | None = None  # where a receipt may still come from
        self._purging = False
        self._closing = self._handing_over = False
        context.metrics.producers.inc()
        self._start()

    # --- for users ------------------------------------------------------------------------------------------------

    @property
    def closing(self) -> bool:
        """Whether it takes no more sends; `released` is done when its name is free."""
        return self._closing or self._handing_over or self._failure is not None

    @property
    def pending_count(self) -> int:
        """Sends without an outcome."""
        return len(self._pending)

    @property
    def pending_bytes(self) -> int:
        """Their payloads' bytes and some overhead."""
        return self._pending.bytes

    @property
    def waiting_since(self) -> float | None:
        """Since when the oldest send without an outcome waits for it (loop time); None where there is none."""
        first = self._pending.first
        return None if first is None else first.queued_at

    def send(
        self, metadata: pb.MessageMetadata, payload: Sequence[Buffer] | Buffer, num_messages: int
    ) -> "asyncio.Future[Receipt]":
        """As `enqueue`, where only the outcome is of interest; cancelling it gives the send up."""
        return self.enqueue(metadata, payload, num_messages).future

    def enqueue(
        self,
        metadata: pb.MessageMetadata,
        payload: Sequence[Buffer] | Buffer,
        num_messages: int,
        on_done: Callable[[Send], None] | None = None,
        *,
        alone: bool = False,
    ) -> Send:
        """Take a place in the order of sends; metadata and payload are the producer's from now on.

        Fills in producer_name, and sequence_id, highest_sequence_id and publish_time unless they are set. Sequence ids
        that are set must grow. Buffers in parts must be of bytes ('B').

        `on_done` is called when the future has its outcome, unless that is to be cancelled: at once, even before this
        returns, where the future's own callbacks wait for the event loop's next turn. `alone`: until it has its outcome
        nothing is written behind it.
        """
        future: asyncio.Future[Receipt] = self._loop.create_future()
        parts = (payload,) if isinstance(payload, bytes | bytearray | memoryview) else payload
        now = self._loop.time()
        send = Send(future, metadata, parts, num_messages, now, on_done)
        send.alone = alone
        if self.closing:
            send.fail(self._failure or ClientClosed("the producer"))
            return send
        if self._connection is None:
            future.add_done_callback(self._cancelled_while_detached)
        elif self._barrier is None:
            oldest = self._pending.first
            if oldest is not None and now - oldest.sent_at > _LATE_SECONDS:
                self._barrier = self._pending.last
                self._set_late(True)
            elif not self._write(self._connection, send):
                return send
            elif alone:
                self._barrier = send
        self._pending.append(send)
        return send

    def cancel(self, send: Send) -> None:
        """Do not send this any more: it fails with SendCancelled at once, or has its outcome where it is on its way."""
        send.cancelled = True
        if send.connection is not None and send.connection.withdraw(self, send):
            send.connection = None
        if send.connection is None and not send.future.done():
            self._pending.remove(send)
            send.fail(SendCancelled())
            self._lift_barrier(send)

    def supersede(self) -> None:
        """Give up all that is pending, and write what comes next when those have their outcome that are on their way.

        For what takes the place of what is pending: stored are none of those, or none after what replaces them.
        """
        for send in self._pending:
            send.cancelled = True
        self._fail_unwritten(SendCancelled())
        self._barrier = self._pending.last

    def give_up_unwritten(self) -> None:
        """What is not on its way to the broker fails: it would be stored without what is before it."""
        self._fail_unwritten(ClientClosed("the producer"))

    def _fail_unwritten(self, error: PulsarError) -> None:
        if self._connection is not None and len(self._pending):
            for item in self._connection.withdraw(self):
                if isinstance(item, Send):
                    item.connection = None
        self._barrier = None
        self._pending.fail(_IS_UNWRITTEN, error)

    @property
    def has_capacity(self) -> bool:
        """Whether `writable` need not be waited for."""
        return self._pending.below_limit.is_set()

    async def writable(self) -> None:
        """Wait until the pending bytes are below the setting `max_pending_bytes`, or nothing can be sent any more."""
        await self._pending.below_limit.wait()

    def hand_over(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Close, as another client goes on in this one's place; at once even before the coroutine runs.

        What is not on its way to the broker fails now, and nothing is written any more. The rest has so many seconds
        for its outcome, and fails if its connection is lost.
        """
        if not self._closing:
            self._handing_over = True
            self._fail_unwritten(ClientClosed("the producer"))
        return self.close(seconds=seconds)

    async def close(self, *, flush: bool = True, seconds: float | None = None) -> None:
        """Take no more sends; with flush, let those pending have their outcome first, for so many seconds at most."""
        if self._closing:
            await asyncio.wait((self.released,))
            return
        self._closing = True
        try:
            if flush and len(self._pending):
                await asyncio.wait([send.future for send in self._pending], timeout=seconds)
            connection = await self._stop("the producer") or self._unclosed_connection
            if connection is not None:
                await self._close_session(connection)
        finally:
            if not self.released.done():
                self.released.set_result(None)

    # --- on the connection ----------------------------------------------------------------------------------------

    async def _attach(self) -> BrokerConnection:
        await self._opening.wait_for_predecessor()
        if self._unclosed_connection is not None:
            # Same id, same connection: the broker must have let go, or it would take the next open for a duplicate.
            await self._close_session(self._unclosed_connection)
            self._unclosed_connection = None
        await self._opening.wait(again=self._was_attached)
        address = await self._context.lookup.find(self.topic)
        async with await self._pool.place(address):
            return await self._open(address)

    async def _open(self, address: Address) -> BrokerConnection:
        connection = await self._pool.get(address, whole_topic(self.topic))
        await self._opening.check_topic()  # last of all: the less time until the open, the less can happen in it
        connection.producers[self._id] = self
        self._epoch += 1
        try:
            answer = await connection.request(self._open_command)
            await self._opening.allowed()
        except PulsarError:
            await self._close_session(connection)
            raise
        except asyncio.CancelledError:
            connection.producers.pop(self._id, None)
            connection.notify(lambda request_id: commands.close_producer(request_id, self._id))
            raise
        success = answer.producer_success
        if self._was_overtaken(success.last_sequence_id):
            await self._close_session(connection)
            raise PulsarError(pb.ProducerFenced, f"another producer has written as {self.name} meanwhile")
        self.last_sequence_id = success.last_sequence_id
        self.max_message_size = connection.max_message_size
        if success.HasField("topic_epoch"):
            self._topic_epoch = success.topic_epoch
        if self._next_sequence_id is None:
            self._next_sequence_id = success.last_sequence_id + 1
        return connection

    def _was_overtaken(self, last_sequence_id: int) -> bool:
        """Whether the name was used elsewhere since it was last open here: what its user knows of it is old then."""
        written = last_sequence_id >= (self._next_sequence_id or 0) or self._pending.is_inside(last_sequence_id)
        return self._user_provided_name and self._was_attached and written

    def _open_command(self, request_id: int) -> bytes:
        return commands.producer(
            request_id,
            self._id,
            self.topic,
            name=self.name,
            user_provided_name=self._user_provided_name,
            epoch=self._epoch,
            properties=self._properties,
            access_mode=self._access_mode,
            topic_epoch=self._topic_epoch,
        )

    async def _close_session(self, connection: BrokerConnection) -> None:
        """Close on the broker's side and wait for it: it has then answered every send it is going to answer."""
        if not connection.closed:
            try:
                await connection.request(lambda request_id: commands.close_producer(request_id, self._id))
            except PulsarError as error:
                self._log.debug("! pulsar producer not closed", extra={"reason": str(error)})
        connection.producers.pop(self._id, None)

    def _is_open_on(self, connection: BrokerConnection) -> bool:
        return connection.producers.get(self._id) is self

    def _attached(self, connection: BrokerConnection) -> None:
        if self._previous_connection is not connection:
            self._forget_previous_connection()
        self._purge()
        self._write_waiting(connection)

    def _write_waiting(self, connection: BrokerConnection) -> None:
        # cancelled behind a barrier, and never written: no receipt takes them out, and all others would wait for one
        if any(map(_is_given_up, self._pending)):
            self._pending.fail(_is_given_up, SendCancelled())
        room = _LATE_BYTES if self._is_late else math.inf
        for send in tuple(self._pending):
            if send.connection is connection or send.future.done():
                continue
            if not self._write(connection, send):
                continue
            room -= send.size
            if room <= 0 or send.alone:
                self._barrier = send
                break

    def _detach(self, *, at_once: bool = False) -> None:
        if self._handing_over:
            self._connection = None
            self._fail(ClientClosed("the producer"))
            return
        connection = self._connection
        super()._detach(at_once=at_once)
        self._barrier = None
        if connection is not None:
            # The broker closes the whole connection when a send names a producer that it has closed.
            withdrawn = set(connection.withdraw(self))
            for send in self._pending:
                if send.connection is not None:
                    send.maybe_stored = send.maybe_stored or send not in withdrawn
                    send.connection = None
            if not connection.closed:
                # An entry may be stored although the broker closed us, and its receipt can still come. It counts on any
                # connection: what has a receipt is not sent twice.
                connection.producers.setdefault(self._id, self)
                self._previous_connection = connection
        for send in self._pending:
            send.future.add_done_callback(self._cancelled_while_detached)

    def _forget_previous_connection(self) -> None:
        if self._previous_connection is not None:
            self._previous_connection.producers.pop(self._id, None)
            self._previous_connection = None

    def _failed(self, error: PulsarError) -> None:
        self._metrics.producers.dec()
        self._forget_previous_connection()
        for send in self._pending.take_all():
            send.maybe_stored = send.maybe_stored or send.connection is not None
            send.fail(error)
        if not self._closing:  # the broker will not have it
            self.released.set_result(None)

    def _write(self, connection: BrokerConnection, send: Send) -> bool:
        """Send, or say that it never can be; its future has the reason."""
        if not send.head:
            self._next_sequence_id = send.encode(self.name, self._next_sequence_id or 0)
            size, limit = len(send.head) + send.size, connection.max_message_size
            if size > limit:
                if send in self._pending:  # it has waited for a connection; first, for others may be given up with it
                    self._pending.remove(send)
                send.fail(MessageTooLarge(size, limit))
                return False
        connection.broker.sent_at = send.sent_at = self._loop.time()
        send.connection = connection
        command = commands.send(self._id, send.sequence_id, send.highest, send.num_messages)
        connection.write([entry_frame_head(command, send.head, send.size), *send.payload], self, send)
        self._metrics.entries_sent.inc()
        self._metrics.bytes_sent.inc(send.size)
        return True

    # --- outcomes -------------------------------------------------------------------------------------------------

    def receipt(self, connection: BrokerConnection, receipt: pb.CommandSendReceipt) -> None:
        """Receipts come in the order of the sends; what is out of order says how."""
        sequence_id = receipt.sequence_id
        send = self._pending.first
        if send is None or send.sequence_id != sequence_id:
            self._odd_receipt(connection, receipt)
            return
        self._resolve(connection, send, receipt)

    def _odd_receipt(self, connection: BrokerConnection, receipt: pb.CommandSendReceipt) -> None:
        """A duplicate is answered at once, so before earlier sends; a late receipt is for what was sent again."""
        duplicate = signed(receipt.message_id.ledger_id) == -1
        for send in self._pending:
            if duplicate and send.sequence_id == receipt.sequence_id:
                self._resolve(connection, send, receipt)
                return
        first = self._pending.first
        if first is not None and receipt.sequence_id > first.sequence_id and not duplicate:
            self._log.warning("! pulsar receipt out of order", extra={"sequence_id": receipt.sequence_id})
            self._reopen(connection)

    def _resolve(self, connection: BrokerConnection, send: Send, receipt: pb.CommandSendReceipt) -> None:
        self._pending.remove(send)
        self._metrics.receipt_seconds.observe(connection.delay.acknowledged(send.sent_at, self._loop.time()))
        if not send.future.done():
            position = Position.of(receipt.message_id)
            highest = receipt.highest_sequence_id or receipt.sequence_id
            send.succeed(Receipt(position, receipt.sequence_id, highest, position.ledger == -1))
        self._lift_barrier(send)

    def _lift_barrier(self, send: Send) -> None:
        if self._barrier is send:
            self._barrier = None
            if self._is_late and self._loop.time() - send.sent_at <= _LATE_SECONDS / 2:
                self._set_late(False)
            if self._connection is not None:
                self._write_waiting(self._connection)

    def _set_late(self, late: bool) -> None:
        most = self._context.settings.max_pending_bytes
        self._is_late = late
        self._pending.bound(min(most, _LATE_PENDING_BYTES) if late else most)

    def send_error(self, connection: BrokerConnection, error: pb.CommandSendError) -> None:
        """The broker did not store an entry: its error says whether this one, all, or none will ever be."""
        self._metrics.send_errors.inc()
        refusal = PulsarError(error.error, error.message)
        self._log.warning("! pulsar send refused", extra={"reason": str(refusal), "sequence_id": error.sequence_id})
        if error.error in _NO_LONGER_POSSIBLE:
            self._connection = None
            connection.withdraw(self)
            connection.producers.pop(self._id, None)
            connection.notify(lambda request_id: commands.close_producer(request_id, self._id))
            self._fail(refusal)
            return
        send = next((send for send in self._pending if send.is_named(error.sequence_id)), None)
        if send is not None and send.is_permanently_refused(error.error):
            self._pending.remove(send)
            send.fail(refusal)
            self._lift_barrier(send)
        # After NotAllowedError the broker goes on with the next entry; after any other it may have skipped some.
        if error.error != pb.NotAllowedError:
            self._reopen(connection)

    def _reopen(self, connection: BrokerConnection) -> None:
        """Have the broker forget this session, so that what is pending can be sent again in order."""
        if connection is self._connection:
            self._unclosed_connection = connection
            self._detach()

    def _cancelled_while_detached(self, future: "asyncio.Future[Receipt]") -> None:
        if future.cancelled() and self._connection is None and not self._purging:
            self._purging = True
            self._loop.call_soon(self._purge)

    def _purge(self) -> None:
        """Forget the sends that were cancelled."""
        self._purging = False
        self._pending.fail(_IS_CANCELLED, SendCancelled())


def _is_given_up(send: Send) -> bool:
    return send.is_unwritten and send.future.cancelled()
