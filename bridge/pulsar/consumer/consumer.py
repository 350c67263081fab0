"""A consumer of a durable subscription, whose position the broker keeps."""

from bridge.pulsar import commands
from bridge.pulsar.connection.context import ClientContext
from bridge.pulsar.consumer.subscription import Subscription, SubscriptionOptions
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Position, PulsarError


class Consumer(Subscription):
    """Made by `PulsarClient.consumer`: a durable subscription, exclusive or shared; at least once."""

    def __init__(self, topic: str, context: ClientContext, options: SubscriptionOptions) -> None:
        self.active: bool | None = None  # of a failover subscription: whether entries come here
        super().__init__("consumer", topic, context, options)

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
