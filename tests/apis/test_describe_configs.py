"""DescribeConfigs: what topics, brokers, groups and loggers show, and where each value comes from."""

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bridge.apis import (
    describe_configs,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.configs import ConfigSource
from bridge.storage.topics.resources import ResourceType
from tests.apis.configs import create, described, policy, values
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread
from tests.support.pulsar import PulsarAddress
from tests.support.waiting import until


def shown(bridge: BridgeThread, resource_type: int, name: str) -> dict[str, tuple[str, bool]]:
    """Values by name, and whether they are read-only."""
    configs = described(bridge, name, resource_type=resource_type).values()
    return {config.name: (config.value, config.read_only) for config in configs}


def test_a_topic_without_configs_has_no_policies(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    topic, _ = create(bridge)
    assert policy(bridge, pulsar, topic, "retention") is None
    configs = described(bridge, topic)
    assert len(configs) > 10
    assert all(config.config_source == ConfigSource.DEFAULT for config in configs.values())
    assert configs["retention.ms"].value == "-1"  # the namespace's
    assert configs["segment.bytes"].value == str(2 << 30)  # managedLedgerMaxSizePerLedgerMbytes
    assert all(config.documentation for config in configs.values())


def test_a_filter_and_synonyms(bridge: BridgeThread) -> None:
    topic, _ = create(bridge, {"retention.ms": "60000"})
    configs = described(bridge, topic, "retention.ms", "no.such.config")
    assert list(configs) == ["retention.ms"]
    assert [(one.name, one.value, one.source) for one in configs["retention.ms"].synonyms] == [
        ("retention.ms", "60000", ConfigSource.TOPIC),
        ("log.retention.ms", "-1", ConfigSource.DEFAULT),
    ]


def test_what_pulsar_s_operator_sets_is_shown(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    topic, _ = create(bridge, {"retention.ms": "60000"})
    wanted = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 3}
    pulsar.admin("POST", f"persistent/{bridge.namespace}/{topic}/retention", wanted)
    # the broker reads it back from a topic, and tells it from then on
    asyncio.run(until(lambda: bool(policy(bridge, pulsar, topic, "retention") == wanted)))
    shown = values(bridge, topic, "retention.ms", "retention.bytes")
    assert shown == {"retention.ms": "300000", "retention.bytes": str(3 << 20)}


def test_another_bridge_shows_the_same(
    bridge_with: Callable[..., BridgeThread],
) -> None:
    first = bridge_with()
    topic, _ = create(first, {"retention.ms": "1234567", "max.message.bytes": "3000"})
    assert values(bridge_with(), topic) == values(first, topic)


def test_a_broker_shows_its_settings_and_refuses_changes(bridge: BridgeThread) -> None:
    node = str(bridge.node_id)
    configs = described(bridge, node, resource_type=ResourceType.BROKER)
    assert len(configs) > 10
    assert all(config.read_only for config in configs.values())
    assert configs["num.partitions"].value == str(bridge.settings.kafka.default_partitions)
    assert configs["log.retention.ms"].value == "-1"
    assert described(bridge, "", resource_type=ResourceType.BROKER) == {}
    for resource_type, name, code in (
        (ResourceType.BROKER, "77", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "77", ErrorCode.INVALID_REQUEST),
        (ResourceType.TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "no/topic", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ):
        resource = describe_configs.RequestResource(
            resource_type=resource_type, resource_name=name, configuration_keys=None
        )
        result = ask(bridge, describe_configs.API, describe_configs.Request(resources=[resource])).results[0]
        assert result.error_code == code, name
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    entry = ConfigEntry("num.partitions", "3", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, node, incremental_configs=[entry])
    with pytest.raises(KafkaException, match=r"Cannot update these configs dynamically: Set\(num.partitions\)"):
        next(iter(admin.incremental_alter_configs([resource]).values())).result(30)


def test_a_group_shows_the_bridges_settings_and_kafkas_defaults(bridge: BridgeThread) -> None:
    groups = bridge.settings.groups
    assert shown(bridge, ResourceType.GROUP, "any").items() >= {
        ("consumer.heartbeat.interval.ms", (str(groups.consumer_heartbeat_interval_ms), False)),
        ("consumer.session.timeout.ms", (str(groups.consumer_session_timeout_ms), False)),
        ("share.auto.offset.reset", ("latest", False)),
    }


def test_the_log_level_is_shown_and_client_metrics_are_empty(bridge: BridgeThread) -> None:
    node = str(bridge.node_id)
    assert shown(bridge, ResourceType.BROKER_LOGGER, node) == {"root": (bridge.settings.log.level.upper(), True)}
    assert shown(bridge, ResourceType.CLIENT_METRICS, "any") == {}
