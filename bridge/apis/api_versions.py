"""ApiVersions: which APIs and versions this bridge serves.

v1 adds throttle_time_ms; v3 is flexible, and the client names its software (KIP-511); v4 may list features whose lowest
version is 0. The answer's header never has tags, so that clients of any age can read it. No finalized features are
listed: with `transaction.version` clients would skip AddPartitionsToTxn (KIP-890).
"""

from collections.abc import Mapping
from typing import Annotated

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message, since
from bridge.requests.api import Api, Broker
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session

KEY = 18


@message
class Request:
    """The client's software."""

    client_software_name: Annotated[str, since(3)] = ""
    client_software_version: Annotated[str, since(3)] = ""


@message
class ApiVersion:
    """One API and the versions of it."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@message
class Response:
    """Every API served."""

    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Annotated[Int32, since(1)] = 0


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer with the whole table; the software's name is only logged and shown, and any name is accepted."""
    session.told_software(request.client_software_name, request.client_software_version)
    return table(broker.apis, ErrorCode.NONE)


async def refuse_version(request: None, broker: Broker, session: Session) -> Response:
    """Answer a version that is not served, in v0: the client finds the range there and asks again (KIP-511).

    The whole table is sent, as some clients (franz-go before May 2025) take this array for it.
    """
    return table(broker.apis, ErrorCode.UNSUPPORTED_VERSION)


def table(apis: Mapping[int, Api], error: ErrorCode) -> Response:
    """The table of `apis/`."""
    keys = [ApiVersion(api_key=a.key, min_version=a.min_version, max_version=a.max_version) for a in apis.values()]
    return Response(error_code=error, api_keys=keys)


API = Api(
    key=KEY,
    name="ApiVersions",
    min_version=0,
    max_version=4,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=NOTHING,
    read_only=True,
)

REFUSAL = Api(
    key=KEY,
    name="ApiVersions",
    min_version=0,
    max_version=0,
    flexible=None,
    handle=refuse_version,
    request=type(None),
    response=Response,
    rights=NOTHING,
    read=lambda body, version: None,  # the body is of an unknown version
)
"""Serves every version that `API` does not."""
