"""ListGroups: the groups that this node coordinates, also those that only have committed offsets.

v1 adds throttle_time_ms; v3 is flexible; v4 shows states and chooses by them (KIP-518).
"""

from dataclasses import field
from typing import Annotated

from bridge.api import Api, Broker, Session
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message, since


@message
class Request:
    """States by name in any case; none: all."""

    states_filter: Annotated[list[str], since(4)] = field(default_factory=list)


@message
class Group:
    """A group; without a protocol type it only has offsets."""

    group_id: str
    protocol_type: str
    group_state: Annotated[str, since(4)] = ""


@message
class Response:
    """The groups."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    groups: list[Group]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """List the groups in one of these states."""
    states = {state.lower() for state in request.states_filter}
    return Response(
        error_code=ErrorCode.NONE,
        groups=[
            Group(group_id=one.id, protocol_type=one.protocol_type or "", group_state=one.state.value)
            for one in await broker.groups.all()
            if not states or one.state.value.lower() in states
        ],
    )


API = Api(
    key=16,
    name="ListGroups",
    min_version=0,
    max_version=4,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
)
