"""DescribeAcls: list access control entries (KIP-140); SECURITY_DISABLED, as a Kafka without an authorizer answers.

v1 adds the pattern type (KIP-290); v2 is flexible; v3 knows user resources (KIP-373).
"""

from dataclasses import field
from typing import Annotated

from bridge.api import Api, Broker, Session
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message, since

LITERAL = 3
NO_AUTHORIZER = "No Authorizer is configured."
"""The text of CreateAcls and DeleteAcls as well; tools look for it."""


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
    """Answer SECURITY_DISABLED: Pulsar's own permissions apply to the bridge's login as a whole."""
    return Response(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
    )


API = Api(
    key=29,
    name="DescribeAcls",
    min_version=1,
    max_version=3,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    read_only=True,
)
