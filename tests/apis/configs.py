"""Topics with configs: created, described and altered over a socket."""

from collections.abc import Mapping
from typing import Any

from bridge.apis import (
    create_topics,
    describe_configs,
    incremental_alter_configs,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.resources import ResourceType
from tests.apis.wire import ask, ask_at, unique
from tests.support.bridges import BridgeThread
from tests.support.pulsar import PulsarAddress


def create(bridge: BridgeThread, configs: dict[str, str | None] | None = None, **request: Any) -> Any:
    """A new topic's name and CreateTopics' answer."""
    topic = create_topics.RequestTopic(
        name=unique("configs"),
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[create_topics.RequestConfig(name=name, value=value) for name, value in (configs or {}).items()],
    )
    return topic.name, ask(bridge, create_topics.API, create_topics.Request(topics=[topic], **request)).topics[0]


def described(
    bridge: BridgeThread, name: str, *configs: str, resource_type: int = ResourceType.TOPIC
) -> dict[str, Any]:
    """The configs of a topic, or another resource, by name; all, or those named."""
    resource = describe_configs.RequestResource(
        resource_type=resource_type, resource_name=name, configuration_keys=list(configs) or None
    )
    request = describe_configs.Request(resources=[resource], include_synonyms=True, include_documentation=True)
    result = ask(bridge, describe_configs.API, request).results[0]
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: config for config in result.configs}


def values(bridge: BridgeThread, topic: str, *names: str, resource_type: int = ResourceType.TOPIC) -> dict[str, str]:
    found = described(bridge, topic, *names, resource_type=resource_type)
    return {name: config.value for name, config in found.items()}


def configure_group(address: str, group: str, configs: Mapping[str, str]) -> None:
    """Set configs of a group at the bridge with this address."""
    wanted = [
        incremental_alter_configs.Config(name=name, config_operation=0, value=value) for name, value in configs.items()
    ]
    resource = incremental_alter_configs.Resource(resource_type=ResourceType.GROUP, resource_name=group, configs=wanted)
    request = incremental_alter_configs.Request(resources=[resource], validate_only=False)
    (answer,) = ask_at(address, incremental_alter_configs.API, request).responses
    assert answer.error_code == ErrorCode.NONE, answer


def alter(
    bridge: BridgeThread,
    name: str,
    *changes: tuple[str, int, str | None],
    resource_type: int = ResourceType.TOPIC,
    validate_only: bool = False,
) -> Any:
    """The answer to IncrementalAlterConfigs with these (config, operation, value)."""
    configs = [
        incremental_alter_configs.Config(name=config, config_operation=operation, value=value)
        for config, operation, value in changes
    ]
    resource = incremental_alter_configs.Resource(resource_type=resource_type, resource_name=name, configs=configs)
    request = incremental_alter_configs.Request(resources=[resource], validate_only=validate_only)
    return ask(bridge, incremental_alter_configs.API, request).responses[0]


def policy(bridge: BridgeThread, pulsar: PulsarAddress, topic: str, name: str) -> Any:
    return pulsar.admin("GET", f"persistent/{bridge.namespace}/{topic}/{name}")
