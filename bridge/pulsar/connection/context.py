"""What producers, consumers and watches share of their client."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bridge.config import PulsarSettings
from bridge.pulsar.connection.lookup import Lookup
from bridge.pulsar.connection.pool import ConnectionPool
from bridge.telemetry.metrics import PulsarMetrics

_MOST_QUEUED_BYTES: Final = 32 << 20
_MOST_LENT_BYTES: Final = 24 << 20


class QueueMemory:
    """The bytes that all subscriptions of a client hold and their users have not taken."""

    def __init__(self) -> None:
        self.held = 0
        self.lent = 0
        """By which buffers may be larger, beyond what all may hold."""

    def lend(self, count: int) -> bool:
        """Let a buffer be larger by so many bytes, if there are any; to be returned as a negative number."""
        if count > 0 and self.lent + count > _MOST_LENT_BYTES:
            return False
        self.lent += count
        return True

    @property
    def is_full(self) -> bool:
        """Whether none may hold more than its buffer."""
        return self.held > _MOST_QUEUED_BYTES + self.lent


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What a subscription needs of its client."""

    pool: ConnectionPool
    lookup: Lookup
    settings: PulsarSettings
    metrics: PulsarMetrics
    ids: Iterator[int]
    queued: QueueMemory
    most_delay: float
    """The longest wait before another attempt to attach, in seconds."""
