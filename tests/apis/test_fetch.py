"""What a fetch of some version gets, asked for byte by byte."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import fetch
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_wire import Request, RequestPartition, RequestTopic
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread

pytestmark = pytest.mark.pulsar


def fetched(bridge: BridgeThread, topic: str, version: int) -> tuple[int, int]:
    """The error and how many bytes came."""
    partition = RequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = Request(max_wait_ms=5000, min_bytes=1, topics=[RequestTopic(topic=topic, partitions=[partition])])
    (answer,) = ask(bridge, fetch.API, request, version).responses[0].partitions
    return answer.error_code, sum(map(len, answer.records or []))


@pytest.mark.parametrize("entry_format", ["pulsar", "kafka"])
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_zstd_takes_fetch_v10(bridge: BridgeThread, codec: str, entry_format: str) -> None:
    topic = unique("zstd")
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.create_topics([NewTopic(topic, 1, 1, config={"entry.format": entry_format})])[topic].result(30)
    producer = Producer({"bootstrap.servers": bridge.kafka, "compression.type": codec, "linger.ms": 100})
    for _ in range(100):
        producer.produce(topic, b"the same words again and again")
    assert producer.flush(30) == 0
    for version in (10, fetch.API.max_version):
        error, size = fetched(bridge, topic, version)
        assert error == ErrorCode.NONE and 0 < size < 1000
    for version in (4, 9):
        error, size = fetched(bridge, topic, version)
        assert error == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if codec == "zstd" else ErrorCode.NONE)
        assert (size == 0) == (codec == "zstd")
