"""Readers, which keep their own place in a topic, and consumers, whose place the broker keeps."""

from typing import Final

from bridge.pulsar import commands
from bridge.pulsar.connection import Connection
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.subscription import Access, Options, Subscription
from bridge.pulsar.types import EARLIEST, LATEST, Entry, Position, PulsarError

_ENDS: Final = (EARLIEST, LATEST)


class Reader(Subscription):
    """Made by `PulsarClient.reader`: an exclusive, non-durable subscription.

    The place is kept here: after any reconnect it goes on behind the last entry received, never twice, never skipping.
    """

    def __init__(self, topic: str, start: Position, inclusive: bool, access: Access, options: Options) -> None:
        self._last = _before(start) if inclusive else start  # the position received last
        self.start = self._last
        """The position behind which it began; LATEST is a place once the reader is open."""
        self._taken_last: Position | None = None  # by the user, not yet acknowledged
        self._seek_time: int | None = None
        super().__init__("reader", topic, access, options)

    async def seek(self, position: Position | None = None, *, timestamp: int | None = None) -> None:
        """Go on with this entry, or with the first published at or after the timestamp (milliseconds).

        What was received and not taken is dropped.
        """
        if (position is None) == (timestamp is None):
            raise TypeError("seek takes either a position or a timestamp")
        connection = await self._ready()
        self._leave(connection)
        self._clear_queue()
        self.ended = False
        self._taken_last = None
        self._seek_time = timestamp
        if position is not None:
            self._last = _before(position)
        self._detach(at_once=True)
        await self._ready()

    def _start_at(self) -> Position:
        return self._last if self._last in _ENDS else self._last.after

    def _accepts(self, position: Position) -> bool:
        # A broker may deliver again what a reconnect overtook.
        if position <= self._last:
            return False
        self._last = position
        return True

    async def _subscribed(self, connection: Connection) -> None:
        if self._seek_time is not None:
            await self._find_time(connection, self._seek_time)
        elif self._last == LATEST:
            # From here on "latest" is a place, so that a reconnect before the first entry skips nothing.
            answer = await connection.request(lambda request_id: commands.last_message_id(request_id, self._id))
            self._last = self.start = Position.of(answer.get_last_message_id_response.last_message_id)

    async def _find_time(self, connection: Connection, timestamp: int) -> None:
        """Have the broker move the cursor, and ask where it is now.

        A seek makes the broker close the session, but the cursor outlives it for whoever subscribes next. All of it
        on one connection: when that breaks, so does the attempt, and the next one begins anew.
        """
        self._seek_time = None
        try:
            await connection.request(lambda request_id: commands.seek(request_id, self._id, timestamp=timestamp))
            connection.consumers.pop(self._id, None)
            await self._subscribe(connection)
            answer = await connection.request(lambda request_id: commands.last_message_id(request_id, self._id))
        except PulsarError:
            self._seek_time = timestamp
            raise
        self._last = Position.of(answer.get_last_message_id_response.consumer_mark_delete_position)

    def _attached(self, connection: Connection) -> None:
        if self._taken_last is not None or self._queue:
            self._metrics.resumed_readers.inc()
        super()._attached(connection)

    def _taken(self, entry: Entry) -> None:
        self._taken_last = entry.position
        super()._taken(entry)

    def _flowing(self, connection: Connection) -> None:
        # Nothing depends on a reader's acknowledgements but what the broker's statistics show as its backlog.
        if self._taken_last is not None:
            connection.write([commands.ack(self._id, [self._taken_last], cumulative=True)])
            self._taken_last = None


class Consumer(Subscription):
    """Made by `PulsarClient.consumer`: a durable subscription, exclusive or shared; at least once."""

    def __init__(self, topic: str, access: Access, options: Options) -> None:
        self.active: bool | None = None  # of a failover subscription: whether entries come here
        super().__init__("consumer", topic, access, options)

    async def ack(self, *positions: Position) -> None:
        """Acknowledge these entries; returns when the broker has noted it."""
        await self._ack(positions, cumulative=False)

    async def ack_cumulative(self, position: Position) -> None:
        """Acknowledge everything up to and with this entry; returns when the broker has noted it."""
        await self._ack((position,), cumulative=True)

    async def _ack(self, positions: tuple[Position, ...], *, cumulative: bool) -> None:
        answer = await self._ask(
            lambda request_id, consumer_id: commands.ack(
                consumer_id, positions, cumulative=cumulative, request_id=request_id
            )
        )
        if answer.ack_response.HasField("error"):
            raise PulsarError(answer.ack_response.error, answer.ack_response.message)

    def redeliver(self, *positions: Position) -> None:
        """Have these entries delivered again; none named, or an exclusive subscription: all unacknowledged ones."""
        if not self._options.shared:
            self._clear_queue()
        if self._connection is not None:
            self._connection.write([commands.redeliver(self._id, positions)])
            self._refill()

    async def seek(self, position: Position | None = None, *, timestamp: int | None = None) -> None:
        """Move the subscription to this entry, or to the first published at or after the timestamp (milliseconds)."""
        if (position is None) == (timestamp is None):
            raise TypeError("seek takes either a position or a timestamp")
        # The broker closes the session, which empties the queue, and we come back to the new place.
        await self._ask(
            lambda request_id, consumer_id: commands.seek(
                request_id, consumer_id, position=position, timestamp=timestamp
            )
        )

    async def unsubscribe(self) -> None:
        """Delete the subscription and close."""
        await self._ask(commands.unsubscribe)
        await self.close()

    async def stats(self) -> pb.CommandConsumerStatsResponse:
        """What the broker counts for this consumer."""
        stats = (await self._ask(commands.consumer_stats)).consumer_stats_response
        if stats.HasField("error_code"):
            raise PulsarError(stats.error_code, stats.error_message)
        return stats

    def _start_at(self) -> None:
        return None

    def _accepts(self, position: Position) -> bool:
        return True

    def _detach(self, *, at_once: bool = False) -> None:
        # What was not acknowledged comes again.
        self._clear_queue()
        super()._detach(at_once=at_once)

    def active_changed(self, active: bool) -> None:
        """The broker says which consumer of a failover subscription it serves."""
        self.active = active


def _before(position: Position) -> Position:
    return position if position in _ENDS else position.before
