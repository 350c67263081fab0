"""AlterPartitionReassignments: move partitions to other brokers (KIP-455); each stays where its leader is.

v1 may refuse to change the number of replicas (KIP-860).
"""

from typing import Annotated

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message, since
from bridge.requests.api import Api, Broker
from bridge.requests.error_response import everywhere
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.runtime.futures import gathered
from bridge.security.acls import Operation


@message
class RequestPartition:
    """The brokers that are to hold it; null: cancel its move."""

    partition_index: Int32
    replicas: list[Int32] | None = None


@message
class RequestTopic:
    """A topic's partitions."""

    name: str
    partitions: list[RequestPartition]


@message
class Request:
    """The wanted brokers of partitions."""

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Annotated[bool, since(1)] = True
    topics: list[RequestTopic]


@message
class ResponsePartition:
    """One partition's result."""

    partition_index: Int32
    error_code: Int16
    error_message: str | None


@message
class ResponseTopic:
    """A topic's partitions."""

    name: str
    partitions: list[ResponsePartition]


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[bool, since(1)] = True
    error_code: Int16
    error_message: str | None
    responses: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Accept the present placement, and refuse any other: Pulsar places the data itself."""

    async def topic(wanted: RequestTopic) -> ResponseTopic:
        may_resize = request.allow_replication_factor_change
        found = (_partition(wanted.name, one, broker, may_resize=may_resize) for one in wanted.partitions)
        return ResponseTopic(name=wanted.name, partitions=await gathered(found))

    return Response(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=await gathered(map(topic, request.topics)),
    )


async def _partition(name: str, wanted: RequestPartition, broker: Broker, *, may_resize: bool) -> ResponsePartition:
    code, text = int(ErrorCode.NONE), ""
    try:
        topic, index = await broker.topics.get(name), wanted.partition_index
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        if not 0 <= index < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
        if wanted.replicas is None:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        broker.cluster.check_replicas(wanted.replicas)
        cluster = broker.cluster.snapshot
        present = [*cluster.named_leader(name, index).replicas, *cluster.followers(name, index)]  # as Metadata says
        if len(wanted.replicas) != len(present) and not may_resize:
            text = f"The replication factor is changed from {len(present)} to {len(wanted.replicas)}"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        if wanted.replicas != present:
            text = f"It is on {present}, and cannot be moved: Pulsar places the data, and the nodes agree on leaders"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    except KafkaError as error:
        code, text = error.code, error.message
    return ResponsePartition(partition_index=wanted.partition_index, error_code=code, error_message=text or None)


API = Api(
    key=45,
    name="AlterPartitionReassignments",
    min_version=0,
    max_version=1,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.ALTER, of_a_namespace=True),
    error_response=everywhere(Response),
)
