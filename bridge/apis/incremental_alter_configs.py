"""IncrementalAlterConfigs: change single configs of a topic or group (KIP-339).

v1 is flexible. All changes of a resource are made, or none.
"""

from collections import Counter

from bridge.apis.alter_configs import LIMITS, Changes, Response, Result, audit, change_configs
from bridge.kafka.message import Int8, message
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.rights import each_config
from bridge.requests.session import Session
from bridge.runtime.futures import gathered
from bridge.security import acls
from bridge.storage.topics.configs import apply_operations


@message
class Config:
    """One config, what to do with it, and the value to do it with."""

    name: str
    config_operation: Int8
    value: str | None


@message
class Resource:
    """The changes to one topic or group."""

    resource_type: Int8
    resource_name: str
    configs: list[Config]


@message
class Request:
    """What to change."""

    resources: list[Resource]
    validate_only: bool


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Change each topic and group; the answer is sent when Pulsar applies it, or has stored it."""
    times = Counter((one.resource_type, one.resource_name) for one in request.resources)

    async def alter(resource: Resource) -> Result:
        asked = [(config.name, config.config_operation, config.value) for config in resource.configs]
        change = Changes(
            resource.resource_type,
            resource.resource_name,
            asked,
            lambda present, default: apply_operations(present, asked, default),
        )
        once = times[resource.resource_type, resource.resource_name] == 1
        return await change_configs(change, once, request.validate_only, broker)

    return Response(responses=await gathered(map(alter, request.resources)))


API = Api(
    key=44,
    name="IncrementalAlterConfigs",
    min_version=0,
    max_version=1,
    flexible=1,
    handle=handle,
    request=Request,
    response=Response,
    rights=each_config(acls.Operation.ALTER_CONFIGS),
    audit=audit,
    served_by=ServedBy.ITSELF,
    limits=LIMITS,
)
