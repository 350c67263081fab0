"""Opens the logs of partitions that this node leads, and says of the others who does.

The check comes before the log: a node opens no readers and producers for what it does not lead. Topics and partitions
that do not exist are told as such by every node.
"""

from bridge.api import Broker
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.partition import PartitionLog
from bridge.storage.topics.topic import Topic

NO_EPOCH = -1
"""The leader epoch of a client that does not say which it goes by."""


def log_nowait(broker: Broker, topic: Topic, partition: int, client_epoch: int = NO_EPOCH) -> PartitionLog | None:
    """The log of a partition that this node leads; None if the client may know of a newer leader than this node.

    Raises KafkaError as `log_of`.
    """
    if not 0 <= partition < topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if client_epoch > broker.cluster.snapshot.leader(topic.name, partition).epoch:
        return None
    broker.cluster.check_leader(topic.name, partition, client_epoch)
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
    log = log_nowait(broker, topic, partition, client_epoch)
    if log is None:
        await broker.cluster.caught_up(topic.name, partition, client_epoch)
        broker.cluster.check_leader(topic.name, partition, client_epoch)
        log = broker.topics.log(topic, partition)
    return log
