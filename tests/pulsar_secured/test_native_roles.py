"""What a native client of the data namespace can do that has one right there: each row of docs/security.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.config import PulsarSettings
from bridge.pulsar import AccessMode, PulsarClient
from bridge.pulsar.pb.PulsarApi_pb2 import CompressionType, MessageMetadata
from bridge.pulsar.types import PulsarError
from bridge.storage.entries import PROPERTY
from bridge.telemetry.metrics import PulsarMetrics
from tests.contract.log import Log
from tests.pulsar_secured.conftest import ROLE, Start
from tests.support.bridges import BridgeThread
from tests.support.secured_pulsar import SecuredPulsar
from tests.support.waiting import until

TOPIC = "orders"
NATIVE = "native"
LONG_AGO = 1_000
GROUP = "mirrored"


@pytest.fixture
def bridge(secured: SecuredPulsar, tenant_namespace: str, start_bridge: Start) -> BridgeThread:
    running = start_bridge(pulsar={"token": secured.token(ROLE)}, groups={"mirror_pattern": GROUP})
    admin = AdminClient({"bootstrap.servers": running.kafka})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    return running


Do = Callable[[PulsarClient, str], Coroutine[object, object, None]]


@pytest.fixture
def natively(secured: SecuredPulsar, tenant_namespace: str) -> Callable[[Do], None]:
    """Do something with a client of Pulsar that has the role NATIVE."""

    def run(do: Do) -> None:
        async def with_client() -> None:
            settings = PulsarSettings(service_url=secured.service_url, token=secured.token(NATIVE))
            client = PulsarClient(settings, PulsarMetrics())
            await client.start()
            try:
                await do(client, f"persistent://{tenant_namespace}/{TOPIC}-partition-0")
            finally:
                await client.close()

        asyncio.run(with_client())

    return run


async def forge(client: PulsarClient, topic: str) -> None:
    """Marks that promise for others, more messages than there are, and what no client can read; all of long ago."""
    native = client.producer(topic)
    for mark in ('{"v":1,"t":1,"b":99}', '{"v":1,"t":1,"b":99,"p":[1,0,0]}', "forged", '{"v":2}', ""):
        metadata = MessageMetadata(event_time=LONG_AGO)
        if mark:
            metadata.properties.add(key=PROPERTY, value=mark)
        await native.send(metadata, b"native", 1)
    await native.enqueue(MessageMetadata(num_messages_in_batch=5), b"native", 1).future
    await native.send(MessageMetadata(compression=CompressionType.LZ4, uncompressed_size=50), b"\xff\x01", 1)
    await native.close()


def test_who_may_produce_adds_records_and_changes_nothing_of_others(
    secured: SecuredPulsar, tenant_namespace: str, bridge: BridgeThread, natively: Callable[[Do], None]
) -> None:
    secured.grant(tenant_namespace, NATIVE, ["produce"])
    started = 1_700_000_000_000
    with Log(bridge.kafka, TOPIC) as log:
        offsets: list[int] = []
        for at in range(3):
            offsets += log.write([b"%d" % number for number in range(4)], timestamp=started + at * 3_600_000)
            natively(forge)
        found = {message.offset(): message.value() for message in log.read(0)}
        assert [found[offset] for offset in offsets] == [b"%d" % number for number in range(4)] * 3
        assert {value for offset, value in found.items() if offset not in offsets} == {b"native"}
        for offset in offsets:
            assert log.read(offset)[0].offset() == offset
    consumer = Consumer({"bootstrap.servers": bridge.kafka, "group.id": "times"})
    for at in range(3):
        (place,) = consumer.offsets_for_times([TopicPartition(TOPIC, 0, started + at * 3_600_000)], timeout=30)
        assert place.offset == offsets[4 * at]
    consumer.close()


@pytest.mark.parametrize("right", ["produce", "consume"])
def test_who_may_produce_or_consume_administers_nothing(
    secured: SecuredPulsar, tenant_namespace: str, bridge: BridgeThread, right: str
) -> None:
    secured.grant(tenant_namespace, NATIVE, [right])
    topic = f"persistent/{tenant_namespace}/{TOPIC}"
    for method, path, body in (
        ("PUT", f"{topic}/properties", {"kafka.log.start.0.99": ""}),
        ("DELETE", f"{topic}/partitions", None),
        ("DELETE", f"{topic}-partition-0/truncate", None),
        ("PUT", f"{topic}-partition-0/unload", None),
        ("POST", f"{topic}-partition-0/terminate", None),
        ("POST", f"{topic}/retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}),
        ("POST", f"namespaces/{tenant_namespace}/retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}),
        ("POST", f"namespaces/{tenant_namespace}/permissions/{NATIVE}", ["produce", "consume"]),
        ("PUT", f"namespaces/{tenant_namespace}/unload", None),
    ):
        status, text = secured.ask(method, path, body, role=NATIVE)
        assert status in (401, 403), f"{method} {path}: {status} {text}"


def test_who_may_produce_can_have_a_topic_for_itself_and_nothing_acknowledged_is_lost(
    secured: SecuredPulsar, tenant_namespace: str, bridge: BridgeThread, natively: Callable[[Do], None]
) -> None:
    """As it can towards any other client of Pulsar. Kafka's clients try again, and go on when it has left."""
    secured.grant(tenant_namespace, NATIVE, ["produce"])
    producer = Producer({"bootstrap.servers": bridge.kafka, "linger.ms": 0, "enable.idempotence": True})
    acknowledged: list[bytes] = []

    def told(error: object, message: object) -> None:
        if error is None:
            acknowledged.append(message.value())  # type: ignore[attr-defined]

    producer.produce(TOPIC, b"before", partition=0, on_delivery=told)
    assert producer.flush(30) == 0

    async def alone(client: PulsarClient, topic: str) -> None:
        native = client.producer(topic, access_mode=AccessMode.EXCLUSIVE_WITH_FENCING)
        await native.send(MessageMetadata(), b"native", 1)
        producer.produce(TOPIC, b"beside", partition=0, on_delivery=told)
        assert await asyncio.to_thread(producer.flush, 2) == 1
        await native.close()

    natively(alone)
    assert producer.flush(60) == 0
    assert acknowledged == [b"before", b"beside"]
    with Log(bridge.kafka, TOPIC) as log:
        values = [message.value() for message in log.read(0)]
    assert values == [b"before", b"native", b"beside"]


