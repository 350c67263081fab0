"""ListConfigResources: what has configs, by type."""

from bridge.apis import (
    create_topics,
    list_config_resources,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.topics.configs import Operation
from bridge.storage.topics.resources import ResourceType
from tests.apis.configs import alter
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread


def listed(bridge: BridgeThread, version: int, *resource_types: int) -> set[tuple[int, str]]:
    answer = ask(
        bridge, list_config_resources.API, list_config_resources.Request(resource_types=list(resource_types)), version
    )
    assert answer.error_code == ErrorCode.NONE
    return {(one.resource_type, one.resource_name) for one in answer.config_resources}


def test_resources_are_listed_by_type(bridge: BridgeThread) -> None:
    name, node = unique("listed"), str(bridge.node_id)
    topic = create_topics.RequestTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    assert ask(bridge, create_topics.API, create_topics.Request(topics=[topic])).topics[0].error_code == 0
    assert listed(bridge, 0) == set()
    everything = listed(bridge, 1)
    assert {(ResourceType.TOPIC, name), (ResourceType.BROKER, node), (ResourceType.BROKER_LOGGER, node)} <= everything
    assert {resource_type for resource_type, _ in everything} - {ResourceType.GROUP} == {
        ResourceType.TOPIC,
        ResourceType.BROKER,
        ResourceType.BROKER_LOGGER,
    }
    assert listed(bridge, 1, ResourceType.BROKER) == {(ResourceType.BROKER, node)}


def test_groups_are_listed_that_have_configs_of_their_own(bridge: BridgeThread) -> None:
    group, config = unique("group"), "share.auto.offset.reset"
    assert (ResourceType.GROUP, group) not in listed(bridge, 1, ResourceType.GROUP)
    alter(bridge, group, (config, Operation.SET, "earliest"), resource_type=ResourceType.GROUP)
    assert (ResourceType.GROUP, group) in listed(bridge, 1, ResourceType.GROUP)
    alter(bridge, group, (config, Operation.DELETE, None), resource_type=ResourceType.GROUP)
    assert (ResourceType.GROUP, group) not in listed(bridge, 1, ResourceType.GROUP)
