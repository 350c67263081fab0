"""Metrics: plain numbers in, bounded Prometheus families out (`metrics` and `exposition`)."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bridge import __version__, apis
from bridge.config import Settings
from bridge.connection.shared import SharedResources
from bridge.groups import lag
from bridge.node import limits
from bridge.storage.append.conversion_memory import ConversionMemory
from bridge.telemetry.exposition import Exposition
from bridge.telemetry.families import Families, counter
from bridge.telemetry.instruments import Histogram, Level
from bridge.telemetry.metrics import (
    QUOTA_TYPES,
    REJECTION_REASONS,
    GroupRow,
    Known,
    Lag,
    Lags,
    LedPartitions,
    Metrics,
    PartitionEnd,
    Pending,
)
from bridge.telemetry.traffic import software_label
from tests.support.metrics_page import BEGIN, END, PAGE, page
from tests.support.pages import between
from tests.support.prometheus import check_metrics

GROUPS = [GroupRow("group", "consumer", "Stable", 2)]


def render(metrics: Metrics, *, open_metrics: bool = False) -> tuple[bytes, str]:
    return Exposition(metrics.families).render(open_metrics=open_metrics)


def filled() -> Metrics:
    """Metrics of which each has a value, so that all their labels can be seen."""
    metrics = Metrics()
    metrics.pulsar.slow_topics = {"orders": 12.5}
    metrics.name_apis({key: api.name for key, api in apis.load().items()})
    metrics.api(0).error(6)
    metrics.login("PLAIN", "failed")
    metrics.security.denied("Read", "Topic")
    for quota in QUOTA_TYPES:
        metrics.quotas.throttle(quota, 0.5)
    metrics.tls.certificate_expires_seconds["SSL"] = metrics.pulsar.certificate_expires_seconds["tls_cert_file"] = 1e9
    metrics.pulsar.token_ends("file", 1_900_000_000)
    metrics.tls.crl_expires_seconds["SSL"] = 1e9
    metrics.cluster.node = lambda: ("1", "node", "rack")
    metrics.pulsar.broker("broker:6650").acknowledged(1.0, 1.5)
    metrics.memory["requests"] = metrics.places["connections"] = Level(lambda: 1, 2)
    metrics.ready = {"pulsar": True}
    metrics.storage.led[""] = LedPartitions(1, [PartitionEnd("topic", 0, 7, 3)], {"topic": 12.5})
    metrics.groups.show_lags(
        "", Lags([Lag("group", "topic", 0, 5, 2, 1.5)], 1, 0, 0, GROUPS, {("share", "Empty"): 1}), 10
    )
    metrics.groups.show_pending("", Pending(1, 2.5))
    metrics.transactions.show_known("", Known(0, 0.0))
    metrics.topics.most = metrics.clients.most = 1
    metrics.topics.enter("topic").bytes_in += 1
    metrics.clients.enter(("librdkafka", "2.3.0")).requests += 1
    return metrics


async def rolled(metrics: Metrics) -> Metrics:
    """The same, with those shown that are to be shown now."""
    for table in (metrics.topics, metrics.clients):
        await table.roll()
    return metrics


def sample(metrics: Metrics, name: str, **labels: str) -> float:
    text = render(metrics)[0].decode()
    found = [
        one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == name and one.labels == labels
    ]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def test_an_api_has_its_own_series() -> None:
    metrics = Metrics()
    metrics.name_apis({0: "Produce", 1: "Fetch"})
    produce = metrics.api(0)
    produce.requests.inc()
    produce.bytes_in.inc(100)
    produce.seconds.observe(0.002)
    metrics.error_names = {6: "NOT_LEADER_OR_FOLLOWER"}
    for code in (6, 6, 999):
        produce.error(code)
    assert sample(metrics, "bridge_kafka_requests_total", api="Produce") == 1
    assert sample(metrics, "bridge_kafka_requests_total", api="Fetch") == 0
    assert sample(metrics, "bridge_kafka_request_bytes_total", api="Produce") == 100
    errors = "bridge_kafka_errors_total"
    assert sample(metrics, errors, api="Produce", code="6", error="NOT_LEADER_OR_FOLLOWER") == 2
    assert sample(metrics, errors, api="Produce", code="999", error="999") == 1
    assert sample(metrics, "bridge_kafka_request_seconds_bucket", api="Produce", le="0.001") == 0
    assert sample(metrics, "bridge_kafka_request_seconds_bucket", api="Produce", le="0.0025") == 1
    assert sample(metrics, "bridge_kafka_request_seconds_count", api="Produce") == 1
    assert sample(metrics, "bridge_kafka_request_seconds_sum", api="Produce") == pytest.approx(0.002)


def test_the_build_is_named() -> None:
    assert sample(Metrics("native"), "bridge_build_info", version=__version__, codec="native") == 1


def test_clients_cannot_make_series() -> None:
    metrics = Metrics()
    before = render(metrics)[0].count(b"\n")
    for key in range(1000):
        metrics.api(key).requests.inc()
        metrics.rejected(f"reason {key}")
    assert render(metrics)[0].count(b"\n") == before
    assert sample(metrics, "bridge_kafka_requests_total", api="unknown") == 1000
    assert sample(metrics, "bridge_kafka_rejected_total", reason="other") == 1000


@pytest.mark.programs
async def test_clients_cannot_make_series_by_what_they_call_themselves() -> None:
    metrics = Metrics()
    metrics.topics.most = metrics.clients.most = 5
    for number in range(1000):
        for hostile in (f"made-up-{number}", f'x"}} {number}\nbridge_up{{a="', f"{number}" * 1000):
            metrics.clients.enter((software_label(hostile), software_label(str(number)))).requests += 1
    await rolled(metrics)
    text = render(metrics)[0].decode()
    names = {name for name in text.splitlines() if name.startswith("bridge_client_requests_total{")}
    assert len(names) == 6
    assert max(map(len, text.splitlines())) < 500
    assert check_metrics(text) == ""
    others = {"client_software_name": "(other)", "client_software_version": "(other)"}
    shown = sum(row.amounts.requests for row in metrics.clients.rows)
    assert sample(metrics, "bridge_client_requests_total", **others) == 3000 - shown
    assert sample(metrics, "bridge_metrics_left_out", kind="clients") > 0


@pytest.mark.programs
async def test_names_are_escaped() -> None:
    metrics = Metrics()
    metrics.topics.most = 1
    name = 'a"}\n\\'
    metrics.topics.enter(name).bytes_in += 7
    await rolled(metrics)
    assert sample(metrics, "bridge_topic_produced_bytes_total", topic=name) == 7
    assert check_metrics(render(metrics)[0]) == ""


@pytest.mark.programs
async def test_every_metric_has_a_value_here_and_promtool_has_nothing_to_say() -> None:
    metrics = await rolled(filled())
    assert [family.name for family in metrics.families() if not list(family.samples)] == []
    assert check_metrics(render(metrics)[0]) == ""


async def test_what_the_limits_let_in_is_a_scrape_of_little_more_than_two_megabytes() -> None:
    metrics = filled()
    settings = Settings().http
    metrics.topics.most, metrics.clients.most = settings.max_topics_in_metrics, settings.max_clients_in_metrics
    topics = [f"department.service.events-{number:04}" for number in range(2000)]
    for topic in topics:
        metrics.topics.enter(topic).bytes_in += 10**9
        metrics.clients.enter(("apache-kafka-java", topic))
    lags = [
        Lag(
            f"reader-group-{number // 16:03}",
            topics[number % 2000],
            number // 2000,
            10**9,
            10**6,
            1234.5,
            10**9 + 10**6,
        )
        for number in range(lag.MAX_PARTITIONS)
    ]
    rows = [GroupRow(f"reader-group-{number:03}", "classic", "PreparingRebalance", 100) for number in range(500)]
    metrics.groups.show_lags("", Lags(lags, 500, 0, 4000, rows), lag.MAX_PARTITIONS)
    ends = [PartitionEnd(topic, 3, 10**9, 10**8) for topic in topics]
    metrics.storage.led[""] = LedPartitions(8000, ends, dict.fromkeys(topics, 60.0))
    await rolled(metrics)
    text = render(metrics)[0]
    assert len(text) < 2_300_000
    assert text.count(b"\nbridge_topic_produced_bytes_total{") == 201
    assert sample(metrics, "bridge_metrics_left_out", kind="topics") == 1801
    assert sample(metrics, "bridge_metrics_left_out", kind="group_partitions") == 4000


def test_the_page_is_the_codes() -> None:
    assert between(PAGE, BEGIN, END) == page(), "write it again: python -m tests.support.metrics_page"


async def test_every_kind_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shared = SharedResources(Settings().kafka, metrics := Metrics())
    limits.show(metrics, Settings(), cast(Any, SimpleNamespace(conversion_memory=ConversionMemory())), cast(Any, None))
    assert shared.login_budget.held == metrics.memory["logins"].used() == 0
    assert {kind for kind in (*metrics.memory, *metrics.places) if f"`{kind}`" not in text} == set()


@pytest.mark.parametrize("reason", REJECTION_REASONS)
def test_a_rejection_is_counted_by_its_reason(reason: str) -> None:
    metrics = Metrics()
    metrics.rejected(reason)
    assert sample(metrics, "bridge_kafka_rejected_total", reason=reason) == 1


def test_gauges_go_up_and_down() -> None:
    metrics = Metrics()
    metrics.connections.inc(3)
    metrics.connections.dec()
    metrics.storage.cache_bytes.set(7)
    assert sample(metrics, "bridge_kafka_connections") == 2
    assert sample(metrics, "bridge_storage_cache_bytes") == 7


def test_a_bound_belongs_to_its_own_bucket() -> None:
    histogram = Histogram()
    for seconds in (0.0005, 0.00051, 31.0):
        histogram.observe(seconds)
    assert histogram.buckets()[:2] == [("0.0005", 1), ("0.001", 2)]
    assert histogram.buckets()[-2:] == [("30.0", 2), ("+Inf", 3)]


def test_a_metric_is_declared_by_one_line_and_counts_in_a_slot() -> None:
    class Declared(Families, prefix="bridge_"):
        """Of a test."""

        made = counter("What was made.")

    declared = Declared()
    declared.made.inc(3)
    assert not vars(declared)
    text = Exposition(declared.families, process=False).render()[0].decode()
    assert text.splitlines() == [
        "# HELP bridge_made_total What was made.",
        "# TYPE bridge_made_total counter",
        "bridge_made_total 3.0",
    ]


def test_the_lag_of_groups_is_shown_as_far_as_it_is_known() -> None:
    metrics = Metrics()
    metrics.groups.lags = [Lag("g", "t", 0, 5, 7, 1.5, 12), Lag("g", "t", 1, 6, None, None)]
    metrics.storage.led[""] = LedPartitions(2, [PartitionEnd("t", 0, 13), PartitionEnd("u", 0, 4, 1)], {}, 5, 9)
    assert sample(metrics, "bridge_group_lag_records", group="g", topic="t", partition="0") == 7
    assert sample(metrics, "bridge_group_lag_seconds", group="g", topic="t", partition="0") == 1.5
    assert sample(metrics, "bridge_group_committed_offset", group="g", topic="t", partition="1") == 6
    assert 'bridge_group_lag_records{group="g",partition="1"' not in render(metrics)[0].decode()
    ends = [
        line for line in render(metrics)[0].decode().splitlines() if line.startswith("bridge_partition_end_offset{")
    ]
    assert [line.rpartition(" ")[2] for line in ends] == ["13.0", "4.0"]
    assert sample(metrics, "bridge_partition_start_offset", topic="u", partition="0") == 1
    assert sample(metrics, "bridge_storage_known_topics") == 5
    assert sample(metrics, "bridge_storage_known_partitions") == 9


def test_of_topics_whose_readers_are_held_back_those_held_longest_are_told() -> None:
    metrics = Metrics()
    metrics.storage.led[""] = LedPartitions(30, [], {f"t{number}": 20.0 + number for number in range(30)})
    metrics.storage.led["acme/orders"] = LedPartitions(1, [], {"acme/orders/t": 900.0})
    name = "bridge_topic_stable_offset_held_seconds"
    text = render(metrics)[0].decode()
    assert text.count(f"\n{name}{{") == 20
    assert sample(metrics, name, topic="acme/orders/t") == 900
    assert sample(metrics, name, topic="t29") == 49
    assert f'{name}{{topic="t10"}}' not in text


def test_what_is_not_known_of_transactions_is_absent() -> None:
    metrics = Metrics()
    names = (
        "bridge_groups_pending_offsets",
        "bridge_groups_pending_seconds",
        "bridge_transactions_overdue",
        "bridge_transactions_table_age_seconds",
    )
    text = render(metrics)[0].decode()
    assert not any(f"\n{name} " in text for name in names)
    metrics.groups.show_pending("a", Pending(2, 7.5))
    metrics.groups.show_pending("b", Pending(1, 9.0))
    metrics.transactions.show_known("a", Known(2, None))
    assert "\nbridge_transactions_table_age_seconds " not in render(metrics)[0].decode()
    metrics.transactions.show_known("b", Known(1, 0.5))
    assert [sample(metrics, name) for name in names] == [3, 9, 3, 0.5]


def test_openmetrics_is_given_to_those_who_ask() -> None:
    body, content_type = render(Metrics(), open_metrics=True)
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


async def test_clients_are_told_apart_by_principal_where_that_is_asked_for() -> None:
    metrics = Metrics()
    metrics.by_principal, metrics.clients.most = True, 1
    for name, size in (("User:alice", 9), ("User:bob", 1)):
        metrics.clients.enter(("librdkafka", "2.3.0", name)).bytes_in += size
    await rolled(metrics)
    software = {"client_software_name": "librdkafka", "client_software_version": "2.3.0"}
    other = dict.fromkeys((*software, "principal"), "(other)")
    assert sample(metrics, "bridge_client_request_bytes_total", **software, principal="User:alice") == 9
    assert sample(metrics, "bridge_client_request_bytes_total", **other) == 1
