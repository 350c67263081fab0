"""What producers, consumers and watches share of their client."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bridge.config import PulsarSettings
from bridge.metrics import PulsarMetrics
from bridge.pulsar.connection.lookup import Lookup
from bridge.pulsar.connection.pool import ConnectionPool

_MOST_QUEUED_BYTES: Final = 32 << 20


class QueueMemory:
    """The bytes that all subscriptions of a client hold and their users have not taken."""

    def __init__(self) -> None:
        self.held = 0

    @property
    def is_full(self) -> bool:
        """Whether none may hold more than its buffer."""
        return self.held > _MOST_QUEUED_BYTES


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What a subscription needs of its client."""

    pool: ConnectionPool
    lookup: Lookup
    settings: PulsarSettings
    metrics: PulsarMetrics
    ids: Iterator[int]
    queued: QueueMemory
