"""OffsetDelete: forget committed offsets of a group (KIP-496)."""

from collections.abc import Mapping
from dataclasses import field

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.groups.offsets import Where
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message


@message
class RequestPartition:
    """A partition."""

    partition_index: Int32


@message
class RequestTopic:
    """Partitions of a topic."""

    name: str
    partitions: list[RequestPartition] = field(default_factory=list)


@message
class Request:
    """What a group is to forget."""

    group_id: str
    topics: list[RequestTopic] = field(default_factory=list)


@message
class ResponsePartition:
    """How one went."""

    partition_index: Int32
    error_code: Int16


@message
class ResponseTopic:
    """Partitions of a topic."""

    name: str
    partitions: list[ResponsePartition] = field(default_factory=list)


@message
class Response:
    """How it went."""

    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: list[ResponseTopic] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Forget them, unless members of the group subscribe to the topic."""
    unwanted = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
    try:
        errors = await broker.offsets.delete(request.group_id, unwanted)
    except KafkaError as error:
        return Response(error_code=error.code)
    return Response(error_code=ErrorCode.NONE, topics=[_topic(topic, errors) for topic in request.topics])


def _topic(topic: RequestTopic, errors: Mapping[Where, ErrorCode]) -> ResponseTopic:
    return ResponseTopic(
        name=topic.name,
        partitions=[
            ResponsePartition(partition_index=one.partition_index, error_code=errors[topic.name, one.partition_index])
            for one in topic.partitions
        ],
    )


API = Api(
    key=47,
    name="OffsetDelete",
    min_version=0,
    max_version=0,
    flexible=None,
    handle=handle,
    request=Request,
    response=Response,
)
