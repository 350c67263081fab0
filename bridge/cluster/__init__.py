"""Which bridge node leads which partition: a single node, so far, which leads them all."""

import base64
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode

LEADER_EPOCH = 0
"""The epoch of every partition's leader. Pulsar fences writers itself, so the bridge has no epochs of its own."""

_NAMESPACE = uuid.UUID("0c1b1c63-93b8-4b2f-a3a9-0e5c0a3a7f0e")


def check_epoch(client_epoch: int) -> None:
    """Refuse what a client believes of another leader's time (KIP-320); −1: it believes nothing."""
    if client_epoch > LEADER_EPOCH:
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {client_epoch} is newer than {LEADER_EPOCH}")
    if -1 < client_epoch < LEADER_EPOCH:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {client_epoch} is older than {LEADER_EPOCH}")


@dataclass(frozen=True, slots=True)
class Node:
    """A bridge process as clients see it: a Kafka broker."""

    id: int
    host: str
    port: int


class Cluster:
    """The nodes of one bridge cluster."""

    def __init__(self, node: Node, cluster_id: str) -> None:
        self.node = node
        self.cluster_id = cluster_id

    @property
    def nodes(self) -> list[Node]:
        """All live nodes."""
        return [self.node]

    @property
    def controller(self) -> Node:
        """The node that clients send administrative requests to."""
        return self.node

    def check_replicas(self, replicas: Sequence[int]) -> None:
        """Raise INVALID_REPLICA_ASSIGNMENT unless a partition can be on these nodes (`ReplicationControlManager`)."""
        text = "The manual partition assignment includes "
        if not replicas:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text + "an empty replica list.")
        known = {node.id for node in self.nodes}
        for node, times in sorted(Counter(replicas).items()):
            if node not in known:
                text += f"broker {node}, but no such broker is registered."
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
            if times > 1:
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text + f"the broker {node} more than once.")

    def leader(self, topic: str, partition: int) -> Node:
        """The node that serves a partition."""
        return self.node


def cluster_id(pulsar_cluster: str, namespace: str) -> str:
    """The Kafka cluster id: 22 characters that stay the same for one namespace of one Pulsar cluster."""
    digest = uuid.uuid5(_NAMESPACE, f"{pulsar_cluster}/{namespace}")
    return base64.urlsafe_b64encode(digest.bytes).rstrip(b"=").decode()
