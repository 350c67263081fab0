"""Who lives on a connection, as the connection sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from bridge.pulsar.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from bridge.pulsar.connection import Connection


class Resident(Protocol):
    """Whoever lives on a connection: a producer, a consumer, a topic watch."""

    def detached(self, connection: Connection) -> None:
        """The connection is lost, or the broker closed this resident on it: nothing may be sent any more."""


class ProducerResident(Resident, Protocol):
    """A producer as its connection sees it."""

    def receipt(self, connection: Connection, receipt: pb.CommandSendReceipt) -> None:
        """An entry is stored."""

    def send_error(self, connection: Connection, error: pb.CommandSendError) -> None:
        """An entry is not."""


class ConsumerResident(Resident, Protocol):
    """A consumer as its connection sees it."""

    def message(self, message: pb.CommandMessage, body: memoryview) -> None:
        """An entry has come; the view stays valid."""

    def reached_end(self) -> None:
        """The topic is terminated and everything was delivered."""

    def active_changed(self, active: bool) -> None:
        """This consumer of a failover subscription is (not) the one that gets entries."""


class WatchResident(Resident, Protocol):
    """A topic watch as its connection sees it."""

    def changed(self, update: pb.CommandWatchTopicUpdate) -> None:
        """Topics came or went."""
