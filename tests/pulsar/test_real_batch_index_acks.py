"""Acknowledging messages of a batch, on a Pulsar that takes batch index acknowledgements."""

from collections.abc import AsyncIterator, Callable

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import PulsarClient, SubscriptionType
from bridge.pulsar.consumer.ack_sets import unacknowledged
from bridge.pulsar.consumer.consumer import unacknowledged_messages
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.real import send
from tests.support.pulsar import PrivatePulsar


@pytest.fixture(scope="module")
def broker(private_pulsar: Callable[..., PrivatePulsar]) -> PrivatePulsar:
    return private_pulsar({"acknowledgmentAtBatchIndexLevelEnabled": "true"})


@pytest.fixture
async def client(broker: PrivatePulsar) -> AsyncIterator[PulsarClient]:
    client = PulsarClient(PulsarSettings(service_url=broker.service_url, admin_url=broker.admin_url), PulsarMetrics())
    yield client
    await client.close()


@pytest.mark.parametrize("size", [4, 100])
async def test_messages_of_a_batch_are_acknowledged_one_by_one(
    broker: PrivatePulsar, client: PulsarClient, size: int
) -> None:
    topic = f"persistent://{broker.create_namespace()}/t"
    receipt = await send(client.producer(topic), b"batch", size)
    consumer = await client.consumer(topic, "sub", subscription_type=SubscriptionType.SHARED, permits=3 * size)
    entry = await consumer.receive()
    assert (entry.position, unacknowledged(entry.ack_set, size)) == (receipt.position, list(range(size)))
    await consumer.ack_messages(entry.position, size, range(0, size, 2))
    consumer.redeliver()
    entry = await consumer.receive()
    assert unacknowledged(entry.ack_set, size) == list(range(1, size, 2))
    assert unacknowledged_messages(entry) == size // 2
    stats = await consumer.stats()
    assert (stats.msg_backlog, stats.unacked_messages, stats.available_permits) == (
        1,  # entries
        size // 2,
        consumer._flow.outstanding,
    )
    await consumer.ack_messages(entry.position, size, range(1, size, 2))
    assert (await consumer.stats()).msg_backlog == 0


async def test_a_batch_is_acknowledged_up_to_a_message(broker: PrivatePulsar, client: PulsarClient) -> None:
    topic = f"persistent://{broker.create_namespace()}/t"
    producer = client.producer(topic)
    await send(producer, b"first", 3)
    receipt = await send(producer, b"second", 4)
    consumer = await client.consumer(topic, "sub")
    assert [(await consumer.receive()).position for _ in range(2)][1] == receipt.position
    await consumer.ack_messages_cumulative(receipt.position, 4, 1)
    consumer.redeliver()
    entry = await consumer.receive()
    assert (entry.position, unacknowledged(entry.ack_set, 4)) == (receipt.position, [2, 3])
