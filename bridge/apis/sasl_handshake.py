"""SaslHandshake: choose a mechanism; the first step of a log-in (KIP-43), and of each later one (KIP-368).

After v0 the mechanism's bytes follow without Kafka's headers, after v1 in SaslAuthenticate. Without this API librdkafka
takes the bridge for a broker older than 0.10.
"""

import asyncio

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, message
from bridge.requests.api import Api, Broker
from bridge.requests.login_audit import tell
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session


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
    """Begin a log-in; on a listener without one refuse, as Kafka does (`KafkaApis.handleSaslHandshakeRequest`)."""
    login = session.login
    if login is None or not login.may_choose(session.api_version, asyncio.get_running_loop().time()):
        return Response(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    if login.choose(request.mechanism, session.api_version):
        return Response(error_code=ErrorCode.NONE, mechanisms=login.mechanisms)
    await tell(broker, session, "unsupported", f"the mechanism {request.mechanism[:100]!r} is not enabled")
    return Response(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=login.mechanisms)


API = Api(
    key=17,
    name="SaslHandshake",
    min_version=0,
    max_version=1,
    flexible=None,
    handle=handle,
    request=Request,
    response=Response,
    rights=NOTHING,
    read_only=True,
)
