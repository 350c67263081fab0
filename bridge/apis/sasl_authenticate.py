"""SaslAuthenticate: authenticate (KIP-152); ILLEGAL_SASL_STATE, as from a Kafka without authentication.

v1 adds the lifetime of the session (KIP-368); v2 is flexible.
"""

from typing import Annotated

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int64, message, since


@message
class Request:
    """The mechanism's bytes."""

    auth_bytes: bytes


@message
class Response:
    """The mechanism's answer."""

    error_code: Int16
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: Annotated[Int64, since(1)] = 0


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse, as there is no authentication (`KafkaApis.handleSaslAuthenticateRequest`)."""
    text = "SaslAuthenticate request received after successful authentication"
    raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, text)


API = Api(
    key=36,
    name="SaslAuthenticate",
    min_version=0,
    max_version=2,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
)
