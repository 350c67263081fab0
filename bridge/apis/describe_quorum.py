"""DescribeQuorum: the controllers that hold Kafka's metadata (KIP-595); there are none, Pulsar holds it.

v1 adds the times of replicas' last fetches (KIP-836); v2 error texts, directories and listeners (KIP-853).
"""

from dataclasses import field
from typing import Annotated

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID, Int16, Int32, Int64, Uint16, Uuid, message, since, with_defaults
from bridge.requests.api import Api, Broker
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.security.acls import Operation

CLUSTER_METADATA = "__cluster_metadata"


@message
class RequestPartition:
    """A partition."""

    partition_index: Int32


@message
class RequestTopic:
    """A topic's partitions."""

    topic_name: str
    partitions: list[RequestPartition]


@message
class Request:
    """The partitions whose quorum to describe."""

    topics: list[RequestTopic]


@message
class Replica:
    """A voter or an observer."""

    replica_id: Int32
    replica_directory_id: Annotated[Uuid, since(2)] = ZERO_UUID
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, since(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, since(1)] = -1


@message
class ResponsePartition:
    """A partition's quorum."""

    partition_index: Int32
    error_code: Int16
    error_message: Annotated[str | None, since(2)] = None
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[Replica]
    observers: list[Replica]


@message
class ResponseTopic:
    """A topic's partitions."""

    topic_name: str
    partitions: list[ResponsePartition]


@message
class Listener:
    """Where a controller listens."""

    name: str
    host: str
    port: Uint16


@message
class Node:
    """A controller."""

    node_id: Int32
    listeners: list[Listener]


@message
class Response:
    """The quorums."""

    error_code: Int16
    error_message: Annotated[str | None, since(2)] = None
    topics: list[ResponseTopic]
    nodes: Annotated[list[Node], since(2)] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer that there is no quorum, with an error that clients do not retry."""
    if any(topic.topic_name == CLUSTER_METADATA for topic in request.topics):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "There is no KRaft quorum here: Pulsar holds the metadata.")
    return Response(
        error_code=ErrorCode.NONE,
        topics=[
            ResponseTopic(
                topic_name=topic.topic_name, partitions=[_unknown(one.partition_index) for one in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _unknown(index: int) -> ResponsePartition:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return with_defaults(ResponsePartition, partition_index=index, error_code=error, error_message=error.text)


API = Api(
    key=55,
    name="DescribeQuorum",
    min_version=0,
    max_version=2,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.DESCRIBE, of_a_namespace=True),
    read_only=True,
    pure=True,
)
