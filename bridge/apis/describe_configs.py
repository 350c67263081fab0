"""DescribeConfigs: the settings of topics and brokers (KIP-133).

v1 adds synonyms and sources, v3 documentation and types (KIP-569); v4 is flexible.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import field
from typing import Annotated

from bridge.api import Api, Broker, Session
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message, since
from bridge.storage.broker_configs import broker_configs
from bridge.storage.configs import Entry
from bridge.storage.topics import BROKER_RESOURCE, TOPIC_RESOURCE


@message
class RequestResource:
    """A topic or broker, and which of its configs; null or none: all."""

    resource_type: Int8
    resource_name: str
    configuration_keys: list[str] | None


@message
class Request:
    """What to tell."""

    resources: list[RequestResource]
    include_synonyms: Annotated[bool, since(1)] = False
    include_documentation: Annotated[bool, since(3)] = False


@message
class Synonym:
    """A value that holds where those before it are not set."""

    name: str
    value: str | None
    source: Int8


@message
class Config:
    """One config."""

    name: str
    value: str | None
    read_only: bool
    config_source: Annotated[Int8, since(1)] = -1
    is_sensitive: bool
    synonyms: Annotated[list[Synonym], since(1)] = field(default_factory=list)
    config_type: Annotated[Int8, since(3)] = 0
    documentation: Annotated[str | None, since(3)] = None


@message
class Result:
    """One resource's configs, or why there are none."""

    error_code: Int16
    error_message: str | None
    resource_type: Int8
    resource_name: str
    configs: list[Config]


@message
class Response:
    """All that was asked for."""

    throttle_time_ms: Int32 = 0
    results: list[Result]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Tell each config with its true value."""
    found = (_describe(resource, request, broker) for resource in request.resources)
    return Response(results=list(await asyncio.gather(*found)))


async def _describe(resource: RequestResource, request: Request, broker: Broker) -> Result:
    code, text, entries = int(ErrorCode.NONE), None, list[Entry]()
    try:
        entries = list(await _entries(resource, broker))
    except KafkaError as error:
        code, text = error.code, error.message or None
    keys = set(resource.configuration_keys or ())
    return Result(
        error_code=code,
        error_message=text,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_config(entry, request) for entry in entries if not keys or entry.name in keys],
    )


async def _entries(resource: RequestResource, broker: Broker) -> Sequence[Entry]:
    name = resource.resource_name
    if resource.resource_type == TOPIC_RESOURCE:
        topic = await broker.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return await broker.topics.administration.describe(topic)
    if resource.resource_type == BROKER_RESOURCE:
        node = broker.cluster.node
        if name == "":  # what is set for all brokers at once: nothing ever
            return ()
        if name != str(node.id):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {node.id}, not {name}")
        _, facts = await broker.topics.administration.check({})
        return broker_configs(broker.settings, f"{node.host}:{node.port}", facts)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no configs here")


def _config(entry: Entry, request: Request) -> Config:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return Config(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=[Synonym(name=name, value=value, source=source) for name, value, source in synonyms],
        config_type=entry.kind,
        documentation=entry.about if request.include_documentation else None,
    )


API = Api(
    key=32,
    name="DescribeConfigs",
    min_version=1,
    max_version=4,
    flexible=4,
    handle=handle,
    request=Request,
    response=Response,
)
