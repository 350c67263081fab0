"""RenewDelegationToken: let a token expire later (KIP-48); refused, as by a Kafka without a key for tokens.

v2 is flexible.
"""

from bridge.apis.create_delegation_token import refusal
from bridge.kafka.message import Int16, Int32, Int64, message
from bridge.requests.api import Api, Broker
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session


@message
class Request:
    """A token, and for how long."""

    hmac: bytes
    renew_period_ms: Int64


@message
class Response:
    """When it expires."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse, as CreateDelegationToken does."""
    raise refusal(session)


API = Api(
    key=39,
    name="RenewDelegationToken",
    min_version=1,
    max_version=2,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=NOTHING,
)
