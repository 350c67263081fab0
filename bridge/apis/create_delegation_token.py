"""CreateDelegationToken: a short-lived secret to log in with (KIP-48); refused, as by a Kafka without a key for tokens.

v2 is flexible; v3 may name another owner (KIP-373).
"""

from typing import Annotated

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, nullable_since, since
from bridge.requests.api import Api, Broker
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session
from bridge.security.principal import ANONYMOUS


@message
class Renewer:
    """A user that may renew the token."""

    principal_type: str
    principal_name: str


@message
class Request:
    """Whose token, and for how long."""

    owner_principal_type: Annotated[str | None, since(3), nullable_since(3)] = None
    owner_principal_name: Annotated[str | None, since(3), nullable_since(3)] = None
    renewers: list[Renewer]
    max_lifetime_ms: Int64


@message
class Response:
    """The token."""

    error_code: Int16
    principal_type: str
    principal_name: str
    token_requester_principal_type: Annotated[str, since(3)] = ""
    token_requester_principal_name: Annotated[str, since(3)] = ""
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: str
    hmac: bytes
    throttle_time_ms: Int32


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse."""
    raise refusal(session)


def refusal(session: Session) -> KafkaError:
    """Who is not authenticated could have no token anywhere (`KafkaApis.allowTokenRequests`); others have none here."""
    is_known = session.principal != ANONYMOUS
    return KafkaError(
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED if is_known else ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    )


API = Api(
    key=38,
    name="CreateDelegationToken",
    min_version=1,
    max_version=3,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=NOTHING,
)
