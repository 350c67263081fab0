"""AlterConfigs: set all configs of a topic anew (KIP-133); those not named fall back to their defaults.

v2 is flexible. IncrementalAlterConfigs has taken its place; older clients know only this one.
"""

import asyncio
from collections.abc import Mapping

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message
from bridge.storage.configs import Facts


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
    changed = (_alter(resource, request.validate_only, broker) for resource in request.resources)
    return Response(responses=list(await asyncio.gather(*changed)))


async def _alter(resource: Resource, validate_only: bool, broker: Broker) -> Result:
    asked = {config.name: config.value for config in resource.configs}

    def change(present: dict[str, str], facts: Facts) -> Mapping[str, str | None]:
        return asked

    code, text = int(ErrorCode.NONE), None
    try:
        if len(asked) < len(resource.configs):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a config is named twice for one resource")
        topic = await broker.topics.configurable(resource.resource_type, resource.resource_name)
        await broker.topics.administration.alter(topic, change, validate_only=validate_only)
    except KafkaError as error:
        code, text = error.code, error.message or None
    return Result(
        error_code=code,
        error_message=text,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


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
