"""The protocols of what a connection dispatches commands to."""

from __future__ import annotations

from typing import Protocol, TypeVar

from bridge.pulsar.pb import PulsarApi_pb2 as pb

_C = TypeVar("_C", contravariant=True)
"""The connection: `BrokerConnection`, which imports this."""


class ConnectionHandler(Protocol[_C]):
    """A producer, a consumer or a topic watch, open on a connection."""

    def detached(self, connection: _C) -> None:
        """The connection is lost, or the broker closed this handler on it: nothing more may be sent."""


class ProducerHandler(ConnectionHandler[_C], Protocol[_C]):
    """A producer as its connection sees it."""

    def receipt(self, connection: _C, receipt: pb.CommandSendReceipt) -> None:
        """An entry is stored."""

    def send_error(self, connection: _C, error: pb.CommandSendError) -> None:
        """An entry is not."""


class ConsumerHandler(ConnectionHandler[_C], Protocol[_C]):
    """A consumer as its connection sees it."""

    def message(self, message: pb.CommandMessage, body: memoryview) -> None:
        """An entry has come; the view stays valid."""

    def reached_end(self) -> None:
        """The topic is terminated and everything was delivered."""

    def active_changed(self, active: bool) -> None:
        """This consumer of a failover subscription is (not) the one that gets entries."""


class TopicWatchHandler(ConnectionHandler[_C], Protocol[_C]):
    """A topic watch as its connection sees it."""

    def changed(self, update: pb.CommandWatchTopicUpdate) -> None:
        """Topics came or went."""
