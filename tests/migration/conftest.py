"""Where clients move: a bridge in a process of its own, and the clients of a topic that is at a Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.node.orphans import Guard
from tests.migration.work import PARTITIONS, Work
from tests.support.bridges import BridgeChild, settings_for
from tests.support.kafka_broker import KafkaBroker
from tests.support.pulsar import PulsarAddress


@pytest.fixture
def at_bridge(pulsar: PulsarAddress, guard: Guard, tmp_path: Path) -> Iterator[str]:
    with BridgeChild(settings_for(pulsar, pulsar.create_namespace()), tmp_path / "bridge", guard) as child:
        yield child.kafka


@pytest.fixture
def work(request: pytest.FixtureRequest, guard: Guard, real_kafka: KafkaBroker) -> Iterator[Work]:
    topic = f"orders-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": real_kafka.kafka})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    rate, libraries = request.param
    work = Work(guard, topic, rate, libraries)
    yield work
    work.close()
