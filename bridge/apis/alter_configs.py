"""AlterConfigs: replace all configs of a topic or group (KIP-133); those not named return to their defaults.

v2 is flexible. IncrementalAlterConfigs replaces it; older clients know only this one. Only topics and groups have
configs that can be changed: those of brokers are the bridge's settings.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bridge.access.security_store.security_log import SecurityUnavailable
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int8, Int16, Int32, message
from bridge.requests.api import Api, Broker, RequestLimit, ServedBy
from bridge.requests.audit import AuditedChange, word
from bridge.requests.rights import each_config
from bridge.requests.session import Session
from bridge.runtime.futures import gathered
from bridge.security import acls
from bridge.security.quotas.entities import MAX_NAME_CHARACTERS
from bridge.security.records import Kept, config_key, config_record
from bridge.storage import names
from bridge.storage.topics.administration import ConfigChange
from bridge.storage.topics.configs import Operation
from bridge.storage.topics.resources import ResourceType, is_number
from bridge.storage.topics.topic import Topic

MAX_GROUP_CONFIGS = 10_000
"""More are not taken: each node has all of them in memory."""
LIMITS = (
    RequestLimit("configs that groups have", MAX_GROUP_CONFIGS, ErrorCode.POLICY_VIOLATION),
    RequestLimit("characters of a group that has configs", MAX_NAME_CHARACTERS, ErrorCode.INVALID_REQUEST),
)


@message
class Config:
    """One config and its value."""

    name: str
    value: str | None


@message
class Resource:
    """All configs that the topic or group is to have of its own."""

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
    """One resource's result."""

    error_code: Int16
    error_message: str | None
    resource_type: Int8
    resource_name: str


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    responses: list[Result]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Change each topic and group; the answer is sent when Pulsar applies it, or has stored it."""
    times = Counter((one.resource_type, one.resource_name) for one in request.resources)

    async def alter(resource: Resource) -> Result:
        asked = {config.name: config.value for config in resource.configs}
        change = Changes(
            resource.resource_type,
            resource.resource_name,
            [(config.name, Operation.SET, config.value) for config in resource.configs],
            lambda present, default: asked,
        )
        once = times[resource.resource_type, resource.resource_name] == 1
        return await change_configs(change, once, request.validate_only, broker)

    return Response(responses=await gathered(map(alter, request.resources)))


class Changes(NamedTuple):
    """The changes to one resource's configs."""

    type: int
    name: str
    asked: Sequence[tuple[str, int, str | None]]
    """Names, operations and values, in the order asked for."""
    change: ConfigChange
    """The changes as a function of what the resource has."""


async def change_configs(changes: Changes, once: bool, validate_only: bool, broker: Broker) -> Result:
    """Change the configs of one resource, all or none; `once`: the request names it only once."""
    code, text = int(ErrorCode.NONE), None
    try:
        _check(changes, once)
        if changes.type == ResourceType.TOPIC:
            topic = await _topic(changes.name, broker)
            await broker.topics.administration.alter(topic, changes.change, validate_only=validate_only)
        elif changes.type == ResourceType.GROUP:
            await _change_group(changes, validate_only, broker)
        else:
            _check_fixed(changes, broker)
    except KafkaError as error:
        code, text = error.code, error.message or None
    return Result(error_code=code, error_message=text, resource_type=changes.type, resource_name=changes.name)


def _check(changes: Changes, once: bool) -> None:
    """The checks that Kafka's ConfigAdminManager makes first."""
    if not once:
        raise _invalid("Each resource must appear at most once.")
    keys = [name for name, _, _ in changes.asked]
    if len(set(keys)) < len(keys):
        raise _invalid("Error due to duplicate config keys")
    without = [name for name, operation, value in changes.asked if value is None and operation != Operation.DELETE]
    if without:
        raise _invalid(f"Null value not supported for : {','.join(without)}")


async def _topic(name: str, broker: Broker) -> Topic:
    if not name:
        raise _invalid("Default topic resources are not allowed.")
    names.check(name)
    topic = await broker.topics.current(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic


async def _change_group(changes: Changes, validate_only: bool, broker: Broker) -> None:
    """Have all nodes know the configs of a group; REQUEST_TIMED_OUT: they may count, now or later, or not."""
    if not changes.name:
        raise _invalid("Default group resources are not allowed.")
    if len(changes.name) > MAX_NAME_CHARACTERS:
        raise _invalid(f"A group of more than {MAX_NAME_CHARACTERS} characters can have no configs.")
    configs, namespace = broker.groups.configs, broker.settings.pulsar.full_namespace
    present = configs.own(changes.name)
    wanted = configs.check(changes.name, changes.change(present, lambda name: None))
    records = [Kept(config_key(namespace, changes.name, name)) for name in present if name not in wanted]
    new = {name: value for name, value in wanted.items() if present.get(name) != value}
    records += [config_record(namespace, changes.name, name, value) for name, value in new.items()]
    if validate_only or not records:
        return
    try:
        if broker.security is None:
            raise SecurityUnavailable("this node keeps no configs of groups")
        if broker.security.group_config_count + len(new.keys() - present.keys()) > MAX_GROUP_CONFIGS:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"There are {MAX_GROUP_CONFIGS} configs of groups already")
        await broker.security.change(records)
    except SecurityUnavailable as error:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from None


def _check_fixed(changes: Changes, broker: Broker) -> None:
    """Refuse every change; to delete a config that is not set is none."""
    wanted = [name for name, operation, _ in changes.asked if operation != Operation.DELETE]
    if changes.type == ResourceType.BROKER:
        _check_node(changes.name, "Unexpected broker id, expected {}, but received {}", broker)
        if wanted:
            raise _invalid(f"Cannot update these configs dynamically: Set({', '.join(wanted)})")
    elif changes.type == ResourceType.BROKER_LOGGER:
        _check_node(changes.name, "Unexpected node id. Expected {}, but received {}", broker)
        raise KafkaError(ErrorCode.INVALID_CONFIG, "The bridge's setting log.level says what is logged.")
    elif changes.type == ResourceType.CLIENT_METRICS:
        if not changes.name:
            raise _invalid("Subscription name can't be empty")
        raise _invalid("There are no subscriptions to what clients measure here (KIP-714).")
    else:
        raise _invalid(f"Unknown resource type {changes.type}")


def _check_node(name: str, otherwise: str, broker: Broker) -> None:
    node = broker.cluster.node.id
    if name and not is_number(name):
        raise _invalid(f"Node id must be an integer, but it is: {name}")
    if name and int(name) != node:
        raise _invalid(otherwise.format(node, name))


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


def audit(request: Any, response: Response) -> Iterator[AuditedChange]:
    """The resources and the names of their configs alone: a value may be anything."""
    if request.validate_only:
        return
    asked = {(one.resource_type, one.resource_name): one.configs for one in request.resources}
    for one in response.responses:
        names = ",".join(config.name for config in asked.get((one.resource_type, one.resource_name), ()))
        kind = word(ResourceType, one.resource_type)
        yield AuditedChange(one.error_code, kind, one.resource_name, "configs changed", names)


API = Api(
    key=33,
    name="AlterConfigs",
    min_version=0,
    max_version=2,
    flexible=2,
    handle=handle,
    request=Request,
    response=Response,
    rights=each_config(acls.Operation.ALTER_CONFIGS),
    audit=audit,
    served_by=ServedBy.ITSELF,
    limits=LIMITS,
)
