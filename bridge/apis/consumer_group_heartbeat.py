"""ConsumerGroupHeartbeat: join, stay in and leave a group of the new consumer protocol (KIP-848).

v1 adds subscribed_topic_regex, and members choose their own ids (KIP-1082). Every version is flexible.
"""

import asyncio
import uuid
from typing import Annotated, Any

from bridge.errors import KafkaError
from bridge.groups.configs import CONSUMER_HEARTBEAT
from bridge.groups.consumer.assignors import ASSIGNORS
from bridge.groups.consumer.model import JOINING, LEAVING, LEAVING_STATIC, assignment
from bridge.groups.consumer.patterns import MAX_MATCHES
from bridge.groups.consumer.regex import MAX_PATTERN_LENGTH
from bridge.groups.consumer.topics import ALL_CLIENTS, Viewer
from bridge.groups.epochs.group import HeartbeatAnswer, MemberHeartbeat
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Uuid, message, since
from bridge.requests.api import Api, Broker, RequestLimit, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks, checks_of
from bridge.requests.responses import DeferredResponse
from bridge.requests.rights import GROUP, TOPIC
from bridge.requests.routes import OF_GROUP
from bridge.requests.session import Session
from bridge.requests.topics import has_many
from bridge.security.acls import Operation, Resource


@message
class TopicPartitions:
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: list[Int32]


@message
class Request:
    """A member; null, and −1 for the timeout, for what is as before."""

    group_id: str
    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: Annotated[str | None, since(1)] = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None


@message
class Assigned:
    """What the member may read, as soon as it has given back everything else."""

    topic_partitions: list[TopicPartitions]


@message
class Response:
    """The member's epoch, and its assignment where there is news."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assigned | None = None


async def handle(request: Request, broker: Broker, session: Session) -> Response | DeferredResponse[Response]:
    """Take the heartbeat to its group; the answer comes when what it says is stored."""
    interval = (
        broker.groups.configs.number(request.group_id, CONSUMER_HEARTBEAT) if request.member_epoch >= JOINING else 0
    )
    try:
        _check(request, session.api_version)
        viewer = _viewer(broker, session)
        if has_many(request.topic_partitions):
            said = await broker.cpu_thread.run(_heartbeat, request, session, viewer.name)
        else:
            said = _heartbeat(request, session, viewer.name)
        beat = await broker.groups.consumer_heartbeat(request.group_id, said, viewer)
    except KafkaError as error:
        return _refused(error)
    return await _answer(beat, interval) if beat.done() else DeferredResponse(_answer(beat, interval))


async def _answer(beat: "asyncio.Future[HeartbeatAnswer]", interval: int) -> Response:
    try:
        return _response(await beat, interval)
    except KafkaError as error:
        return _refused(error)


def _check(request: Request, version: int) -> None:
    """What Kafka's GroupCoordinatorService looks at first, in its order."""
    epoch = request.member_epoch
    named = version >= 1 or epoch > JOINING or epoch == LEAVING
    texts = {"GroupId": request.group_id, "InstanceId": request.instance_id, "RackId": request.rack_id}
    for name, text in (({"MemberId": request.member_id} if named else {}) | texts).items():
        require(text is None or bool(text.strip()), f"{name} can't be empty.")
    if epoch == JOINING:
        require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        require(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
        subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        require(subscribes, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    require(epoch != LEAVING_STATIC or request.instance_id is not None, "InstanceId can't be null.")
    require(epoch >= LEAVING_STATIC, "MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in ASSIGNORS:
        text = f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(ASSIGNORS)}."
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, text)


def require(holds: bool, text: str) -> None:
    """INVALID_REQUEST with this text, unless something holds."""
    if not holds:
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def _viewer(broker: Broker, session: Session) -> Viewer:
    """A pattern fits what its client may describe (`GroupMetadataManager.filterTopicDescribeAuthorizedTopics`)."""
    checks = checks_of(broker, session)
    return ALL_CLIENTS if checks is None else Viewer(checks.viewer, checks.describable)


def _heartbeat(request: Request, session: Session, viewer: str) -> MemberHeartbeat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return MemberHeartbeat(
        member_id=request.member_id or str(uuid.uuid4()),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if names is None else frozenset(names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if owned is None else assignment((one.topic_id, part) for one in owned for part in one.partitions),
        client_id=session.client_id,
        client_host=session.host,
        viewer=viewer,
    )


def _response(beat: HeartbeatAnswer, interval: int) -> Response:
    return Response(
        error_code=ErrorCode.NONE,
        member_id=beat.member_id,
        member_epoch=beat.epoch,
        heartbeat_interval_ms=interval,
        assignment=assigned_of(beat),
    )


def assigned_of(beat: HeartbeatAnswer) -> Assigned | None:
    """The assignment of an answer, if it has one."""
    if beat.assignment is None:
        return None
    assigned = beat.assignment.items()
    return Assigned(
        topic_partitions=[TopicPartitions(topic_id=topic, partitions=sorted(numbers)) for topic, numbers in assigned]
    )


def _refused(error: KafkaError) -> Response:
    return Response(error_code=error.code, error_message=error.message or None, member_epoch=0, heartbeat_interval_ms=0)


async def check_subscription(request: Any, checks: Checks, rest: Rest) -> Any:
    """READ of the group, and DESCRIBE of all topics that a heartbeat names."""
    await checks.require(Operation.READ, Resource(GROUP, request.group_id))
    if await checks.denied(Operation.DESCRIBE, TOPIC, request.subscribed_topic_names or ()):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return await rest(request)


API = Api(
    key=68,
    name="ConsumerGroupHeartbeat",
    min_version=0,
    max_version=1,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (
            Right(Operation.READ, GROUP),
            Right(Operation.DESCRIBE, TOPIC, "that it subscribes to; its pattern fits no others"),
        ),
        check_subscription,
    ),
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
    waits=True,
    limits=(
        RequestLimit("members of a group", "groups.consumer_max_members", ErrorCode.GROUP_MAX_SIZE_REACHED),
        RequestLimit("bytes of a member's metadata", "groups.max_member_metadata_bytes", ErrorCode.INVALID_REQUEST),
        RequestLimit(
            "bytes of all members' metadata", "groups.max_metadata_bytes", ErrorCode.COORDINATOR_NOT_AVAILABLE
        ),
        RequestLimit("characters of a pattern", MAX_PATTERN_LENGTH, ErrorCode.INVALID_REGULAR_EXPRESSION),
        RequestLimit("topics that a group's patterns fit", MAX_MATCHES, ErrorCode.GROUP_MAX_SIZE_REACHED),
    ),
)
