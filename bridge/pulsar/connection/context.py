"""What producers, consumers and watches share of their client."""

from collections.abc import Iterator
from dataclasses import dataclass

from bridge.config import PulsarSettings
from bridge.metrics import PulsarMetrics
from bridge.pulsar.connection.lookup import Lookup
from bridge.pulsar.connection.pool import ConnectionPool


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What a subscription needs of its client."""

    pool: ConnectionPool
    lookup: Lookup
    settings: PulsarSettings
    metrics: PulsarMetrics
    ids: Iterator[int]
