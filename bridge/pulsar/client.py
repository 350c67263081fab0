"""The client: wires connections, lookups, producers and readers."""

from collections.abc import Callable, Mapping, Sequence

from bridge.config import PulsarSettings
from bridge.metrics import PulsarMetrics
from bridge.pulsar.consumer import Consumer, Reader
from bridge.pulsar.producer import Producer
from bridge.pulsar.types import AccessMode, Entry, Position


class TopicWatch:
    """Made by `PulsarClient.watch_topics`."""

    topics: frozenset[str]

    async def close(self) -> None:
        """Stop watching."""


class PulsarClient:
    """One client per Pulsar cluster; everything it makes shares its connections."""

    def __init__(self, settings: PulsarSettings, metrics: PulsarMetrics) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Connect once to the service URL, proving the address and the login."""

    async def close(self) -> None:
        """Close everything that was made here."""

    def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        properties: Mapping[str, str] | None = None,
        access_mode: AccessMode = AccessMode.SHARED,
    ) -> Producer:
        """A producer that connects in the background."""
        raise NotImplementedError

    async def reader(
        self,
        topic: str,
        start: Position,
        *,
        inclusive: bool = True,
        permits: int = 1000,
        max_buffer: int = 8 << 20,
        read_compacted: bool = False,
    ) -> Reader:
        """A reader over an exclusive non-durable subscription; returns once it is open."""
        raise NotImplementedError

    async def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        earliest: bool = True,
        shared: bool = False,
        permits: int = 1000,
        max_buffer: int = 8 << 20,
        properties: Mapping[str, str] | None = None,
    ) -> Consumer:
        """A consumer over a durable subscription; returns once it is open."""
        raise NotImplementedError

    async def read_entry(self, topic: str, position: Position) -> Entry | None:
        """The first entry at or after the position, None when the topic ends before it."""
        raise NotImplementedError

    async def partitions(self, topic: str) -> int:
        """How many partitions; 0 = not partitioned; PulsarError(TopicNotFound). Never creates anything."""
        raise NotImplementedError

    async def topics_of_namespace(self, namespace: str) -> list[str]:
        """Full names of the persistent topics (partitions each on their own)."""
        raise NotImplementedError

    async def watch_topics(
        self, namespace: str, callback: Callable[[Sequence[str], Sequence[str]], None]
    ) -> TopicWatch | None:
        """Call back with (added, removed) topics; None where the broker does not offer it."""
        raise NotImplementedError
