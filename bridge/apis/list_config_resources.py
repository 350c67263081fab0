"""ListConfigResources: what has configs, by name (KIP-1142).

v0 lists only subscriptions to clients' metrics (KIP-1000), of which there are none; v1 lists every type.
"""

from dataclasses import field
from typing import Annotated

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message, since
from bridge.requests.api import Api, Broker
from bridge.requests.rights import cluster
from bridge.requests.session import Session
from bridge.security.acls import Operation
from bridge.storage.topics.resources import ResourceType


@message
class Request:
    """Types of resources, none for all."""

    resource_types: Annotated[list[Int8], since(1)] = field(default_factory=list)


@message
class Resource:
    """A resource that has configs."""

    resource_name: str
    resource_type: Annotated[Int8, since(1)] = ResourceType.CLIENT_METRICS


@message
class Response:
    """All resources that have configs."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    config_resources: list[Resource]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """List them; there are no subscriptions here. Groups are listed that have configs of their own, as in Kafka."""
    nodes = broker.cluster.snapshot.nodes_at(session.listener)
    types = request.resource_types or (list(ResourceType) if session.api_version else [ResourceType.CLIENT_METRICS])
    found: list[Resource] = []
    for kind in dict.fromkeys(types):
        if kind not in tuple(ResourceType):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if kind == ResourceType.TOPIC:
            found += [Resource(resource_name=name, resource_type=kind) for name in await broker.topics.names()]
        elif kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
            found += [Resource(resource_name=str(node.id), resource_type=kind) for node in nodes]
        elif kind == ResourceType.GROUP and broker.security is not None:
            groups = broker.security.group_configs(broker.settings.pulsar.full_namespace)
            found += [Resource(resource_name=name, resource_type=kind) for name in groups]
    return Response(error_code=ErrorCode.NONE, config_resources=found)


API = Api(
    key=74,
    name="ListConfigResources",
    min_version=0,
    max_version=1,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.DESCRIBE_CONFIGS, of_a_namespace=True),
    read_only=True,
)
