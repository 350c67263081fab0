"""LeaveGroup: members leave their group.

v1 adds throttle_time_ms; v3 takes several members, also static ones by their instance id (KIP-345), and answers for
each; v4 is flexible; v5 adds reasons (KIP-800).
"""

from dataclasses import field
from typing import Annotated

from bridge.groups.budget import check_size
from bridge.groups.classic.events import Leave
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message, since, until
from bridge.requests.api import Api, Broker, RequestLimit, ServedBy
from bridge.requests.rights import GROUP, whole
from bridge.requests.routes import OF_GROUP
from bridge.requests.session import Session
from bridge.security.acls import Operation

FIRST_BATCHED = 3


@message
class MemberIdentity:
    """A member by its id, or by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: Annotated[str | None, since(5)] = None


@message
class Request:
    """Who leaves: `members` from v3 on, `member_id` before."""

    group_id: str
    member_id: Annotated[str, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = field(default_factory=list)


@message
class MemberResponse:
    """A member that has left, or why not."""

    member_id: str
    group_instance_id: str | None
    error_code: Int16


@message
class Response:
    """The one member's error before v3, each one's after."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    members: Annotated[list[MemberResponse], since(3)] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Take the members out of their group, which rebalances."""
    if session.api_version < FIRST_BATCHED:
        (error,) = await broker.groups.leave(request.group_id, [Leave(request.member_id)])
        return Response(error_code=error)
    check_size(len(request.members), broker.settings.groups)
    leaving = [Leave(one.member_id, one.group_instance_id, one.reason) for one in request.members]
    errors = await broker.groups.leave(request.group_id, leaving)
    return Response(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(member_id=one.member_id, group_instance_id=one.instance_id, error_code=error)
            for one, error in zip(leaving, errors, strict=True)
        ],
    )


API = Api(
    key=13,
    name="LeaveGroup",
    min_version=0,
    max_version=5,
    flexible=4,
    handle=handle,
    request=Request,
    response=Response,
    rights=whole(Operation.READ, GROUP, "group_id"),
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
    limits=(RequestLimit("members", "groups.max_size", ErrorCode.INVALID_REQUEST),),
)
