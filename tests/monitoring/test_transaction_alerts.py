"""A producer hangs, and Pulsar falls silent, while transactions are open: their alerts fire, and end with the fault."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.node.orphans import Guard
from tests.monitoring import quickened
from tests.support.bridges import BridgeChild
from tests.support.freezing import frozen
from tests.support.prometheus import Prometheus, promtool, scraping
from tests.support.pulsar import NewPulsar, PrivatePulsar

FACTOR = 60.0
LASTING = ("BridgeStableOffsetHeld", "BridgeTransactionalIdClosed")
HELD, SILENT = {"BridgeStableOffsetHeld"}, {"BridgeTransactionOverdue", "BridgeTransactionTableOld", LASTING[1]}
PARTITIONS = 4
IDS = 8
TIMEOUT_MS = 2000


@pytest.fixture
def silent(private_pulsar: NewPulsar) -> PrivatePulsar:
    """A Pulsar that may be frozen."""
    return private_pulsar()


@pytest.fixture
def nodes(silent: PrivatePulsar, bridge_process: Callable[..., BridgeChild]) -> list[BridgeChild]:
    """Two: each follows what the other one coordinates."""
    namespace = silent.create_namespace()
    return [bridge_process(at=silent, in_namespace=namespace) for _ in range(2)]


@pytest.fixture
def prometheus(nodes: list[BridgeChild], guard: Guard, tmp_path: Path) -> Iterator[Prometheus]:
    """It scrapes both."""
    rules = quickened.rules(FACTOR, tmp_path, LASTING)
    promtool("check", "rules", rules)
    targets = {"bridge": [node.settings.http.listen for node in nodes]}
    every = quickened.SCRAPE_SECONDS / FACTOR
    running = Prometheus(tmp_path / "prometheus", guard, scraping(targets, every=every, rules=[rules]))
    running.start()
    yield running
    running.stop()


@contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[None]:
    """A consumer of committed records at work: it waits at what is open."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            consumer.poll(0.2)

    thread = threading.Thread(target=read)
    thread.start()
    yield
    ended.set()
    thread.join()
    consumer.close()


def opened(bootstrap: str, name: str, timeout_ms: int) -> Producer:
    """A producer with a transaction that it does not end."""
    words = {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": timeout_ms}
    producer = Producer({**words, "message.timeout.ms": timeout_ms})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce("t", b"open", partition=partition)
    assert producer.flush(30) == 0
    return producer


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_each_alert_of_transactions_fires_at_a_fault_and_ends_with_it(
    silent: PrivatePulsar, nodes: list[BridgeChild], prometheus: Prometheus
) -> None:
    bootstrap = ",".join(node.kafka for node in nodes)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(30)
    with reading(bootstrap, "t"):
        hanging = opened(bootstrap, "hanging", 600_000)
        prometheus.until("readers are held", lambda: _firing(prometheus) >= HELD, 120)
        hanging.abort_transaction(30)
        prometheus.until("they go on", lambda: not HELD & prometheus.alerts().keys(), 120)
        producers = [opened(bootstrap, f"id-{number}", TIMEOUT_MS) for number in range(IDS)]
        with frozen(silent.pid):
            prometheus.until("nobody knows their outcomes", lambda: _firing(prometheus) >= SILENT, 120)
        prometheus.until("they are known", lambda: not SILENT & prometheus.alerts().keys(), 120)
        del producers


def _firing(prometheus: Prometheus) -> set[str]:
    return {name for name, state in prometheus.alerts().items() if state == "firing"}


def test_thresholds_are_divided_where_they_say_how_long(tmp_path: Path) -> None:
    assert quickened.threshold("max by (job) (x_seconds) > 1200", FACTOR) == "max by (job) (x_seconds) > 20"
    assert quickened.threshold("x > 10 and y > 0", FACTOR) == "x > 10 and y > 0"
    text = quickened.rules(FACTOR, tmp_path, LASTING).read_text(encoding="utf-8")
    assert "bridge_topic_stable_offset_held_seconds) > 20\n" in text
    assert "bridge_transactions_table_age_seconds) > 10\n" in text
