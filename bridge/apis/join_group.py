"""JoinGroup: become a member of a group, and wait for the rebalance that makes one.

v1 adds the rebalance timeout (KIP-62); v4 has new members join twice (KIP-394); v5 adds static members (KIP-345); v6 is
flexible; v7 tells the protocol type (KIP-559); v8 adds the reason (KIP-800); v9 adds skip_assignment (KIP-814).
"""

import uuid
from typing import Annotated

from bridge.errors import KafkaError
from bridge.groups.budget import MAX_PROTOCOLS
from bridge.groups.classic.events import Join, Joined
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message, nullable_since, since
from bridge.requests.api import Api, Broker, RequestLimit, ServedBy
from bridge.requests.responses import DeferredResponse
from bridge.requests.rights import GROUP, whole
from bridge.requests.routes import OF_GROUP
from bridge.requests.session import Session
from bridge.security.acls import Operation


@message
class Protocol:
    """A way to assign that the member supports, and what it has to say to it."""

    name: str
    metadata: bytes


@message
class Request:
    """A member, new (no id yet) or known."""

    group_id: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, since(1)] = -1
    member_id: str
    group_instance_id: Annotated[str | None, since(5)] = None
    protocol_type: str
    protocols: list[Protocol]
    reason: Annotated[str | None, since(8)] = None


@message
class Member:
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: Annotated[str | None, since(5)] = None
    metadata: bytes


@message
class Response:
    """The generation, and all its members if the receiver leads it."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    error_code: Int16
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, since(7)] = None
    protocol_name: Annotated[str | None, nullable_since(7)]
    leader: str
    skip_assignment: Annotated[bool, since(9)] = False
    member_id: str
    members: list[Member]


async def handle(request: Request, broker: Broker, session: Session) -> Response | DeferredResponse[Response]:
    """Take the request to its group; the answer comes when the group has its next generation."""
    version = session.api_version
    join = _join(request, session)
    try:
        joined = await broker.groups.join(request.group_id, join)
    except KafkaError as error:
        return _response(Joined(ErrorCode(error.code), request.member_id), version)
    if joined.done():
        return _response(joined.result(), version)
    return DeferredResponse(joined, lambda outcome: _response(outcome, version))


def _join(request: Request, session: Session) -> Join:
    rebalance_timeout_ms = request.rebalance_timeout_ms
    return Join(
        member_id=request.member_id,
        new_id=f"{request.group_instance_id or session.client_id}-{uuid.uuid4()}",
        instance_id=request.group_instance_id,
        client_id=session.client_id,
        client_host=session.host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms if rebalance_timeout_ms >= 0 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, one.metadata) for one in request.protocols),
        id_required=session.api_version >= 4,
        may_skip=session.api_version >= 9,
        reason=request.reason or "",
    )


def _response(joined: Joined, version: int) -> Response:
    return Response(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name if version >= 7 else joined.protocol_name or "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            Member(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in joined.members
        ],
    )


API = Api(
    key=11,
    name="JoinGroup",
    min_version=0,
    max_version=9,
    flexible=6,
    handle=handle,
    request=Request,
    response=Response,
    rights=whole(Operation.READ, GROUP, "group_id"),
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
    waits=True,
    limits=(
        RequestLimit("members of a group", "groups.max_size", ErrorCode.GROUP_MAX_SIZE_REACHED),
        RequestLimit("protocols of a member", MAX_PROTOCOLS, ErrorCode.INVALID_REQUEST),
        RequestLimit("bytes of a member's metadata", "groups.max_member_metadata_bytes", ErrorCode.INVALID_REQUEST),
        RequestLimit(
            "bytes of all members' metadata", "groups.max_metadata_bytes", ErrorCode.COORDINATOR_NOT_AVAILABLE
        ),
    ),
)
