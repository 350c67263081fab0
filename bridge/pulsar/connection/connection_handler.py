"""The protocols of what a connection dispatches commands to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from bridge.pulsar.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from bridge.pulsar.connection.broker_connection import BrokerConnection


class ConnectionHandler(Protocol):
    """A producer, a consumer or a topic watch, open on a connection."""

    def detached(self, connection: BrokerConnection) -> None:
        """The connection is lost, or the broker closed this handler on it: nothing more may be sent."""


class ProducerHandler(ConnectionHandler, Protocol):
    """A producer as its connection sees it."""

    def receipt(self, connection: BrokerConnection, receipt: pb.CommandSendReceipt) -> None:
        """An entry is stored."""

    def send_error(self, connection: BrokerConnection, error: pb.CommandSendError) -> None:
        """An entry is not."""


class ConsumerHandler(ConnectionHandler, Protocol):
    """A consumer as its connection sees it."""

    def message(self, message: pb.CommandMessage, body: memoryview) -> None:
        """An entry has come; the view stays valid."""

    def reached_end(self) -> None:
        """The topic is terminated and everything was delivered."""

    def active_changed(self, active: bool) -> None:
        """This consumer of a failover subscription is (not) the one that gets entries."""


class TopicWatchHandler(ConnectionHandler, Protocol):
    """A topic watch as its connection sees it."""

    def changed(self, update: pb.CommandWatchTopicUpdate) -> None:
        """Topics came or went."""
