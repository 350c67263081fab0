"""A client of the scripted broker."""

from collections.abc import AsyncIterator

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import PulsarClient
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.fake_broker import FakeBroker


@pytest.fixture
async def client(broker: FakeBroker) -> AsyncIterator[PulsarClient]:
    settings = PulsarSettings(service_url=broker.url, max_pending_bytes=10_000, operation_timeout_seconds=5)
    client = PulsarClient(settings, PulsarMetrics())
    yield client
    await client.close()
