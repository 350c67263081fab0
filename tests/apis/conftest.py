"""Topics with records, for several APIs that ask about them."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from bridge.apis import create_topics
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread


@pytest.fixture
def written_topic(bridge: BridgeThread) -> Iterator[str]:
    """Two partitions; 7 records of one idempotent producer in the first, which is still there."""
    name = unique("written")
    wanted = create_topics.RequestTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    assert ask(bridge, create_topics.API, create_topics.Request(topics=[wanted])).topics[0].error_code == 0
    producer = Producer({"bootstrap.servers": bridge.kafka, "enable.idempotence": True})
    for number in range(7):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    yield name
    del producer
