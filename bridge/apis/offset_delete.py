"""OffsetDelete: forget committed offsets of a group (KIP-496)."""

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from bridge.apis.offset_commit import ResponseTopic, topic_responses
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message
from bridge.requests.api import Api, Broker, Rest, Right, Rights, ServedBy
from bridge.requests.audit import AuditedChange
from bridge.requests.authorization import Checks
from bridge.requests.rights import GROUP, TOPIC, joined, take_out
from bridge.requests.routes import OF_GROUP
from bridge.requests.session import Session
from bridge.runtime.futures import in_turns
from bridge.security.acls import Operation, Resource


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
class Response:
    """How it went."""

    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: list[ResponseTopic] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Forget them, unless members of the group subscribe to the topic."""
    asked = [
        (topic.name, [one.partition_index for one in topic.partitions]) async for topic in in_turns(request.topics)
    ]
    unwanted = [(name, index) async for name, indexes in in_turns(asked) for index in indexes]
    try:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        errors = await broker.offsets.delete(request.group_id, unwanted)
    except KafkaError as error:
        return Response(error_code=error.code)
    return Response(error_code=ErrorCode.NONE, topics=await broker.cpu_thread.run(topic_responses, asked, errors))


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The partitions that the group has forgotten."""
    for topic in response.topics if not response.error_code else ():
        for one in topic.partitions:
            detail = f"{topic.name}-{one.partition_index}"
            yield AuditedChange(one.error_code, "group", request.group_id, "offsets deleted", detail)


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    await checks.require(Operation.DELETE, Resource(GROUP, request.group_id))
    refused = await take_out(request, checks, Operation.READ, TOPIC, "topics", "name")
    asked = [(one.name, [partition.partition_index for partition in one.partitions]) for one in refused]
    topics = topic_responses(asked, {}, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return joined(await rest(request), Response(error_code=ErrorCode.NONE, topics=topics))


API = Api(
    key=47,
    name="OffsetDelete",
    min_version=0,
    max_version=0,
    flexible=None,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (Right(Operation.DELETE, GROUP), Right(Operation.READ, TOPIC)),
        _check_rights,
    ),
    audit=audit,
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
)
