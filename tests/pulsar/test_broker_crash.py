"""The client over a broker that dies: its own Pulsar, killed with SIGKILL and started again on the same data."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import EARLIEST, PulsarClient, Receipt
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.telemetry.metrics import PulsarMetrics
from tests.support.pulsar import PrivatePulsar


@pytest.fixture(scope="module")
def broker(private_pulsar: Callable[..., PrivatePulsar]) -> PrivatePulsar:
    return private_pulsar()


@pytest.fixture
async def client(broker: PrivatePulsar) -> AsyncIterator[PulsarClient]:
    client = PulsarClient(PulsarSettings(service_url=broker.service_url, admin_url=broker.admin_url), PulsarMetrics())
    yield client
    await client.close()


async def test_a_killed_broker_loses_repeats_and_reorders_nothing(broker: PrivatePulsar, client: PulsarClient) -> None:
    # Deduplication is on: a named producer's resends are exact. Batches of one keep the index dense.
    topic = f"persistent://{broker.create_namespace()}/crash"  # with retention, or the restart would delete the data
    producer = client.producer(topic, name="over-the-crash")
    await producer.opened()
    reader = await client.reader(topic, EARLIEST)
    sends: list[asyncio.Future[Receipt]] = []

    async def produce() -> None:
        for number in range(1500):
            sends.append(producer.send(pb.MessageMetadata(), b"%d" % number, 1))
            if number % 20 == 0:
                await asyncio.sleep(0.005)

    producing = asyncio.create_task(produce())
    received = [await reader.receive() for _ in range(300)]
    await asyncio.to_thread(broker.kill)
    await producing
    await asyncio.to_thread(broker.start)
    receipts = await asyncio.gather(*sends)
    received += [await reader.receive() for _ in range(1200)]
    assert [bytes(entry.payload) for entry in received] == [b"%d" % number for number in range(1500)]
    positions = [entry.position for entry in received]
    assert positions == sorted(set(positions))
    for number, receipt in enumerate(receipts):
        assert receipt.duplicate or receipt.position == positions[number]
    assert await client.read_entry(topic, positions[700]) is not None
    assert reader.receive_nowait() is None
