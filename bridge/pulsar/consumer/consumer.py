"""A consumer of a durable subscription, whose position the broker keeps."""

from collections.abc import Iterable

from bridge.errors import CorruptEntry
from bridge.pulsar import commands
from bridge.pulsar.connection.context import ClientContext
from bridge.pulsar.consumer import ack_sets
from bridge.pulsar.consumer.subscription import Subscription, SubscriptionOptions, entry_messages, parse_entry
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ConsumedEntry, Position, PulsarError


def parse_consumed(message: pb.CommandMessage, body: memoryview) -> ConsumedEntry | CorruptEntry:
    """As `parse_entry`, with what the broker says of earlier deliveries."""
    entry = parse_entry(message, body)
    if isinstance(entry, CorruptEntry):
        return entry
    return ConsumedEntry(
        entry.position,
        entry.index,
        entry.broker_timestamp,
        entry.metadata,
        entry.payload,
        entry.size,
        message.redelivery_count,
        tuple(message.ack_set),
    )


def unacknowledged_messages(entry: ConsumedEntry) -> int:
    """How many messages the broker counts for an entry: those of a batch that are acknowledged already are not."""
    return ack_sets.count(entry.ack_set) if entry.ack_set else entry_messages(entry)


class Consumer(Subscription[ConsumedEntry]):
    """Made by `PulsarClient.consumer`: a durable subscription; entries are delivered at least once."""

    _parse = staticmethod(parse_consumed)
    _message_count = staticmethod(unacknowledged_messages)

    def __init__(self, topic: str, context: ClientContext, options: SubscriptionOptions) -> None:
        self.active: bool | None = None  # of a failover subscription: whether entries come here
        super().__init__("consumer", topic, context, options)

    async def ack(self, *positions: Position) -> None:
        """Acknowledge these entries; returns when the broker has noted it."""
        await self._ack(positions)

    async def ack_messages(self, position: Position, batch_size: int, indexes: Iterable[int]) -> None:
        """Acknowledge these messages of a batch; see `ack_sets` for what the broker needs."""
        await self._ack((position,), ack_set=ack_sets.ack_set(batch_size, indexes))

    async def ack_cumulative(self, position: Position) -> None:
        """Acknowledge everything up to and with this entry; returns when the broker has noted it."""
        self._check_cumulative()
        await self._ack((position,), cumulative=True)

    async def ack_messages_cumulative(self, position: Position, batch_size: int, index: int) -> None:
        """Acknowledge everything up to and with this message of a batch; see `ack_sets` for what the broker needs."""
        self._check_cumulative()
        await self._ack((position,), cumulative=True, ack_set=ack_sets.ack_set(batch_size, range(index + 1)))

    def _check_cumulative(self) -> None:
        if self._options.subscription_type.acknowledges_individually:
            # The broker would ignore it and answer that all is well (its Consumer.messageAcked).
            raise TypeError("a shared subscription takes no cumulative acknowledgement")

    async def _ack(
        self, positions: tuple[Position, ...], *, cumulative: bool = False, ack_set: tuple[int, ...] = ()
    ) -> None:
        answer = await self._ask(
            lambda request_id, consumer_id: commands.ack(
                consumer_id, positions, cumulative=cumulative, ack_set=ack_set, request_id=request_id
            )
        )
        if answer.ack_response.HasField("error"):
            raise PulsarError(answer.ack_response.error, answer.ack_response.message)

    def redeliver(self, *positions: Position) -> None:
        """Have these entries delivered again; without any, all unacknowledged ones.

        Exclusive and failover subscriptions, whose entries are in order, always deliver all of them again.
        """
        if not positions or not self._options.subscription_type.acknowledges_individually:
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
