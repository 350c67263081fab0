"""SaslHandshake: choose a mechanism to log in with; ILLEGAL_SASL_STATE, as Kafka answers where nobody has to log in.

A client that is set up to log in is told so at once. Without this API librdkafka takes the bridge for a broker older
than 0.10.
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
    """Whether it may, and the mechanisms there are."""

    error_code: Int16
    mechanisms: list[str]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Say that this listener has no log-in (`KafkaApis.handleSaslHandshakeRequest`)."""
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
