"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932).

v0 was the early access of Kafka 4.0, which no broker since serves. Every version is flexible.
"""

import asyncio
from math import ceil

from bridge.apis.consumer_group_heartbeat import Assigned, assigned_of, check_subscription, require
from bridge.errors import KafkaError
from bridge.groups.configs import SHARE_HEARTBEAT
from bridge.groups.consumer.model import JOINING, LEAVING
from bridge.groups.epochs.group import HeartbeatAnswer, MemberHeartbeat
from bridge.groups.share.coordinator import MOST_SHARE_MEMBERS
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message
from bridge.requests.api import Api, Broker, RequestLimit, Right, Rights, ServedBy
from bridge.requests.responses import DeferredResponse
from bridge.requests.rights import GROUP, TOPIC
from bridge.requests.routes import OF_GROUP
from bridge.requests.session import Session
from bridge.security.acls import Operation


@message
class Request:
    """A member; null for what is as before."""

    group_id: str
    member_id: str
    member_epoch: Int32
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


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
    _check(request)
    joined = request.member_epoch >= JOINING
    interval = broker.groups.configs.number(request.group_id, SHARE_HEARTBEAT) if joined else 0
    beat = await broker.groups.share_heartbeat(request.group_id, _heartbeat(request, session))
    return await _answer(beat, interval) if beat.done() else DeferredResponse(_answer(beat, interval))


async def _answer(beat: "asyncio.Future[HeartbeatAnswer]", interval: int) -> Response:
    try:
        answer = await beat
    except KafkaError as error:
        return Response(
            error_code=error.code, error_message=error.message or None, member_epoch=0, heartbeat_interval_ms=0
        )
    return Response(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=min(interval, ceil(answer.wait * 1000)) if answer.wait else interval,
        assignment=assigned_of(answer),
    )


def _check(request: Request) -> None:
    """What Kafka's GroupCoordinatorService looks at first, in its order."""
    for name, text in {"MemberId": request.member_id, "GroupId": request.group_id, "RackId": request.rack_id}.items():
        require(text is None or bool(text.strip()), f"{name} can't be empty.")
    if request.member_epoch == JOINING:
        require(bool(request.subscribed_topic_names), "SubscribedTopicNames must be set in first request.")
    require(request.member_epoch >= LEAVING, "MemberEpoch is invalid.")


def _heartbeat(request: Request, session: Session) -> MemberHeartbeat:
    names = request.subscribed_topic_names
    return MemberHeartbeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        topics=None if names is None else frozenset(names),
        client_id=session.client_id,
        client_host=session.host,
    )


API = Api(
    key=76,
    name="ShareGroupHeartbeat",
    min_version=1,
    max_version=1,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (Right(Operation.READ, GROUP), Right(Operation.DESCRIBE, TOPIC, "that it subscribes to")), check_subscription
    ),
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
    waits=True,
    limits=(
        RequestLimit("members of a share group", MOST_SHARE_MEMBERS, ErrorCode.GROUP_MAX_SIZE_REACHED),
        RequestLimit("bytes of a member's metadata", "groups.max_member_metadata_bytes", ErrorCode.INVALID_REQUEST),
        RequestLimit(
            "bytes of all members' metadata", "groups.max_metadata_bytes", ErrorCode.COORDINATOR_NOT_AVAILABLE
        ),
    ),
)
