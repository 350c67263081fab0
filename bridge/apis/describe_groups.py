"""DescribeGroups: the states of groups, their members and assignments.

v1 adds throttle_time_ms; v3 authorized operations, which are not known here; v4 static members' instance ids; v5 is
flexible. A group that does not exist is Dead; v6 says GROUP_ID_NOT_FOUND as well (KIP-1043).
"""

from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Protocol, TypeVar

from bridge.errors import KafkaError
from bridge.groups.classic.events import ClassicGroupState
from bridge.groups.classic.state import ClassicGroup
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message, since
from bridge.requests.api import Api, Broker, RequestLimit, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.rights import GROUP, TOPIC, joined, refused, tell_group_operations
from bridge.requests.routes import OfGroups
from bridge.requests.session import Session
from bridge.runtime.futures import gathered_for, in_turns
from bridge.security.acls import Operation

NO_OPERATIONS = -(2**31)
MOST_REPEATED_BYTES = 64 * 1024 * 1024
"""Of groups that one request names again."""
MAX_MEMBERS = 200_000
"""Of all groups in an answer."""
LIMITS = (
    RequestLimit("members of an answer", MAX_MEMBERS, ErrorCode.INVALID_REQUEST),
    RequestLimit("bytes of groups that are named again", MOST_REPEATED_BYTES, ErrorCode.INVALID_REQUEST),
)
"""Of each API that describes groups by `descriptions_in_order`."""
TELLS = 6
"""The version from which on a group that does not exist is an error."""


@message
class Request:
    """Groups by name."""

    groups: list[str]
    include_authorized_operations: Annotated[bool, since(3)] = False


@message
class Member:
    """A member; its metadata and assignment as its clients wrote them."""

    member_id: str
    group_instance_id: Annotated[str | None, since(4)] = None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@message
class Group:
    """A group."""

    error_code: Int16
    error_message: Annotated[str | None, since(6)] = None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: list[Member]
    authorized_operations: Annotated[Int32, since(3)] = NO_OPERATIONS


@message
class Response:
    """The groups in the order asked for."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    groups: list[Group]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Describe each group."""
    tells = session.api_version >= TELLS
    found = await gathered_for(request.groups, lambda group_id: _describe(group_id, tells, broker))
    return Response(groups=await descriptions_in_order(request.groups, found, MAX_MEMBERS))


class Described(Protocol):
    """A group of an answer."""

    error_code: int
    members: list[Any]


_D = TypeVar("_D", bound=Described)


def rights_to_describe(of: str, hide: Callable[[Any, Checks], Awaitable[Any]]) -> Rights:
    """DESCRIBE of each group, and of topics `of` what; `hide` takes from a group what the client may not see."""

    async def check(request: Any, checks: Checks, rest: Rest) -> Any:
        refusals = await refused(request, checks, Operation.DESCRIBE, GROUP, "group_ids", "")
        response = await rest(request)
        if request.include_authorized_operations:
            await tell_group_operations(response.groups, checks)
        response.groups = [await hide(group, checks) for group in response.groups]
        return joined(response, refusals)

    return Rights(
        (Right(Operation.DESCRIBE, GROUP), Right(Operation.DESCRIBE, TOPIC, of)),
        check,
        lambda request: bool(request.include_authorized_operations),
    )


async def descriptions_in_order(groups: list[str], found: dict[str, _D], most: int) -> list[_D]:
    """The groups as they were asked for, also twice, as Kafka does; INVALID_REQUEST beyond so many members in all, or
    where those that are named again come to too many bytes: a member's metadata, for one, may be long."""
    answer, members, repeated = [], 0, 0
    told, sizes = set[str](), dict[str, int]()
    async for group_id in in_turns(groups):
        one = found[group_id]
        members += len(one.members)
        if group_id in told and repeated <= MOST_REPEATED_BYTES:
            if group_id not in sizes:
                sizes[group_id] = _size(one)
            repeated += sizes[group_id]
        told.add(group_id)
        if members > most or repeated > MOST_REPEATED_BYTES:
            one = copy(one)
            one.error_code, one.members = ErrorCode.INVALID_REQUEST, []
        answer.append(one)
    return answer


def _size(value: Any) -> int:
    """About the bytes of a message's field in an answer."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, list):
        return 4 * len(value) if value and isinstance(value[0], int) else sum(map(_size, value))
    return sum(_size(getattr(value, one.name)) for one in fields(value)) if is_dataclass(value) else 8


async def _describe(group_id: str, tells: bool, broker: Broker) -> Group:
    try:
        group = await broker.groups.classic_group(group_id)
        is_other = group is None and tells and broker.groups.is_there(group_id)
    except KafkaError as error:
        return _bare(group_id, "", error.code)
    if group is None:
        described = _bare(group_id, ClassicGroupState.DEAD.value)
        if tells:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} {'is not a classic group' if is_other else 'not found'}."
        return described
    described = _bare(group_id, group.state.value)
    described.protocol_type = group.protocol_type or ""
    described.members = _members(group)
    if group.state is ClassicGroupState.STABLE:
        described.protocol_data = group.protocol_name or ""
    return described


def _bare(group_id: str, state: str, error: int = ErrorCode.NONE) -> Group:
    return Group(error_code=error, group_id=group_id, group_state=state, protocol_type="", protocol_data="", members=[])


def _members(group: ClassicGroup) -> list[Member]:
    stable = group.state is ClassicGroupState.STABLE  # before, it is not known which protocol the metadata is for
    return [
        Member(
            member_id=one.id,
            group_instance_id=one.instance_id,
            client_id=one.client_id,
            client_host=one.client_host,
            member_metadata=one.metadata(group.protocol_name) if stable else b"",
            member_assignment=one.assignment,
        )
        for one in group.members
    ]


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error of every group."""
    return Response(groups=[_bare(group_id, "", error) for group_id in request.groups])


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    refusals = await refused(request, checks, Operation.DESCRIBE, GROUP, "groups", "")
    response: Response = await rest(request)
    if request.include_authorized_operations:
        await tell_group_operations(response.groups, checks)
    return joined(response, refusals)


API = Api(
    key=15,
    name="DescribeGroups",
    min_version=0,
    max_version=6,
    flexible=5,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (Right(Operation.DESCRIBE, GROUP),), _check_rights, lambda request: bool(request.include_authorized_operations)
    ),
    error_response=error_response,
    route=OfGroups("groups", "groups"),
    served_by=ServedBy.COORDINATOR,
    read_only=True,
    limits=LIMITS,
)