def test_who_may_consume_can_take_a_group_s_mirror_and_not_its_offsets(
    secured: SecuredPulsar, tenant_namespace: str, bridge: BridgeThread, natively: Callable[[Do], None]
) -> None:
    secured.grant(tenant_namespace, NATIVE, ["consume"])
    consumer = Consumer({"bootstrap.servers": bridge.kafka, "group.id": GROUP, "enable.auto.commit": False})
    with Log(bridge.kafka, TOPIC) as log:
        log.write([b"value"] * 10)

    def commit(offset: int) -> None:
        (done,) = consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        assert done.error is None

    async def unsubscribe(client: PulsarClient, topic: str) -> None:
        await (await client.consumer(topic, GROUP)).unsubscribe()

    async def produce(client: PulsarClient, topic: str) -> None:
        with pytest.raises(PulsarError):
            await client.producer(topic).send(MessageMetadata(), b"native", 1)

    def mirrored() -> bool:
        stats = secured.admin("GET", f"persistent/{tenant_namespace}/{TOPIC}-partition-0/stats")
        assert isinstance(stats, dict)
        return GROUP in stats["subscriptions"]

    commit(4)
    natively(produce)
    asyncio.run(until(mirrored))
    natively(unsubscribe)
    assert not mirrored()
    (place,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)
    assert place.offset == 4
    commit(7)
    asyncio.run(until(mirrored))
    (place,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)
    assert place.offset == 7
    consumer.close()
