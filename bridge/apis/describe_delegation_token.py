"""DescribeDelegationToken: the tokens there are (KIP-48); refused, as by a Kafka without a key for tokens.

v2 is flexible; v3 adds the user that asked for a token (KIP-373).
"""

from typing import Annotated

from bridge.apis.create_delegation_token import refusal
from bridge.kafka.message import Int16, Int32, Int64, message, since
from bridge.requests.api import Api, Broker
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session


@message
class Principal:
    """An owner or a renewer."""

    principal_type: str
    principal_name: str


@message
class Request:
    """Whose tokens to list, null for all."""

    owners: list[Principal] | None


@message
class Token:
    """A token."""

    principal_type: str
    principal_name: str
    token_requester_principal_type: Annotated[str, since(3)] = ""
    token_requester_principal_name: Annotated[str, since(3)] = ""
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: str
    hmac: bytes
    renewers: list[Principal]


@message
class Response:
    """The tokens."""

    error_code: Int16
    tokens: list[Token]
    throttle_time_ms: Int32


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse, as CreateDelegationToken does."""
    raise refusal(session)


API = Api(
    key=41,
    name="DescribeDelegationToken",
    min_version=1,
    max_version=3,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=NOTHING,
    read_only=True,
)
