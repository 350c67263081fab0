"""What messages of streams groups (KIP-1071) have in common."""

from bridge.kafka.message import Int16, Int32, Int64, Uint16, message


@message
class KeyValue:
    """A config or a tag."""

    key: str
    value: str


@message
class TopicInfo:
    """An internal topic; 0 where a number is not given."""

    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


@message
class Endpoint:
    """Where a process answers interactive queries."""

    host: str
    port: Uint16


@message
class TaskIds:
    """Tasks of a subtopology."""

    subtopology_id: str
    partitions: list[Int32]


@message
class TaskOffset:
    """How far the changelog of a task is known."""

    subtopology_id: str
    partition: Int32
    offset: Int64
