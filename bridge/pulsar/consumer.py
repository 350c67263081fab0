"""Readers and consumers."""

from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import Entry, Position


class _Receiver:
    topic: str
    closed: bool
    ended: bool  # the topic is terminated and everything was received

    async def receive(self) -> Entry:
        """The next entry; CorruptEntry(reason, position) for one that cannot be decoded."""
        raise NotImplementedError

    def receive_nowait(self) -> Entry | None:
        """The next entry if one is here."""
        raise NotImplementedError

    async def last_position(self) -> Position:
        """The last readable entry of the topic; (-1, -1) = none."""
        raise NotImplementedError

    async def seek(self, position: Position | None = None, *, timestamp: int | None = None) -> None:
        """Go on with this entry, or with the first published at or after the timestamp (ms)."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close."""
        raise NotImplementedError


class Reader(_Receiver):
    """Made by `PulsarClient.reader`."""


class Consumer(_Receiver):
    """Made by `PulsarClient.consumer`."""

    active: bool | None

    async def ack(self, *positions: Position) -> None:
        """Acknowledge these entries."""

    async def ack_cumulative(self, position: Position) -> None:
        """Acknowledge everything up to and with this entry."""

    def redeliver(self, *positions: Position) -> None:
        """Have these entries, or all unacknowledged ones, delivered again."""

    async def unsubscribe(self) -> None:
        """Delete the subscription."""

    async def stats(self) -> pb.CommandConsumerStatsResponse:
        """What the broker counts for this consumer."""
        raise NotImplementedError
