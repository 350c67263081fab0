"""A live scrape of a bridge that real clients use: Prometheus's own tool has nothing to say against it."""

from __future__ import annotations

import time
import uuid
from http.client import HTTPConnection

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import __version__ as client_version
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.faults.topics import create, produce, wait_for
from tests.support.bridges import BridgeThread
from tests.support.prometheus import check_metrics

RECORDS = 50
VALUE = bytes(1000)
SECONDS = 30.0
SOFTWARE = "confluent-kafka-python"


def scrape(bridge: BridgeThread, accept: str = "text/plain") -> str:
    connection = HTTPConnection("127.0.0.1", bridge.server.http_port, timeout=SECONDS)
    connection.request("GET", "/metrics", headers={"Accept": accept})
    return connection.getresponse().read().decode()


def value(bridge: BridgeThread, name: str, **labels: str) -> float:
    """The sum of the samples of this name that have these labels."""
    samples = [one for family in parse(scrape(bridge)) for one in family.samples if one.name == name]
    return sum(one.value for one in samples if labels.items() <= one.labels.items())


@pytest.fixture(scope="module")
def used(bridge: BridgeThread) -> tuple[BridgeThread, str, str]:
    """A bridge, and a topic of it that a producer filled and a group has read, half of it committed."""
    topic, group = (f"scraped-{what}-{uuid.uuid4().hex[:8]}" for what in ("topic", "group"))
    create(bridge.kafka, topic, 2)
    produce(bridge.kafka, topic, [VALUE] * RECORDS)
    consumer = Consumer(
        {
            "bootstrap.servers": bridge.kafka, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )  # fmt: skip
    try:
        consumer.subscribe([topic])
        read = [consumer.consume(1, SECONDS)[0] for _ in range(RECORDS)]
        assert len(read) == RECORDS
        consumer.commit(message=read[RECORDS // 2 - 1], asynchronous=False)
    finally:
        consumer.close()
    return bridge, topic, group


def test_promtool_has_nothing_to_say_of_it(used: tuple[BridgeThread, str, str]) -> None:
    assert check_metrics(scrape(used[0])) == ""


@pytest.mark.programs
def test_promtool_would_say_something() -> None:
    assert "counter metrics should have" in check_metrics(
        "# HELP bridge_x Text.\n# TYPE bridge_x counter\nbridge_x 1\n"
    )


def test_openmetrics_can_be_read_too(used: tuple[BridgeThread, str, str]) -> None:
    text = scrape(used[0], "application/openmetrics-text")
    found = parse_open_metrics(text)  # type: ignore[no-untyped-call]
    families: dict[str, Metric] = {family.name: family for family in found}
    assert {one.name for one in families["bridge_topic_produced_records"].samples} == {
        "bridge_topic_produced_records_total"
    }


def test_who_sends_and_reads_is_told_by_topic(used: tuple[BridgeThread, str, str]) -> None:
    bridge, topic, _ = used
    assert value(bridge, "bridge_topic_produced_records_total", topic=topic) == RECORDS
    assert value(bridge, "bridge_topic_fetched_records_total", topic=topic) >= RECORDS
    for what in ("produced", "fetched"):
        assert value(bridge, f"bridge_topic_{what}_bytes_total", topic=topic) >= RECORDS * len(VALUE)


def test_who_sends_and_reads_is_told_by_client(used: tuple[BridgeThread, str, str]) -> None:
    bridge, _, _ = used
    software = {"client_software_name": SOFTWARE}
    assert value(bridge, "bridge_client_requests_total", **software) > 0
    assert value(bridge, "bridge_client_request_bytes_total", **software) >= RECORDS * len(VALUE)
    assert value(bridge, "bridge_client_response_bytes_total", **software) >= RECORDS * len(VALUE)
    text = scrape(bridge)
    assert f'client_software_version="{client_version}-rdkafka-' in text


def test_what_pulsars_brokers_do_is_told(used: tuple[BridgeThread, str, str]) -> None:
    bridge, _, _ = used
    broker = bridge.pulsar.removeprefix("pulsar://")
    before = time.time()
    for what in ("send", "receipt"):
        at = value(bridge, f"bridge_pulsar_broker_last_{what}_timestamp_seconds", broker=broker)
        assert before - 600 < at <= time.time() + 1
    assert value(bridge, "bridge_pulsar_broker_receipt_seconds_count", broker=broker) > 0
    assert value(bridge, "bridge_pulsar_broker_connections", broker=broker) > 0


def test_what_a_node_leads_and_what_its_limits_are_is_told(used: tuple[BridgeThread, str, str]) -> None:
    bridge, _, _ = used
    assert value(bridge, "bridge_cluster_node_info", node_id=str(bridge.node_id)) == 1
    wait_for(lambda: value(bridge, "bridge_groups_coordinated") >= 1, "no group is coordinated")
    for what, kinds in (
        ("memory", ("requests", "answers", "logins", "records", "conversion", "group_members")),
        ("places", ("connections", "catchup_readers", "waiting_fetch_partitions", "tenant_namespaces")),
    ):
        unit = "_bytes" if what == "memory" else ""
        for kind in kinds:
            most = value(bridge, f"bridge_{what}_limit{unit}", kind=kind)
            assert 0 <= value(bridge, f"bridge_{what}_used{unit}", kind=kind) < most, kind


def test_the_ends_of_partitions_and_what_is_committed_give_the_lag(used: tuple[BridgeThread, str, str]) -> None:
    bridge, topic, group = used

    def lag() -> float:
        end = sum(
            value(bridge, "bridge_partition_end_offset", topic=topic, partition=partition)
            for partition in committed_partitions()
        )
        return end - value(bridge, "bridge_group_committed_offset", group=group)

    def committed_partitions() -> set[str]:
        samples = [one for family in parse(scrape(bridge)) for one in family.samples]
        return {
            one.labels["partition"]
            for one in samples
            if one.name == "bridge_group_committed_offset" and one.labels["group"] == group
        }

    wait_for(lambda: bool(committed_partitions()), "the lag of the group is not shown")
    wait_for(lambda: lag() > 0, "the ends of the partitions are not shown")
    assert value(bridge, "bridge_group_lag_records", group=group) == lag()


def test_topics_partitions_and_where_they_begin_are_told(used: tuple[BridgeThread, str, str]) -> None:
    bridge, topic, group = used
    wait_for(lambda: value(bridge, "bridge_storage_known_topics") >= 1, "no topic is known")
    assert value(bridge, "bridge_storage_known_partitions") >= 2
    consumer = Consumer({"bootstrap.servers": bridge.kafka, "group.id": group})
    consumer.get_watermark_offsets(TopicPartition(topic, 0), SECONDS)
    consumer.close()
    told = 'bridge_partition_start_offset{partition="0",topic="' + topic + '"} 0.0\n'
    wait_for(lambda: told in scrape(bridge), "the start is not shown")


def test_the_checks_of_readiness_are_told(used: tuple[BridgeThread, str, str]) -> None:
    bridge, _, _ = used
    wait_for(lambda: value(bridge, "bridge_ready_check") == 6, "not every check holds")
