"""A client of the test's own scripted broker."""

from collections.abc import AsyncIterator

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import PulsarClient
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.consumer.log_broker import Log


@pytest.fixture
def metrics() -> PulsarMetrics:
    return PulsarMetrics()


@pytest.fixture
async def client(broker: Log, metrics: PulsarMetrics) -> AsyncIterator[PulsarClient]:
    client = PulsarClient(PulsarSettings(service_url=broker.url, operation_timeout_seconds=5), metrics)
    yield client
    await client.close()
