"""ListGroups: the groups that this node coordinates, also those that only have committed offsets.

v1 adds throttle_time_ms; v3 is flexible; v4 shows states and chooses by them (KIP-518); v5 does so with types
(KIP-848), of which share groups (KIP-932) and streams groups (KIP-1071) are two.
"""

from dataclasses import field
from typing import Annotated, Any

from bridge.groups.classic.subscription import CONSUMER
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message, since
from bridge.requests.api import Api, Broker, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.rights import GROUP
from bridge.requests.routes import OfAllNodes
from bridge.requests.session import Session
from bridge.runtime.futures import in_turns
from bridge.security.acls import Operation

_OTHER_NAMES = {"NotReady": "not_ready"}
"""States that are asked for by another name (Kafka's StreamsGroupState.toLowerCaseString)."""
CLASSIC_TYPE, CONSUMER_TYPE, SHARE_TYPE, STREAMS_TYPE = "classic", "consumer", "share", "streams"


@message
class Request:
    """States and types by name in any case; none: all."""

    states_filter: Annotated[list[str], since(4)] = field(default_factory=list)
    types_filter: Annotated[list[str], since(5)] = field(default_factory=list)


@message
class Group:
    """A group; without a protocol type it only has offsets."""

    group_id: str
    protocol_type: str
    group_state: Annotated[str, since(4)] = ""
    group_type: Annotated[str, since(5)] = ""


@message
class Response:
    """The groups."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16
    groups: list[Group]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """List the groups in one of these states and of one of these types."""
    states = {state.lower() for state in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    classic = [
        (one.id, one.protocol_type or "", one.state.value, CLASSIC_TYPE) for one in await broker.groups.classic_groups()
    ]
    consumer = [(name, CONSUMER, state.value, CONSUMER_TYPE) for name, state in await broker.groups.consumer_groups()]
    share = [(name, SHARE_TYPE, state.value, SHARE_TYPE) for name, state in await broker.groups.share_groups()]
    streams = [(name, STREAMS_TYPE, state.value, STREAMS_TYPE) for name, state in await broker.groups.streams_groups()]
    return Response(
        error_code=ErrorCode.NONE,
        groups=[
            Group(group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=group_type)
            async for group_id, protocol_type, state, group_type in in_turns((*classic, *consumer, *share, *streams))
            if (not states or state.lower() in states or _OTHER_NAMES.get(state) in states)
            and (not types or group_type in types)
        ],
    )


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    response: Response = await rest(request)
    if response.error_code == ErrorCode.NONE and not await checks.allows(Operation.DESCRIBE, quietly=True):
        names = [group.group_id for group in response.groups]
        denied = await checks.denied(Operation.DESCRIBE, GROUP, names, lists=True)
        response.groups = [group for group in response.groups if group.group_id not in denied]
    return response


API = Api(
    key=16,
    name="ListGroups",
    min_version=0,
    max_version=5,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.DESCRIBE, GROUP, "or on the cluster, for all"),), _check_rights),
    route=OfAllNodes("groups"),
    served_by=ServedBy.ITSELF,
    read_only=True,
)
