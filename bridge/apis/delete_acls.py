"""DeleteAcls: delete access control entries (KIP-140); SECURITY_DISABLED, as a Kafka without an authorizer.

v1 has the pattern type (KIP-290); v2 is flexible; v3 knows user resources (KIP-373).
"""

from bridge.api import Api, Broker, Session
from bridge.apis.describe_acls import LITERAL, NO_AUTHORIZER
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message


@message
class Filter:
    """Which entries to delete."""

    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = LITERAL
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@message
class Request:
    """What to delete."""

    filters: list[Filter]


@message
class Match:
    """An entry that a filter matches."""

    error_code: Int16
    error_message: str | None
    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = LITERAL
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@message
class Result:
    """What one filter matches."""

    error_code: Int16
    error_message: str | None
    matching_acls: list[Match]


@message
class Response:
    """What each filter matches."""

    throttle_time_ms: Int32 = 0
    filter_results: list[Result]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer each filter with SECURITY_DISABLED."""
    refused = Result(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=[])
    return Response(filter_results=[refused] * len(request.filters))


API = Api(
    key=31,
    name="DeleteAcls",
    min_version=1,
    max_version=3,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    pure=True,
)
