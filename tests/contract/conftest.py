"""The server under test: a bridge on a real Pulsar, then a real Apache Kafka as the control."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.contract.log import Log
from tests.support.bridges import BridgeThread
from tests.support.kafka_broker import KafkaBroker


@pytest.fixture(scope="package", params=["bridge", pytest.param("real_kafka", id="control")])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the server listens."""
    server: BridgeThread | KafkaBroker = request.getfixturevalue(request.param)
    return server.kafka


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    """An admin client of the server."""
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def log(bootstrap: str, admin: AdminClient) -> Iterator[Log]:
    """A fresh topic of two partitions."""
    topic = f"contract-{secrets.token_hex(6)}"
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    with Log(bootstrap, topic) as log:
        log.wait_for_leaders(2)
        yield log
