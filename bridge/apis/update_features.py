"""UpdateFeatures: change the versions of a cluster's features (KIP-584); the one there is follows a setting.

v1 adds upgrade types and validate_only (KIP-778); v2 has one error for the whole request.
"""

from dataclasses import field
from typing import Annotated

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message, since, until
from bridge.requests.api import Api, Broker
from bridge.requests.features import MAX_TRANSACTION_VERSION, TRANSACTION_VERSION
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.security.acls import Operation

UPGRADE_TYPES = (1, 2, 3)


@message
class Update:
    """A feature and its wanted version."""

    feature: str
    max_version_level: Int16
    allow_downgrade: Annotated[bool, until(0)] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@message
class Request:
    """What to change."""

    timeout_ms: Int32 = 60_000
    feature_updates: list[Update]
    validate_only: Annotated[bool, since(1)] = False


@message
class Result:
    """One feature's result."""

    feature: str
    error_code: Int16
    error_message: str | None


@message
class Response:
    """The result of the request and, up to v1, of each feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
    results: Annotated[list[Result], until(1)] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse the first feature, in the words of Kafka's FeatureControlManager."""
    for update in request.feature_updates:
        text = f"Invalid update version {update.max_version_level} for feature {update.feature}. {_why(update, broker)}"
        first = "The update failed for all features since the following feature had an error: "
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, first + text)
    return Response(error_code=ErrorCode.NONE, error_message=None)


def _why(update: Update, broker: Broker) -> str:
    if update.upgrade_type not in UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    if update.max_version_level < 0:
        return "A feature version cannot be less than 0."
    if update.feature == TRANSACTION_VERSION:
        if update.max_version_level > MAX_TRANSACTION_VERSION:
            most = MAX_TRANSACTION_VERSION
            return f"Local controller {broker.cluster.node.id} only supports versions 0-{most}"
        return "It follows transactions.version in the settings of all nodes."
    if update.max_version_level == 0:
        return f"Feature {update.feature} not found."
    return f"Local controller {broker.cluster.node.id} does not support this feature."


API = Api(
    key=57,
    name="UpdateFeatures",
    min_version=0,
    max_version=2,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.ALTER, of_a_namespace=True),
    pure=True,
)
