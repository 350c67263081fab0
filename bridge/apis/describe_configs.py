"""DescribeConfigs: the configs of topics, brokers and groups (KIP-133).

v1 adds synonyms and sources, v3 documentation and types (KIP-569); v4 is flexible.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Annotated

from bridge.config import Address
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message, since
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.rights import each_config
from bridge.requests.session import Session
from bridge.runtime.futures import gathered
from bridge.security.acls import Operation
from bridge.storage import names
from bridge.storage.topics.broker_configs import broker_configs
from bridge.storage.topics.config_table import ConfigType
from bridge.storage.topics.configs import ConfigEntry, ConfigSource
from bridge.storage.topics.resources import ResourceType, is_number


@message
class RequestResource:
    """A topic, broker or group, and the configs to show; null or empty: all."""

    resource_type: Int8
    resource_name: str
    configuration_keys: list[str] | None


@message
class Request:
    """What to describe."""

    resources: list[RequestResource]
    include_synonyms: Annotated[bool, since(1)] = False
    include_documentation: Annotated[bool, since(3)] = False


@message
class Synonym:
    """A value that applies if those before it are not set."""

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
    """Describe each resource once."""
    wanted = {(one.resource_type, one.resource_name): one for one in request.resources}.values()
    found = (_describe(resource, request, broker) for resource in wanted)
    return Response(results=await gathered(found))


async def _describe(resource: RequestResource, request: Request, broker: Broker) -> Result:
    code, text, entries = int(ErrorCode.NONE), None, list[ConfigEntry]()
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


async def _entries(resource: RequestResource, broker: Broker) -> Sequence[ConfigEntry]:
    find = _FOUND_BY.get(resource.resource_type)
    if find is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.text)
    return await find(resource.resource_name, broker)


async def _topic(name: str, broker: Broker) -> Sequence[ConfigEntry]:
    names.check(name)
    topic = await broker.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return await broker.topics.administration.describe(topic)


async def _broker(name: str, broker: Broker) -> Sequence[ConfigEntry]:
    if name == "":  # dynamic configs of all brokers: there are none
        return ()
    node = broker.cluster.node
    _check_node(name, f"Unexpected broker id, expected {node.id} or empty string, but received {name}", broker)
    _, defaults = await broker.topics.administration.validate_configs({})
    member = broker.cluster.view.members[node.id]
    advertised = ",".join(f"{listener}://{Address(host, port)}" for listener, host, port in member.endpoints)
    return broker_configs(broker.settings, node.id, advertised, defaults)


async def _logger(name: str, broker: Broker) -> Sequence[ConfigEntry]:
    if name == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_node(name, f"Unexpected broker id, expected {broker.cluster.node.id} but received {name}", broker)
    about = "The bridge's setting log.level."
    return (
        ConfigEntry("root", broker.settings.log.level.upper(), True, ConfigSource.LOGGER, ConfigType.STRING, about, ()),
    )


async def _client_metrics(name: str, broker: Broker) -> Sequence[ConfigEntry]:
    if name == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    return ()  # there are no subscriptions (KIP-714)


async def _group(name: str, broker: Broker) -> Sequence[ConfigEntry]:
    if name == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return broker.groups.configs.describe(name)


def _check_node(name: str, otherwise: str, broker: Broker) -> None:
    if not is_number(name):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != broker.cluster.node.id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, otherwise)


_FOUND_BY: Mapping[int, Callable[[str, Broker], Awaitable[Sequence[ConfigEntry]]]] = {
    ResourceType.TOPIC: _topic,
    ResourceType.BROKER: _broker,
    ResourceType.BROKER_LOGGER: _logger,
    ResourceType.CLIENT_METRICS: _client_metrics,
    ResourceType.GROUP: _group,
}


def _config(entry: ConfigEntry, request: Request) -> Config:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return Config(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=False,
        synonyms=[Synonym(name=name, value=value, source=source) for name, value, source in synonyms],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
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
    rights=each_config(Operation.DESCRIBE_CONFIGS),
    served_by=ServedBy.ITSELF,
    read_only=True,
)
