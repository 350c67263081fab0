"""SaslHandshake: choose a mechanism; ILLEGAL_SASL_STATE, as from a Kafka without authentication.

A client that is configured to authenticate gets the error at once. Without this API librdkafka takes the bridge for a
broker older than 0.10.
"""

from bridge.api import Api, Broker, Session
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, message


@message
class Request:
    """The mechanism that the client would use."""

    mechanism: str


@message
class Response:
    """Whether it is enabled, and those that are."""

    error_code: Int16
    mechanisms: list[str]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse, as this listener has no authentication (`KafkaApis.handleSaslHandshakeRequest`)."""
    return Response(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


API = Api(
    key=17,
    name="SaslHandshake",
    min_version=0,
    max_version=1,
    flexible=None,
    handle=handle,
    request=Request,
    response=Response,
)
