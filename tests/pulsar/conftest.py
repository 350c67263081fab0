"""A scripted broker, certificates for servers of the tests' own, and what asks a real Pulsar."""

import asyncio
import secrets
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.config import PulsarSettings
from bridge.metrics import PulsarMetrics
from bridge.pulsar import Admin, PulsarClient
from tests.pulsar.fake_broker import FakeBroker
from tests.pulsar.one_connection import Connect, OneConnection
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

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=where, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")
    openssl("req", *key, "-keyout", "broker.key", "-out", "broker.csr", "-subj", "/CN=localhost")
    (where / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl(
        "x509", "-req", "-in", "broker.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-extfile", "names", "-out", "broker.pem",
    )  # fmt: skip
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
