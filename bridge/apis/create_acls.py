"""CreateAcls: create access control entries (KIP-140); SECURITY_DISABLED, as a Kafka without an authorizer answers.

v1 has the pattern type (KIP-290); v2 is flexible; v3 knows user resources (KIP-373).
"""

from bridge.api import Api, Broker, Session
from bridge.apis.describe_acls import LITERAL, NO_AUTHORIZER
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message


@message
class Creation:
    """An entry to create."""

    resource_type: Int8
    resource_name: str
    resource_pattern_type: Int8 = LITERAL
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@message
class Request:
    """What to create."""

    creations: list[Creation]


@message
class Result:
    """The result of one creation."""

    error_code: Int16
    error_message: str | None


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    results: list[Result]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer each with SECURITY_DISABLED."""
    refused = Result(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return Response(results=[refused] * len(request.creations))


API = Api(
    key=30,
    name="CreateAcls",
    min_version=1,
    max_version=3,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    pure=True,
)
