"""AlterShareGroupOffsets: let a share group without members begin elsewhere (KIP-932)."""

from collections.abc import Iterator
from typing import Any

from bridge.errors import KafkaError
from bridge.groups.share.states import Place
from bridge.kafka.error_codes import ErrorCode, text_of
from bridge.kafka.message import Int16, Int32, Int64, Uuid, message
from bridge.kafka.schema import ZERO_UUID
from bridge.requests.api import Api, Broker, Rest, Right, Rights, ServedBy
from bridge.requests.audit import AuditedChange
from bridge.requests.authorization import Checks
from bridge.requests.rights import GROUP, TOPIC, joined, take_out
from bridge.requests.routes import OF_GROUP
from bridge.requests.session import Session
from bridge.requests.topics import known_topic
from bridge.runtime.futures import gathered_for
from bridge.security.acls import Operation, Resource


@message
class RequestPartition:
    """A partition, and where it is to begin."""

    partition_index: Int32
    start_offset: Int64


@message
class RequestTopic:
    """Partitions of a topic."""

    topic_name: str
    partitions: list[RequestPartition]


@message
class Request:
    """Partitions of a group."""

    group_id: str
    topics: list[RequestTopic]


@message
class ResponsePartition:
    """What became of a partition."""

    partition_index: Int32
    error_code: Int16
    error_message: str | None = None


@message
class ResponseTopic:
    """The partitions of a topic."""

    topic_name: str
    topic_id: Uuid = ZERO_UUID
    partitions: list[ResponsePartition]


@message
class Response:
    """What became of each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    responses: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Store the offsets; the answer comes when they are."""
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, text_of(ErrorCode.INVALID_GROUP_ID))
    topics = await gathered_for([one.topic_name for one in request.topics], lambda name: known_topic(name, broker))
    starts, responses = dict[Place, int](), list[ResponseTopic]()
    for asked in request.topics:
        topic = topics[asked.topic_name]
        partitions = []
        for one in asked.partitions:
            error = ErrorCode.NONE
            if topic is None or not 0 <= one.partition_index < topic.partitions:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif one.start_offset < 0:
                error = ErrorCode.INVALID_REQUEST
            else:
                starts[topic.id, one.partition_index] = one.start_offset
            partitions.append(_result(one.partition_index, error))
        topic_id = ZERO_UUID if topic is None else topic.id
        responses.append(ResponseTopic(topic_name=asked.topic_name, topic_id=topic_id, partitions=partitions))
    await broker.groups.alter_share_offsets(request.group_id, starts)
    return Response(error_code=ErrorCode.NONE, responses=responses)


def _result(partition: int, error: ErrorCode) -> ResponsePartition:
    return ResponsePartition(
        partition_index=partition, error_code=error, error_message=text_of(error) if error else None
    )


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The partitions that begin elsewhere."""
    for topic in response.responses if not response.error_code else ():
        for one in topic.partitions:
            detail = f"{topic.topic_name}-{one.partition_index}"
            yield AuditedChange(one.error_code, "group", request.group_id, "share offsets altered", detail)


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    await checks.require(Operation.READ, Resource(GROUP, request.group_id))
    taken = await take_out(request, checks, Operation.READ, TOPIC, "topics", "topic_name")
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = [
        ResponseTopic(
            topic_name=one.topic_name, partitions=[_result(part.partition_index, denied) for part in one.partitions]
        )
        for one in taken
    ]
    return joined(await rest(request), Response(error_code=ErrorCode.NONE, responses=refused))


API = Api(
    key=91,
    name="AlterShareGroupOffsets",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.READ, GROUP), Right(Operation.READ, TOPIC)), _check_rights),
    audit=audit,
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
)
