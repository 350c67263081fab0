"""Pulsar falls silent while transactions are open: all alerts of transactions fire, and end when it answers again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
ALERTS = {"BridgeTransactionOverdue", "BridgeTransactionTableOld", *LASTING}
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


def opened(bootstrap: str, topic: str, number: int) -> Producer:
    """A producer with a transaction that it does not end."""
    words = {"bootstrap.servers": bootstrap, "transactional.id": f"id-{number}", "transaction.timeout.ms": TIMEOUT_MS}
    producer = Producer({**words, "message.timeout.ms": TIMEOUT_MS})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(topic, b"open", partition=partition)
    assert producer.flush(30) == 0
    return producer


def test_all_alerts_of_transactions_fire_while_pulsar_is_silent_and_end_when_it_answers(
    silent: PrivatePulsar, nodes: list[BridgeChild], prometheus: Prometheus
) -> None:
    bootstrap = ",".join(node.kafka for node in nodes)
    AdminClient({"bootstrap.servers": bootstrap}).create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(30)
    with ExitStack() as at_work:
        at_work.enter_context(reading(bootstrap, "t"))
        warm = opened(bootstrap, "t", IDS)
        prometheus.until(
            "its time-out has ended it", lambda: _is(prometheus, "sum(bridge_transactions_timeouts_total)")
        )
        prometheus.until("no alert", lambda: not ALERTS & prometheus.alerts().keys())
        producers = [warm, *(opened(bootstrap, "t", number) for number in range(IDS))]
        with frozen(silent.pid):
            prometheus.until("all fire", lambda: _firing(prometheus) >= ALERTS, 120)
        prometheus.until("all have ended", lambda: not ALERTS & prometheus.alerts().keys(), 120)
        del producers


def _firing(prometheus: Prometheus) -> set[str]:
    return {name for name, state in prometheus.alerts().items() if state == "firing"}


def _is(prometheus: Prometheus, expression: str) -> bool:
    return any(sample.value > 0 for sample in prometheus.query(expression))


def test_thresholds_are_divided_where_they_say_how_long(tmp_path: Path) -> None:
    assert quickened.threshold("max by (job) (x_seconds) > 1200", FACTOR) == "max by (job) (x_seconds) > 20"
    assert quickened.threshold("x > 10 and y > 0", FACTOR) == "x > 10 and y > 0"
    text = quickened.rules(FACTOR, tmp_path, LASTING).read_text(encoding="utf-8")
    assert "bridge_topic_stable_offset_held_seconds) > 20\n" in text
    assert "bridge_transactions_table_age_seconds) > 10\n" in text
