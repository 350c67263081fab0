"""ApiVersions: which APIs and versions this bridge serves.

v1 adds throttle_time_ms; v3 is flexible, and the client names its software (KIP-511); v4 may list features whose lowest
version is 0 (KIP-584). The answer's header never has tags, so that clients of any age can read it. The features are
`transaction.version`: with 2 producers have an epoch for each transaction, and skip AddPartitionsToTxn (KIP-890);
`share.version` and `streams.version`: 1 where share groups (KIP-932) and streams groups (KIP-1071) are served.
Elsewhere their APIs are left out.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Final

from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since, tag
from bridge.requests.api import Api, Broker
from bridge.requests.features import (
    MAX_SHARE_VERSION,
    MAX_STREAMS_VERSION,
    MAX_TRANSACTION_VERSION,
    SHARE_VERSION,
    STREAMS_APIS,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    streams_are_served,
    transaction_version,
)
from bridge.requests.rights import NOTHING
from bridge.requests.session import Session
from bridge.requests.share import SHARE_APIS, are_served

KEY = 18
FEATURES: Final = 3
"""The version from which on features are told."""
_MAX_VERSIONS: Final = {
    TRANSACTION_VERSION: MAX_TRANSACTION_VERSION,
    SHARE_VERSION: MAX_SHARE_VERSION,
    STREAMS_VERSION: MAX_STREAMS_VERSION,
}
_FROM_ZERO: Final = 4
"""That from which on the lowest version of a feature may be 0."""


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
class SupportedFeature:
    """A feature, and the versions of it that this broker knows."""

    name: str
    min_version: Int16
    max_version: Int16


@message
class FinalizedFeature:
    """A feature, and the version of it that all brokers go by."""

    name: str
    max_version_level: Int16
    min_version_level: Int16


@message
class Response:
    """Every API served, and every feature."""

    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    supported_features: Annotated[list[SupportedFeature], tag(0, since=3)] = field(default_factory=list)
    finalized_features_epoch: Annotated[Int64, tag(1, since=3)] = -1
    """Grows with each change of what is finalized; -1: it is not known."""
    finalized_features: Annotated[list[FinalizedFeature], tag(2, since=3)] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Answer with the whole table; the software's name is only logged and shown, and any name is accepted."""
    session.told_software(request.client_software_name, request.client_software_version)
    response = table(served(broker), ErrorCode.NONE)
    if session.api_version >= FEATURES:
        _add_features(response, broker, 0 if session.api_version >= _FROM_ZERO else 1)
    return response


def _add_features(response: Response, broker: Broker, lowest: int) -> None:
    levels = {
        TRANSACTION_VERSION: transaction_version(broker),
        SHARE_VERSION: 1 if are_served(broker) else None,
        STREAMS_VERSION: 1 if streams_are_served(broker) else None,
    }
    for name, version in levels.items():
        if version is not None:
            most = _MAX_VERSIONS[name]
            response.supported_features.append(SupportedFeature(name=name, min_version=lowest, max_version=most))
            finalized = FinalizedFeature(name=name, max_version_level=version, min_version_level=version)
            response.finalized_features.append(finalized)
            response.finalized_features_epoch = broker.cluster.snapshot.version


def served(broker: Broker) -> Mapping[int, Api]:
    """The APIs that clients are told of: those of share and of streams groups only where all of them work."""
    hidden = frozenset() if are_served(broker) else SHARE_APIS
    hidden |= frozenset() if streams_are_served(broker) else STREAMS_APIS
    return {key: api for key, api in broker.apis.items() if key not in hidden} if hidden else broker.apis


async def refuse_version(request: None, broker: Broker, session: Session) -> Response:
    """Answer a version that is not served, in v0: the client finds the range there and asks again (KIP-511).

    The whole table is sent, as some clients (franz-go before May 2025) take this array for it.
    """
    return table(served(broker), ErrorCode.UNSUPPORTED_VERSION)


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
