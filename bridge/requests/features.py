"""Features that a cluster of Kafka agrees on (KIP-584): `transaction.version`, `share.version`, `streams.version`."""

from typing import Final

from bridge.requests.api import Broker

TRANSACTION_VERSION: Final = "transaction.version"
MAX_TRANSACTION_VERSION: Final = 2
SHARE_VERSION: Final = "share.version"
MAX_SHARE_VERSION: Final = 1
"""Share groups (KIP-932)."""
STREAMS_VERSION: Final = "streams.version"
MAX_STREAMS_VERSION: Final = 1
"""Streams groups (KIP-1071)."""
STREAMS_APIS: Final = frozenset((88, 89))
"""Those of streams groups."""


def streams_are_served(broker: Broker) -> bool:
    """Whether clients are told of streams groups: not while a node of 1.0 may come to coordinate them.

    Who asks all the same is answered.
    """
    return broker.cluster.snapshot.has_transactions


def transaction_version(broker: Broker) -> int | None:
    """The version that all nodes go by, 1 or 2; None while a node of before knows no transactions.

    2 where each node can ask the coordinator of another one: a batch adds its partition to its transaction by itself
    (KIP-890), wherever that is led.
    """
    nodes = broker.cluster.snapshot
    if not nodes.has_transactions:
        return None
    return broker.settings.transactions.version if nodes.can_ask_each_other else 1
