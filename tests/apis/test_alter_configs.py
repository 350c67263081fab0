"""AlterConfigs: all configs of a topic are replaced."""

import aiokafka.admin
from kafka import KafkaAdminClient

from bridge.apis import (
    alter_configs,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.resources import ResourceType
from tests.apis.configs import create, policy, values
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread
from tests.support.pulsar import PulsarAddress


def test_configs_that_are_not_named_return_to_their_defaults(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    topic, _ = create(bridge, {"retention.ms": "60000", "segment.ms": "5"})
    config = alter_configs.Config(name="segment.ms", value="6")
    resource = alter_configs.Resource(resource_type=ResourceType.TOPIC, resource_name=topic, configs=[config])
    for validate_only, segment_ms in ((True, "5"), (False, "6")):
        request = alter_configs.Request(resources=[resource], validate_only=validate_only)
        assert ask(bridge, alter_configs.API, request).responses[0].error_code == ErrorCode.NONE
        assert values(bridge, topic, "segment.ms") == {"segment.ms": segment_ms}
    assert values(bridge, topic, "retention.ms") == {"retention.ms": "-1"}
    assert policy(bridge, pulsar, topic, "retention") is None


def test_kafka_python(bridge: BridgeThread) -> None:
    from kafka.admin import ConfigResource as Resource
    from kafka.admin import ConfigResourceType

    topic, _ = create(bridge)
    admin = KafkaAdminClient(bootstrap_servers=bridge.kafka)
    try:
        admin.alter_configs([Resource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "62000"})])
        admin.describe_configs([Resource(ConfigResourceType.TOPIC, topic)])
    finally:
        admin.close()
    assert values(bridge, topic, "retention.ms") == {"retention.ms": "62000"}


async def test_aiokafka(bridge: BridgeThread) -> None:
    from aiokafka.admin.config_resource import ConfigResource as Resource
    from aiokafka.admin.config_resource import ConfigResourceType

    topic, _ = create(bridge)
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bridge.kafka)
    await admin.start()
    try:
        await admin.alter_configs([Resource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "63000"})])
        found = await admin.describe_configs([Resource(ConfigResourceType.TOPIC, topic)])
    finally:
        await admin.close()
    shown = {entry[0]: entry[1] for entry in found[0].resources[0][4]}
    assert shown["retention.ms"] == "63000"
