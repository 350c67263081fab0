"""Heartbeat: a group member says that it is alive, and learns whether a rebalance has begun.

v1 adds throttle_time_ms; v3 adds group_instance_id (KIP-345); v4 is flexible.
"""

from typing import Annotated

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message, since
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.rights import GROUP, whole
from bridge.requests.routes import OF_GROUP
from bridge.requests.session import Session
from bridge.security.acls import Operation


@message
class Request:
    """A member of a generation."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: Annotated[str | None, since(3)] = None


@message
class Response:
    """Whether it is still one."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Let the member's session go on."""
    try:
        error = await broker.groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except KafkaError as failure:
        # as Kafka does: while the group is being loaded its members are not known
        if failure.code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        error = ErrorCode.NONE
    return Response(error_code=error)


API = Api(
    key=12,
    name="Heartbeat",
    min_version=0,
    max_version=4,
    flexible=4,
    handle=handle,
    request=Request,
    response=Response,
    rights=whole(Operation.READ, GROUP, "group_id"),
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
)
