"""DescribeCluster: the cluster's id, controller and brokers (KIP-700).

v1 adds the type of the endpoints, brokers or controllers (KIP-919); v2 may list fenced
brokers (KIP-1073), of which there are none.
"""

from typing import Annotated, Any

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message, since
from bridge.requests.api import Api, Broker, Rest, Right, Rights
from bridge.requests.authorization import Checks
from bridge.requests.rights import CLUSTER
from bridge.requests.session import Session
from bridge.security.acls import Operation

BROKERS, CONTROLLERS = 1, 2
"""Types of endpoints; there are no controllers here."""
NO_OPERATIONS = -(2**31)
"""The authorized operations, if they were not asked for."""


@message
class Request:
    """What to describe."""

    include_cluster_authorized_operations: bool
    endpoint_type: Annotated[Int8, since(1)] = BROKERS
    include_fenced_brokers: Annotated[bool, since(2)] = False


@message
class ResponseBroker:
    """A broker and its advertised address."""

    broker_id: Int32
    host: str
    port: Int32
    rack: str | None = None
    is_fenced: Annotated[bool, since(2)] = False


@message
class Response:
    """The cluster."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    endpoint_type: Annotated[Int8, since(1)] = BROKERS
    cluster_id: str
    controller_id: Int32 = -1
    brokers: list[ResponseBroker]
    cluster_authorized_operations: Int32 = NO_OPERATIONS


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Describe the bridge's nodes as brokers."""
    cluster = broker.cluster.snapshot
    if request.endpoint_type == CONTROLLERS:
        text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        raise KafkaError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, text)
    if request.endpoint_type != BROKERS:
        text = f"Unsupported endpoint type {request.endpoint_type}"
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text)
    return Response(
        error_code=ErrorCode.NONE,
        cluster_id=broker.cluster.cluster_id,
        controller_id=cluster.controller_at(session.listener),
        brokers=[
            ResponseBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in cluster.nodes_at(session.listener)
        ],
    )


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    response: Response = await rest(request)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = await checks.cluster_operations()
    return response


API = Api(
    key=60,
    name="DescribeCluster",
    min_version=0,
    max_version=2,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (Right(Operation.DESCRIBE, CLUSTER, "to be told what one may do with it"),),
        _check_rights,
        lambda request: bool(request.include_cluster_authorized_operations),
        of_a_namespace=True,
    ),
    read_only=True,
)
