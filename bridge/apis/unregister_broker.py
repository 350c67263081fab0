"""UnregisterBroker: remove a broker that was stopped permanently (KIP-500); refused, as bridges are not registered."""

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, message
from bridge.requests.api import Api, Broker
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.security.acls import Operation


@message
class Request:
    """A broker."""

    broker_id: Int32


@message
class Response:
    """The result."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Refuse: a node is registered for as long as it runs."""
    node = request.broker_id
    if broker.cluster.snapshot.node(node) is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker ID {node} is running: it is unregistered when it is stopped."
        )
    raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node} is not currently registered")


API = Api(
    key=64,
    name="UnregisterBroker",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.ALTER, of_a_namespace=True),
)
