"""ListPartitionReassignments: partitions that are being moved between brokers (KIP-455); there are none.

Pulsar places data itself, and clients have no influence on it.
"""

from dataclasses import field

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message
from bridge.requests.api import Api, Broker
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.security.acls import Operation


@message
class RequestTopic:
    """Partitions asked about."""

    name: str
    partition_indexes: list[Int32]


@message
class Request:
    """The partitions asked about, null for all."""

    timeout_ms: Int32 = 60_000
    topics: list[RequestTopic] | None = None


@message
class ResponsePartition:
    """A partition that is being moved."""

    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


@message
class ResponseTopic:
    """A topic's partitions that are being moved."""

    name: str
    partitions: list[ResponsePartition]


@message
class Response:
    """All partitions that are being moved."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    topics: list[ResponseTopic] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer that there are none."""
    return Response(error_code=ErrorCode.NONE)


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error of the answer, with the partitions that were asked about, as Kafka answers."""

    def topic(wanted: RequestTopic) -> ResponseTopic:
        partitions = [
            ResponsePartition(partition_index=index, replicas=[], adding_replicas=[], removing_replicas=[])
            for index in wanted.partition_indexes
        ]
        return ResponseTopic(name=wanted.name, partitions=partitions)

    topics = [topic(one) for one in request.topics or ()]
    return Response(error_code=error, error_message=text or ErrorCode(error).text, topics=topics)


API = Api(
    key=46,
    name="ListPartitionReassignments",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.DESCRIBE, of_a_namespace=True),
    error_response=error_response,
    read_only=True,
)
