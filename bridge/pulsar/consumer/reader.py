"""A reader: it keeps its own position in a topic."""

import asyncio
import random
from typing import Final

from bridge.pulsar import commands
from bridge.pulsar.connection.broker_connection import BrokerConnection
from bridge.pulsar.connection.context import ClientContext
from bridge.pulsar.consumer.subscription import Subscription, SubscriptionOptions, entry_messages, parse_entry
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, LATEST, Entry, Position, PulsarError

_ENDS: Final = (EARLIEST, LATEST)
_CHECK_SECONDS: Final = 1.0
"""After a session was opened, with jitter."""


class Reader(Subscription[Entry]):
    """Made by `PulsarClient.reader`: an exclusive, non-durable subscription.

    The place is kept here: after any reconnect it goes on behind the last entry received, never twice, never skipping.

    A broker that closes a topic may forget a session that is being opened at that moment: it says that the session is
    open, nothing ever comes, and nothing tells. So each session is checked once: it is asked for again under its name,
    which only a topic that has it refuses.
    """

    def __init__(
        self, topic: str, start: Position, inclusive: bool, context: ClientContext, options: SubscriptionOptions
    ) -> None:
        self._last_received = _before(start) if inclusive else start  # the position received last
        self.start = self._last_received
        """The position behind which it began; LATEST is a place once the reader is open."""
        self._last_consumed: Position | None = None  # by the user, not yet acknowledged
        self._seek_time: int | None = None
        self._check_timer: asyncio.TimerHandle | None = None
        self._checks: set[asyncio.Task[None]] = set()
        self._checked = asyncio.Event()
        """Of the present session."""
        super().__init__("reader", topic, context, options)

    async def seek(self, position: Position | None = None, *, timestamp: int | None = None) -> None:
        """Go on with this entry, or with the first published at or after the timestamp (milliseconds).

        What was received and not taken is is_cancelled.
        """
        if (position is None) == (timestamp is None):
            raise TypeError("seek takes either a position or a timestamp")
        connection = await self._ready()
        self._close_session(connection)
        self._clear_queue()
        self.ended = False
        self._last_consumed = None
        self._seek_time = timestamp
        if position is not None:
            self._last_received = _before(position)
        self._detach(at_once=True)
        await self._ready()

    async def checked_last_position(self) -> Position:
        """As `last_position`, from a session that has been checked: a forgotten one may tell an old end.

        Waits for the check, which comes a second or two after each opening.
        """
        while True:
            await self._checked.wait()
            session = self._id
            end = await self.last_position()
            if self._checked.is_set() and session == self._id:
                return end

    async def close(self) -> None:
        """As every subscription's; no check of the session is left."""
        await super().close()
        await asyncio.gather(*self._checks, return_exceptions=True)

    _parse = staticmethod(parse_entry)
    _message_count = staticmethod(entry_messages)

    def _start_at(self) -> Position:
        return self._last_received if self._last_received in _ENDS else self._last_received.after

    def _accepts(self, position: Position) -> bool:
        # A broker may deliver again what a reconnect overtook.
        if position <= self._last_received:
            return False
        self._last_received = position
        return True

    async def _subscribed(self, connection: BrokerConnection) -> None:
        if self._seek_time is not None:
            await self._find_time(connection, self._seek_time)
        elif self._last_received == LATEST:
            await self._find_end(connection)

    async def _find_end(self, connection: BrokerConnection) -> None:
        """Make "latest" a place, so that a reconnect before the first entry skips nothing.

        The cursor may be past the last message that the broker tells of: an entry that fills its ledger is stored for a
        cursor, and not yet for that answer, until the ledger is closed. Then another session begins behind the message.
        """
        answer = await self._last_message_id(connection)
        self._last_received = self.start = Position.of(answer.last_message_id)
        if not answer.HasField("consumer_mark_delete_position") or (
            Position.of(answer.consumer_mark_delete_position) > self.start
        ):
            await connection.request(lambda request_id: commands.close_consumer(request_id, self._id))
            connection.consumers.pop(self._id, None)
            await self._subscribe(connection)

    async def _find_time(self, connection: BrokerConnection, timestamp: int) -> None:
        """Have the broker move the cursor, and ask where it is now.

        A seek makes the broker close the session, but the cursor outlives it for the next subscription. All of it
        happens on one connection: when that is lost, the attempt fails and the next one starts over.
        """
        self._seek_time = None
        try:
            await connection.request(lambda request_id: commands.seek(request_id, self._id, timestamp=timestamp))
            connection.consumers.pop(self._id, None)
            await self._subscribe(connection)
            answer = await self._last_message_id(connection)
        except PulsarError:
            self._seek_time = timestamp
            raise
        self._last_received = Position.of(answer.consumer_mark_delete_position)

    async def _last_message_id(self, connection: BrokerConnection) -> pb.CommandGetLastMessageIdResponse:
        """The topic's last message, and where our cursor is."""
        answer = await connection.request(lambda request_id: commands.last_message_id(request_id, self._id))
        return answer.get_last_message_id_response

    def _attached(self, connection: BrokerConnection) -> None:
        if self._last_consumed is not None or self._queue:
            self._metrics.resumed_readers.inc()
        super()._attached(connection)
        self._checked.clear()
        self._check_later()

    def _failed(self, error: PulsarError) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
        for check in self._checks:
            check.cancel()
        self._checked.set()  # who waits for it gets the error
        super()._failed(error)

    def _check_later(self) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
        delay = _CHECK_SECONDS * random.uniform(1, 2)  # noqa: S311 - no secret
        self._check_timer = self._loop.call_later(delay, self._begin_check)

    def _begin_check(self) -> None:
        connection = self._connection
        if connection is not None:
            check = self._loop.create_task(self._check_session(connection, self._id), name=f"check {self.topic}")
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)

    async def _check_session(self, connection: BrokerConnection, session: int) -> None:
        """Open another session if the broker has forgotten this one."""
        other = next(self._context.ids)
        refusal: PulsarError | None = None
        try:
            await connection.request(lambda request_id: self._open_command(request_id, other))
        except PulsarError as error:
            refusal = error
        finally:
            if refusal is None or not _is_held(refusal):  # it was opened, or may be yet
                connection.notify(lambda request_id: commands.close_consumer(request_id, other))
        if connection is not self._connection or session != self._id:
            return
        if refusal is None:
            self._metrics.forgotten_readers.inc()
            self._log.warning("! pulsar has forgotten a reader", extra={"position": str(self._last_received)})
            self._reopen(connection)
        elif not _is_held(refusal):  # the topic is being closed or opened, has too many, or the broker is slow
            self._check_later()
        else:
            self._checked.set()

    def _consumed(self, entry: Entry) -> None:
        self._last_consumed = entry.position
        super()._consumed(entry)

    def _overfilled(self) -> None:
        if self._connection is not None:  # a new session has no permits, and gets none before there is room
            self._metrics.overfull_readers.inc()
            self._reopen(self._connection)

    def _reopen(self, connection: BrokerConnection) -> None:
        """Begin another session at once, behind what was received."""
        self._close_session(connection)
        self._detach(at_once=True)

    def _flowing(self, connection: BrokerConnection) -> None:
        # Nothing depends on a reader's acknowledgements but what the broker's statistics show as its backlog.
        if self._last_consumed is not None:
            connection.write([commands.ack(self._id, [self._last_consumed], cumulative=True)])
            self._last_consumed = None


def _is_held(refusal: PulsarError) -> bool:
    """Whether the topic has this subscription; the same code says that there may be no more consumers."""
    return refusal.code == pb.ConsumerBusy and refusal.refusal is None


def _before(position: Position) -> Position:
    return position if position in _ENDS else position.before
