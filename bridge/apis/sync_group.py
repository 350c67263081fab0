"""SyncGroup: the leader gives the assignment of a generation, every member gets its own.

v1 adds throttle_time_ms; v3 static members (KIP-345); v4 is flexible; v5 has both sides name the protocol (KIP-559).
"""

from typing import Annotated

from bridge.errors import KafkaError
from bridge.groups.budget import check_size
from bridge.groups.classic.events import Sync, Synced
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message, since
from bridge.requests.api import Api, Broker, RequestLimit, ServedBy
from bridge.requests.responses import DeferredResponse
from bridge.requests.rights import GROUP, whole
from bridge.requests.routes import OF_GROUP
from bridge.requests.session import Session
from bridge.security.acls import Operation

NAMES_PROTOCOL = 5
"""The version from which on the protocol must be named (KIP-559)."""


@message
class Assignment:
    """What one member shall do; its bytes are the members' own business."""

    member_id: str
    assignment: bytes


@message
class Request:
    """A member of a generation; `assignments` from the leader only."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: Annotated[str | None, since(3)] = None
    protocol_type: Annotated[str | None, since(5)] = None
    protocol_name: Annotated[str | None, since(5)] = None
    assignments: list[Assignment]


@message
class Response:
    """The member's assignment."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    protocol_type: Annotated[str | None, since(5)] = None
    protocol_name: Annotated[str | None, since(5)] = None
    assignment: bytes


async def handle(request: Request, broker: Broker, session: Session) -> Response | DeferredResponse[Response]:
    """Take the request to its group; the answer comes when the leader's assignment is stored."""
    if session.api_version >= NAMES_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    check_size(len(request.assignments), broker.settings.groups)
    sync = Sync(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={one.member_id: one.assignment for one in request.assignments},
    )
    try:
        synced = await broker.groups.sync(request.group_id, sync)
    except KafkaError as error:
        # as Kafka does: its rebalance is lost with who coordinated it, so it joins again
        if error.code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return _response(Synced(ErrorCode.REBALANCE_IN_PROGRESS))
    return _response(synced.result()) if synced.done() else DeferredResponse(synced, _response)


def _response(synced: Synced) -> Response:
    return Response(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol_name,
        assignment=synced.assignment,
    )


API = Api(
    key=14,
    name="SyncGroup",
    min_version=0,
    max_version=5,
    flexible=4,
    handle=handle,
    request=Request,
    response=Response,
    rights=whole(Operation.READ, GROUP, "group_id"),
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
    waits=True,
    limits=(
        RequestLimit("assignments", "groups.max_size", ErrorCode.INVALID_REQUEST),
        RequestLimit("bytes of an assignment", "groups.max_member_metadata_bytes", ErrorCode.INVALID_REQUEST),
        RequestLimit("bytes of all assignments", "groups.max_metadata_bytes", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ),
)
