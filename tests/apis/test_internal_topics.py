"""Kafka's internal topics are neither created nor shown."""

from typing import Any

import pytest

from bridge.apis import create_topics, fetch, metadata, produce
from bridge.kafka import fetch_wire, produce_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.storage.names import INTERNAL
from tests.apis.wire import ask
from tests.support.bridges import BridgeThread
from tests.support.pulsar import PulsarAddress


def in_metadata(bridge: BridgeThread, *names: str) -> list[tuple[str, int]]:
    topics = [metadata.RequestTopic(name=name) for name in names] or None
    answer = ask(bridge, metadata.API, metadata.Request(topics=topics, allow_auto_topic_creation=True))
    return [(topic.name, topic.error_code) for topic in answer.topics]


def in_pulsar(bridge: BridgeThread, pulsar: PulsarAddress) -> set[str]:
    stored: Any = pulsar.admin("GET", f"persistent/{bridge.namespace}")
    partitioned: Any = pulsar.admin("GET", f"persistent/{bridge.namespace}/partitioned")
    return {name.rpartition("/")[2] for name in (*stored, *partitioned)}


@pytest.mark.parametrize("name", sorted(INTERNAL))
def test_asking_for_one_creates_nothing(bridge: BridgeThread, pulsar: PulsarAddress, name: str) -> None:
    unknown: Any = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert in_metadata(bridge, name) == [(name, unknown)]
    wanted = fetch_wire.RequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = [fetch_wire.RequestTopic(topic=name, partitions=[wanted])]
    answer = ask(bridge, fetch.API, fetch_wire.Request(max_wait_ms=0, min_bytes=0, topics=topics))
    assert answer.responses[0].partitions[0].error_code == unknown
    data = produce_wire.RequestPartition(index=0, records=b"")
    written = [produce_wire.RequestTopic(name=name, partition_data=[data])]
    request = produce_wire.Request(acks=1, timeout_ms=1000, topic_data=written)
    answer = ask(bridge, produce.API, request)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    topic = create_topics.RequestTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    (refused,) = ask(bridge, create_topics.API, create_topics.Request(topics=[topic])).topics
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == f"Creation of internal topic {name} is prohibited."
    assert not any(found.startswith(name) for found in in_pulsar(bridge, pulsar))


def test_one_that_pulsar_has_is_not_shown(bridge: BridgeThread, pulsar: PulsarAddress) -> None:
    pulsar.admin("PUT", f"persistent/{bridge.namespace}/__consumer_offsets/partitions", 3)
    try:
        assert "__consumer_offsets" in in_pulsar(bridge, pulsar)
        assert "__consumer_offsets" not in dict(in_metadata(bridge))
        assert in_metadata(bridge, "__consumer_offsets")[0][1] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    finally:
        pulsar.admin("DELETE", f"persistent/{bridge.namespace}/__consumer_offsets/partitions?force=true")
