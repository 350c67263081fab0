"""DeleteShareGroupOffsets: let a share group without members forget topics (KIP-932)."""

from collections.abc import Iterator
from typing import Any

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode, text_of
from bridge.kafka.message import Int16, Int32, Uuid, message
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
class RequestTopic:
    """A topic."""

    topic_name: str


@message
class Request:
    """Topics that a group is to forget."""

    group_id: str
    topics: list[RequestTopic]


@message
class ResponseTopic:
    """What became of a topic."""

    topic_name: str
    topic_id: Uuid = ZERO_UUID
    error_code: Int16
    error_message: str | None = None


@message
class Response:
    """What became of each topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    responses: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Forget the topics; the answer comes when that is stored."""
    if not request.topics:
        return Response(error_code=ErrorCode.NONE, responses=[])
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, text_of(ErrorCode.INVALID_GROUP_ID))
    topics = await gathered_for([one.topic_name for one in request.topics], lambda name: known_topic(name, broker))
    ids = {name: topic.id for name, topic in topics.items() if topic is not None}
    forgotten = await broker.groups.delete_share_offsets(request.group_id, set(ids.values()))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    responses = []
    for name in (one.topic_name for one in request.topics):
        if name not in ids:
            responses.append(_result(name, unknown, text_of(unknown)))
        elif ids[name] not in forgotten:
            responses.append(_result(name, unknown, "There is no offset information to delete."))
        else:
            responses.append(ResponseTopic(topic_name=name, topic_id=ids[name], error_code=ErrorCode.NONE))
    return Response(error_code=ErrorCode.NONE, responses=responses)


def _result(name: str, error: ErrorCode, text: str) -> ResponseTopic:
    return ResponseTopic(topic_name=name, error_code=error, error_message=text)


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The topics that the group has forgotten."""
    for one in response.responses if not response.error_code else ():
        yield AuditedChange(one.error_code, "group", request.group_id, "share offsets deleted", one.topic_name)


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    await checks.require(Operation.DELETE, Resource(GROUP, request.group_id))
    taken = await take_out(request, checks, Operation.READ, TOPIC, "topics", "topic_name")
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = [_result(one.topic_name, denied, text_of(denied)) for one in taken]
    return joined(await rest(request), Response(error_code=ErrorCode.NONE, responses=refused))


API = Api(
    key=92,
    name="DeleteShareGroupOffsets",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.DELETE, GROUP), Right(Operation.READ, TOPIC)), _check_rights),
    audit=audit,
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
)
