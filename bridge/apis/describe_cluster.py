"""DescribeCluster: the cluster's id, controller and brokers (KIP-700).

v1 adds the type of the endpoints, brokers or controllers (KIP-919).
"""

from typing import Annotated

from bridge.api import Api, Broker, Session
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message, since

BROKERS = 1
"""The endpoint type of brokers; 2 would be controllers."""
NO_OPERATIONS = -(2**31)
"""Authorized operations that were not asked for."""


@message
class Request:
    """What to tell."""

    include_cluster_authorized_operations: bool
    endpoint_type: Annotated[Int8, since(1)] = BROKERS


@message
class ResponseBroker:
    """A broker and its advertised address."""

    broker_id: Int32
    host: str
    port: Int32
    rack: str | None = None


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
    cluster = broker.cluster
    if request.endpoint_type != BROKERS:
        return Response(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="there are no controllers to describe here, only brokers",
            endpoint_type=request.endpoint_type,
            cluster_id=cluster.cluster_id,
            brokers=[],
        )
    return Response(
        error_code=ErrorCode.NONE,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller.id,
        brokers=[ResponseBroker(broker_id=node.id, host=node.host, port=node.port) for node in cluster.nodes],
    )


API = Api(
    key=60,
    name="DescribeCluster",
    min_version=0,
    max_version=1,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
)
