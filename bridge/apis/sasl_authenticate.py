"""SaslAuthenticate: the mechanism's bytes, there and back, until the client is logged in or refused (KIP-152).

v1 adds the lifetime of the session (KIP-368); v2 is flexible.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Annotated

from bridge.access.password_thread import AddressBlocked, attempt_of
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int64, message, since
from bridge.requests.api import Api, Broker
from bridge.requests.login_audit import tell
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session
from bridge.security.sasl.failures import network_of
from bridge.security.sasl.login import Login
from bridge.security.sasl.mechanism import FAILURE_TEXT, Done, Failed, Step


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


async def handle(request: Request, broker: Broker, session: Session) -> Response | None:
    """Go on with the log-in that SaslHandshake has begun; without one refuse (`KafkaApis`).

    None: whether the client may log in cannot be known now. Its connection closes, and it tries again.
    """
    login = session.login
    if login is None or not login.may_prove:
        text = "SaslAuthenticate request received after successful authentication"
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, text)
    step = await exchanged(bytes(request.auth_bytes), broker, session)
    if isinstance(step, Failed):
        if step.retriable:
            return None
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return Response(error_code=code, error_message=FAILURE_TEXT, auth_bytes=b"")
    lifetime = login.lifetime_ms(asyncio.get_running_loop().time())
    return Response(error_code=ErrorCode.NONE, error_message=None, auth_bytes=step.data, session_lifetime_ms=lifetime)


async def exchanged(data: bytes, broker: Broker, session: Session) -> Step:
    """What the client's bytes lead to; the end of the log-in is told."""
    login = session.login
    assert login is not None  # noqa: S101 - the callers have looked
    loop, host = asyncio.get_running_loop(), session.host[1:]
    try:
        step = await _proved(login, data, host, lambda: broker.login_failures.is_blocked(host, loop.time()))
    except AddressBlocked:
        login.refuse()
        broker.metrics.rejected("too_many_failed_logins")
        return Failed("too many log-ins of this address have failed", retriable=True)
    if isinstance(step, Failed):
        await tell(broker, session, "unavailable" if step.retriable else "failed", step.reason, step.name)
    elif isinstance(step, Done):
        session.acts_for(step.principal)
        await tell(broker, session, "succeeded")
    return step


async def _proved(login: Login, data: bytes, host: str, is_blocked: Callable[[], bool]) -> Step:
    if is_blocked():
        raise AddressBlocked
    with attempt_of(network_of(host), is_blocked):
        return await login.prove(data, time.time(), asyncio.get_running_loop().time())


API = Api(
    key=36,
    name="SaslAuthenticate",
    min_version=0,
    max_version=2,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=NOTHING,
    read_only=True,
)
