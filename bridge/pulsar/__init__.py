"""A Pulsar client for asyncio: the binary protocol without schemas and transactions, and the admin REST interface.

`PulsarClient` and `Admin` are the two doors in; messages are `bridge.pulsar.pb.PulsarApi_pb2`.

It knows nothing of Kafka. Of the bridge it takes its settings and metrics (`config.PulsarSettings`,
`metrics.PulsarMetrics`), `own_certificate`, `errors`, `log`, `futures`, `fairness`, `http1`, `http_client`, and the
CRC32-C of `codec`.
"""

from bridge.pulsar.admin import Admin, AdminError
from bridge.pulsar.auth import Access
from bridge.pulsar.client import PulsarClient
from bridge.pulsar.consumer import Consumer, Reader
from bridge.pulsar.producer import Producer
from bridge.pulsar.topic_watch import TopicWatch
from bridge.pulsar.types import (
    EARLIEST,
    LATEST,
    AccessMode,
    ClientClosed,
    ConnectionLost,
    ConsumedEntry,
    Entry,
    MessageTooLarge,
    OperationTimeout,
    Position,
    PulsarError,
    Receipt,
    SubscriptionType,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "Access",
    "AccessMode",
    "Admin",
    "AdminError",
    "ClientClosed",
    "ConnectionLost",
    "ConsumedEntry",
    "Consumer",
    "Entry",
    "MessageTooLarge",
    "OperationTimeout",
    "Position",
    "Producer",
    "PulsarClient",
    "PulsarError",
    "Reader",
    "Receipt",
    "SubscriptionType",
    "TopicWatch",
]
