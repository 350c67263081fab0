"""ElectLeaders: make preferred or other replicas leaders (KIP-183); each partition has one replica, which leads it.

v1 adds unclean elections and a top-level error (KIP-460); v2 is flexible.
"""

from functools import partial
from typing import Annotated

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message, since
from bridge.requests.api import Api, Broker
from bridge.requests.error_response import everywhere
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.runtime.futures import gathered
from bridge.security.acls import Operation

PREFERRED, UNCLEAN = 0, 1


@message
class RequestTopic:
    """Partitions of a topic."""

    topic: str
    partitions: list[Int32]


@message
class Request:
    """The partitions, null for all."""

    election_type: Annotated[Int8, since(1)] = PREFERRED
    topic_partitions: list[RequestTopic] | None
    timeout_ms: Int32 = 60_000


@message
class ResponsePartition:
    """One partition's result."""

    partition_id: Int32
    error_code: Int16
    error_message: str | None


@message
class ResponseTopic:
    """A topic's partitions."""

    topic: str
    partition_result: list[ResponsePartition]


@message
class Response:
    """How each went; of all partitions only those where an election was needed."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer that no election is needed, as Kafka does where the preferred replica leads."""
    known = request.election_type in (PREFERRED, UNCLEAN)

    async def topic(wanted: RequestTopic) -> ResponseTopic:
        judge = partial(_judge, wanted.topic, request.election_type, broker)
        return ResponseTopic(topic=wanted.topic, partition_result=await gathered(map(judge, wanted.partitions)))

    return Response(
        error_code=ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST,
        replica_election_results=await gathered(map(topic, request.topic_partitions or ())),
    )


async def _judge(name: str, election_type: int, broker: Broker, index: int) -> ResponsePartition:
    try:
        if election_type not in (PREFERRED, UNCLEAN):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
        topic = await broker.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        if not 0 <= index < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    except KafkaError as error:
        return ResponsePartition(partition_id=index, error_code=error.code, error_message=error.message or None)


API = Api(
    key=43,
    name="ElectLeaders",
    min_version=0,
    max_version=2,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.ALTER, of_a_namespace=True),
    error_response=everywhere(Response),
)
