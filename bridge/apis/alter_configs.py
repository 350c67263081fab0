"""AlterConfigs: set all configs of a topic anew (KIP-133); those not named fall back to their defaults.

v2 is flexible. IncrementalAlterConfigs has taken its place; older clients know only this one.
"""

import asyncio
from collections.abc import Sequence

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message
from bridge.storage.administration import Change


@message
class Config:
    """One config and its value."""

    name: str
    value: str | None


@message
class Resource:
    """All configs that a topic should have of its own."""

    resource_type: Int8
    resource_name: str
    configs: list[Config]


@message
class Request:
    """What to change."""

    resources: list[Resource]
    validate_only: bool


@message
class Result:
    """What became of one resource."""

    error_code: Int16
    error_message: str | None
    resource_type: Int8
    resource_name: str


@message
class Response:
    """What became of each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[Result]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Change each topic; the answer comes when Pulsar goes by it."""

    async def alter(resource: Resource) -> Result:
        asked = {config.name: config.value for config in resource.configs}
        names = [config.name for config in resource.configs]
        where = resource.resource_type, resource.resource_name
        return await change_configs(where, names, lambda present, facts: asked, request.validate_only, broker)

    return Response(responses=list(await asyncio.gather(*map(alter, request.resources))))


async def change_configs(
    where: tuple[int, str], names: Sequence[str], change: Change, validate_only: bool, broker: Broker
) -> Result:
    """Change the configs of these names of one resource, given by its type and name: all or none."""
    code, text = int(ErrorCode.NONE), None
    try:
        if len(set(names)) < len(names):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a config is named twice for one resource")
        topic = await broker.topics.configurable(*where)
        await broker.topics.administration.alter(topic, change, validate_only=validate_only)
    except KafkaError as error:
        code, text = error.code, error.message or None
    return Result(error_code=code, error_message=text, resource_type=where[0], resource_name=where[1])


API = Api(
    key=33,
    name="AlterConfigs",
    min_version=0,
    max_version=2,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
)
