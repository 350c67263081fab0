"""What has configs besides topics and brokers: groups, loggers, subscriptions to metrics."""

from typing import Any

from bridge.apis import create_topics, describe_configs, incremental_alter_configs, list_config_resources
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.configs import Operation
from bridge.storage.topics.resources import ResourceType
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread


def described(bridge: BridgeThread, kind: int, name: str) -> dict[str, tuple[str, bool]]:
    """Values by name, and whether they are read only."""
    resource = describe_configs.RequestResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = describe_configs.Request(resources=[resource], include_synonyms=True, include_documentation=True)
    (result,) = ask(bridge, describe_configs.API, request).results
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: (config.value, config.read_only) for config in result.configs}


def altered(bridge: BridgeThread, kind: int, name: str, *configs: tuple[str, Operation, str | None]) -> Any:
    changes = [
        incremental_alter_configs.Config(name=config, config_operation=operation, value=value)
        for config, operation, value in configs
    ]
    resource = incremental_alter_configs.Resource(resource_type=kind, resource_name=name, configs=changes)
    request = incremental_alter_configs.Request(resources=[resource], validate_only=False)
    return ask(bridge, incremental_alter_configs.API, request).responses[0]


def listed(bridge: BridgeThread, version: int, *kinds: int) -> set[tuple[int, str]]:
    answer = ask(bridge, list_config_resources.API, list_config_resources.Request(resource_types=list(kinds)), version)
    assert answer.error_code == ErrorCode.NONE
    return {(one.resource_type, one.resource_name) for one in answer.config_resources}


def test_a_group_has_what_the_bridges_settings_say(bridge: BridgeThread) -> None:
    groups = bridge.settings.groups
    assert described(bridge, ResourceType.GROUP, "any") == {
        "consumer.heartbeat.interval.ms": (str(groups.consumer_heartbeat_interval_ms), True),
        "consumer.session.timeout.ms": (str(groups.consumer_session_timeout_ms), True),
    }


def test_a_group_may_be_given_what_it_has(bridge: BridgeThread) -> None:
    name, same = "consumer.session.timeout.ms", str(bridge.settings.groups.consumer_session_timeout_ms)
    assert altered(bridge, ResourceType.GROUP, "g", (name, Operation.SET, same)).error_code == ErrorCode.NONE
    assert altered(bridge, ResourceType.GROUP, "g", (name, Operation.DELETE, None)).error_code == ErrorCode.NONE
    refused = altered(bridge, ResourceType.GROUP, "g", (name, Operation.SET, same), ("no.such", Operation.SET, "1"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    refused = altered(bridge, ResourceType.GROUP, "g", (name, Operation.SET, "46000"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert same in refused.error_message and "groups.consumer_session_timeout_ms" in refused.error_message


def test_the_level_of_the_log_is_shown_and_nothing_is_measured_of_clients(bridge: BridgeThread) -> None:
    node = str(bridge.settings.kafka.node_id)
    assert described(bridge, ResourceType.BROKER_LOGGER, node) == {"root": (bridge.settings.log.level.upper(), True)}
    assert described(bridge, ResourceType.CLIENT_METRICS, "any") == {}


def test_what_nobody_has_set_for_a_broker_can_be_taken_away(bridge: BridgeThread) -> None:
    # kafka-reassign-partitions --verify does so with its throttles
    node, throttle = str(bridge.settings.kafka.node_id), "leader.replication.throttled.rate"
    assert altered(bridge, ResourceType.BROKER, node, (throttle, Operation.DELETE, None)).error_code == ErrorCode.NONE
    refused = altered(bridge, ResourceType.BROKER, node, (throttle, Operation.SET, "1"))
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_resources_are_listed_by_type(bridge: BridgeThread) -> None:
    name, node = unique("listed"), str(bridge.settings.kafka.node_id)
    topic = create_topics.RequestTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    assert ask(bridge, create_topics.API, create_topics.Request(topics=[topic])).topics[0].error_code == 0
    assert listed(bridge, 0) == set()
    everything = listed(bridge, 1)
    assert {(ResourceType.TOPIC, name), (ResourceType.BROKER, node), (ResourceType.BROKER_LOGGER, node)} <= everything
    assert {kind for kind, _ in everything} == {ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER}
    assert listed(bridge, 1, ResourceType.BROKER) == {(ResourceType.BROKER, node)}
    assert listed(bridge, 1, ResourceType.GROUP) == set()
