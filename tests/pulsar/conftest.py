"""A scripted broker, certificates for servers of the tests' own, and what asks a real Pulsar."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import Admin, PulsarClient
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.fake_broker import FakeBroker
from tests.pulsar.one_connection import Connect, OneConnection
from tests.support.certificates import Authority
from tests.support.pulsar import PulsarAddress


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """A scripted broker that listens."""
    async with FakeBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A throw-away authority, and a certificate for the name localhost only."""
    where = tmp_path_factory.mktemp("tls")
    Authority(where, "ca").sign("broker", addresses=())
    return where


@pytest.fixture
def settings(pulsar: PulsarAddress) -> PulsarSettings:
    return PulsarSettings(service_url=pulsar.service_url, admin_url=pulsar.admin_url)


@pytest.fixture
async def client(settings: PulsarSettings) -> AsyncIterator[PulsarClient]:
    client = PulsarClient(settings, PulsarMetrics())
    await client.start()
    yield client
    await client.close()


@pytest.fixture
async def admin(settings: PulsarSettings) -> AsyncIterator[Admin]:
    admin = Admin(settings)
    await admin.start()
    yield admin
    await admin.close()


@pytest.fixture
async def topic(admin: Admin, namespace: str) -> str:
    topic = f"persistent://{namespace}/t-{secrets.token_hex(4)}"
    await admin.create_non_partitioned(topic)
    return topic


@pytest.fixture
async def connect(pulsar: PulsarAddress) -> AsyncIterator[Connect]:
    """Open connections of their own: `await connect()`, `await connect(service_url, operation_timeout=120)`."""
    opened: list[OneConnection] = []

    async def open_one(service_url: str = pulsar.service_url, operation_timeout: float = 30.0) -> OneConnection:
        opened.append(await OneConnection.open(service_url, operation_timeout))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()
    await asyncio.sleep(0)  # the transports are closed in the event loop's next turn
