"""The features that a cluster of Kafka agrees on (KIP-584): of those `transaction.version` and `share.version`."""

from typing import Final

from bridge.requests.api import Broker

TRANSACTION_VERSION: Final = "transaction.version"
MAX_TRANSACTION_VERSION: Final = 2
SHARE_VERSION: Final = "share.version"
MAX_SHARE_VERSION: Final = 1
"""Share groups (KIP-932)."""


def transaction_version(broker: Broker) -> int | None:
    """The version that all nodes go by, 1 or 2; None while a node of before knows no transactions.

    2 where each node can ask the coordinator of another one: a batch adds its partition to its transaction by itself
    (KIP-890), wherever that is led.
    """
    nodes = broker.cluster.snapshot
    if not nodes.has_transactions:
        return None
    return broker.settings.transactions.version if nodes.can_ask_each_other else 1
