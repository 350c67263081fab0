"""What a scrape costs with 2,000 topics of 4 partitions and 500 groups: its time, its size, and how long it holds the
event loop; the figures are for docs/operations.md."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families as parse

from bridge.config import Address
from tests.faults.figures import report
from tests.faults.processes import let_pass
from tests.faults.topics import wait_for
from tests.support.bridges import BridgeChild

TOPICS, PARTITIONS, GROUPS = 2000, 4, 500
READ = 16
"""Partitions that a group has committed offsets of."""
AT_ONCE = 100
SCRAPES = 30
SECONDS = 300.0
STALL = "0.005"


def names() -> Iterator[list[str]]:
    every = [f"department.service.events-{number:04}" for number in range(TOPICS)]
    for at in range(0, TOPICS, AT_ONCE):
        yield every[at : at + AT_ONCE]


def fill(bridge: BridgeChild) -> None:
    """Every partition is open with a record in it, and every group has committed."""
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    producer = Producer({"bootstrap.servers": bridge.kafka})
    for some in names():
        for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in some]).values():
            made.result(SECONDS)
        for topic in some:
            for partition in range(PARTITIONS):
                producer.produce(topic, bytes(100), partition=partition)
        assert producer.flush(SECONDS) == 0
    every = [topic for some in names() for topic in some]
    for group in range(GROUPS):
        topics = [every[(group * READ // PARTITIONS + number) % TOPICS] for number in range(READ // PARTITIONS)]
        offsets = [TopicPartition(topic, partition, 0) for topic in topics for partition in range(PARTITIONS)]
        asked = ConsumerGroupTopicPartitions(f"reader-group-{group:03}", offsets)
        for done in admin.alter_consumer_group_offsets([asked]).values():
            done.result(SECONDS)


def scrape(bridge: BridgeChild) -> tuple[float, str]:
    address = Address.parse(bridge.settings.http.listen)
    began = time.perf_counter()
    connection = HTTPConnection(address.host, address.port, timeout=SECONDS)
    connection.request("GET", "/metrics")
    body = connection.getresponse().read()
    return time.perf_counter() - began, body.decode()


def samples(text: str, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(one.labels.values()): one.value for family in parse(text) for one in family.samples if one.name == name
    }


def held(text: str) -> tuple[float, float, float]:
    """How often the loop was looked at, how often it was held for more than 5 ms, and the seconds in all."""
    buckets = samples(text, "bridge_event_loop_held_seconds_bucket")
    return buckets["+Inf",], buckets["+Inf",] - buckets[STALL,], samples(text, "bridge_event_loop_held_seconds_sum")[()]


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_scrape_of_many_topics_and_groups(bridge_process: Callable[..., BridgeChild]) -> None:
    bridge = bridge_process(kafka={"max_partitions": 100_000})
    fill(bridge)
    wait_for(lambda: len(samples(scrape(bridge)[1], "bridge_partition_end_offset")) >= 800, "no ends are shown")
    _, before = scrape(bridge)
    let_pass(SCRAPES)
    _, idle = scrape(bridge)
    taken = []
    for _ in range(SCRAPES):
        let_pass(1)
        seconds, text = scrape(bridge)
        taken.append(seconds * 1000)
    left_out = samples(text, "bridge_metrics_left_out")
    quiet, busy = (
        [round(b - a, 3) for a, b in zip(held(one), held(other), strict=True)]
        for one, other in ((before, idle), (idle, text))
    )
    report(
        scrape_ms=f"{statistics.median(taken):.0f} (max {max(taken):.0f})", kb=len(text) // 1000,
        series=sum(not line.startswith("#") for line in text.splitlines()),
        idle_looks_stalls_seconds=quiet, scraped_looks_stalls_seconds=busy, left_out=left_out,
    )  # fmt: skip
    assert len(text) <= 2_000_000
    assert samples(text, "bridge_storage_led_partitions")[()] == TOPICS * PARTITIONS
    assert samples(text, "bridge_groups_coordinated")[()] == GROUPS
    assert left_out == {
        ("topics",): TOPICS - 200, ("clients",): 0, ("groups",): 0, ("group_partitions",): GROUPS * READ - 4000
    }  # fmt: skip
    produced = samples(text, "bridge_topic_produced_records_total")
    assert sum(produced.values()) == TOPICS * PARTITIONS
    assert produced["(other)",] == (TOPICS - 200) * PARTITIONS
