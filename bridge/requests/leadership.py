"""Opens the logs of partitions that this node leads, and says of the others who does.

With `or_follower` also those that it serves to consumers of its rack.

The check comes before the log: a node opens no readers and producers for what it does not lead. Topics and partitions
that do not exist are told as such by every node.
"""

from bridge.cluster import NO_EPOCH, Cluster
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from bridge.requests.api import Broker
from bridge.storage.partition import PartitionLog
from bridge.storage.topics.topic import Topic

_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class LeaderHints:
    """The leaders that one answer names to clients that have asked the wrong node (KIP-951), all of one view."""

    def __init__(self, cluster: Cluster, listener: str | None) -> None:
        """`listener`: that by which the client came in; None: no leader is named, for clients see no single nodes."""
        self._listener = listener
        self._here = cluster.node_id
        self._cluster = cluster.snapshot
        self._endpoints: dict[int, NodeEndpoint] = {}

    def leader(self, topic: str, partition: int, error: int) -> LeaderIdAndEpoch | None:
        """Who leads a partition; None where the client has asked the right node, or none is known."""
        if error not in _HINTED or self._listener is None:
            return None
        leader = self._cluster.leader(topic, partition)
        node = None if leader.node is None else self._cluster.node_at(leader.node.id, self._listener)
        if node is None or (node.id == self._here and error == ErrorCode.NOT_LEADER_OR_FOLLOWER):
            return None
        self._endpoints[node.id] = NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
        return LeaderIdAndEpoch(leader_id=node.id, leader_epoch=leader.epoch)

    @property
    def endpoints(self) -> list[NodeEndpoint]:
        """The addresses of the leaders that were named."""
        return list(self._endpoints.values())


def log_here(
    broker: Broker, topic: Topic, partition: int, client_epoch: int = NO_EPOCH, *, or_follower: bool = False
) -> PartitionLog:
    """The log of a partition that this node leads, of a topic that is known; raises KafkaError as `log_of`, and does
    not wait: UNKNOWN_LEADER_EPOCH tells that `Cluster.caught_up` may help."""
    if not 0 <= partition < topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cluster = broker.cluster
    leader = cluster.snapshot.leader(topic.name, partition)
    is_follower = or_follower and cluster.follows(leader, topic.name, partition)
    cluster.check(leader, client_epoch, is_follower=is_follower)
    return broker.topics.log(topic, partition)


async def log_of(broker: Broker, name: str, partition: int, client_epoch: int = NO_EPOCH) -> PartitionLog:
    """The log of a partition that this node leads.

    Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION), or what `Cluster.check_leader` raises; a client whose leader epoch is
    newer is kept for a moment, since the view is about to come here as well.
    """
    topic = await broker.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return await opened(broker, topic, partition, client_epoch)


async def opened(broker: Broker, topic: Topic, partition: int, client_epoch: int = NO_EPOCH) -> PartitionLog:
    """As `log_of`, of a topic that is known."""
    try:
        return log_here(broker, topic, partition, client_epoch)
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_LEADER_EPOCH:
            raise
    await broker.cluster.caught_up(topic.name, partition, client_epoch)
    return log_here(broker, topic, partition, client_epoch)
