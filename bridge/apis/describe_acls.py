"""DescribeAcls: list access control entries (KIP-140); SECURITY_DISABLED without an authorizer, as in Kafka.

v1 adds the pattern type (KIP-290); v2 is flexible; v3 knows user resources (KIP-373).
"""

from dataclasses import field
from typing import Annotated

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message, since
from bridge.requests.api import Api, Broker
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.runtime.futures import in_turns
from bridge.security.acls import AccessControlEntry, AclFilter, InvalidAcl, Operation, valid_filter

LITERAL = 3


@message
class Request:
    """The entries to list."""

    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Annotated[Int8, since(1)] = LITERAL
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@message
class Acl:
    """One entry."""

    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@message
class Resource:
    """A resource and its entries."""

    resource_type: Int8
    resource_name: str
    pattern_type: Annotated[Int8, since(1)] = LITERAL
    acls: list[Acl]


@message
class Response:
    """The entries, or why there are none."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    resources: list[Resource] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer from memory; what another node has changed is there within a second."""
    try:
        store = broker.acls
    except KafkaError as error:
        return Response(error_code=error.code, error_message="No Authorizer is configured on the broker")
    try:
        wanted = valid_filter(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
    except InvalidAcl as invalid:
        return Response(error_code=ErrorCode.INVALID_REQUEST, error_message=str(invalid))
    return Response(error_code=ErrorCode.NONE, resources=await _by_resource(wanted, store.entries()))


async def _by_resource(wanted: AclFilter, entries: list[AccessControlEntry]) -> list[Resource]:
    found: dict[tuple[int, str, int], Resource] = {}
    async for entry in in_turns(entries):
        if not wanted.matches(entry):
            continue
        key = (entry.resource_type, entry.name, entry.pattern_type)
        if key not in found:
            found[key] = Resource(
                resource_type=entry.resource_type, resource_name=entry.name, pattern_type=entry.pattern_type, acls=[]
            )
        found[key].acls.append(
            Acl(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
    return list(found.values())


API = Api(
    key=29,
    name="DescribeAcls",
    min_version=1,
    max_version=3,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.DESCRIBE),
    read_only=True,
)
