"""The families of what is in Pulsar: brokers, partitions, topics, and groups with their lag."""

import time
from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, Metric, SummaryMetricFamily

from bridge.telemetry.exposition import texts
from bridge.telemetry.exposition.of_clients import OTHER
from bridge.telemetry.exposition.simple import counters, gauges, prefixed, unlabelled
from bridge.telemetry.metrics import GroupMetrics, Lag, Metrics, PulsarMetrics

_MOST_ENDS = 4_000
"""Those that groups have offsets for come first."""
_LAG = {
    "committed_offset": "The offset a group has committed, at the node that coordinates it. Not moving while its topic "
    "grows: it is stuck.",
    "lag_records": "Records after it; below 0: more is committed than there is, as kafka-consumer-groups has it. If it "
    "grows, consumers are too slow, too few or stuck. Absent: not known.",
    "lag_seconds": "Age of the first record after it; 0: there is none. Absent: not known.",
}
"""By name; the values are attributes of `Lag`."""


def pulsar_families(pulsar: PulsarMetrics) -> Iterator[Metric]:
    """Those of the Pulsar client."""
    yield from unlabelled(pulsar, prefixed("bridge_pulsar_", texts.PULSAR))
    text = (
        "When the bridge's own certificate for Pulsar (pulsar.tls_cert_file) ends, Unix time. Some weeks away: put a "
        "new one in its place."
    )
    expires = [((setting,), at) for setting, at in dict(pulsar.certificate_expires_seconds).items()]
    yield gauges("bridge_pulsar_certificate_expires_seconds", text, ["setting"], expires)
    text = (
        "How long Pulsar has not acknowledged a topic's oldest record, where that is more than 5 s, of the 20 topics "
        "that wait longest: each is above its publish rate, or its bookies hang. Other topics do not wait for it."
    )
    slow = [((topic,), seconds) for topic, seconds in dict(pulsar.slow_topics).items()]
    yield gauges("bridge_pulsar_topic_unacknowledged_seconds", text, ["topic"], slow)
    yield from _broker_families(pulsar)


def _broker_families(pulsar: PulsarMetrics) -> Iterator[Metric]:
    brokers = [((address,), broker) for address, broker in dict(pulsar.brokers).items()]
    behind = time.time() - time.monotonic()
    text = "Open connections to a broker of Pulsar. 0 for long: it is gone, or not reached; its topics move to others."
    yield gauges("bridge_pulsar_broker_connections", text, ["broker"], [(who, one.connections) for who, one in brokers])
    text = "When an entry was last sent to a broker, Unix time; 0: none was."
    sent = [(who, one.sent_at and one.sent_at + behind) for who, one in brokers]
    yield gauges("bridge_pulsar_broker_last_send_timestamp_seconds", text, ["broker"], sent)
    text = (
        "When a broker last acknowledged a produce, Unix time; 0: never. Behind the last send by more than seconds: it "
        "does not store; look at the broker and its bookies."
    )
    received = [(who, one.receipt_at and one.receipt_at + behind) for who, one in brokers]
    yield gauges("bridge_pulsar_broker_last_receipt_timestamp_seconds", text, ["broker"], received)
    text = "From send to receipt, of one broker. One that is slower than the others: look at its machine and bookies."
    receipts = SummaryMetricFamily("bridge_pulsar_broker_receipt_seconds", text, labels=["broker"])
    for who, one in brokers:
        receipts.add_metric(list(who), count_value=one.receipts, sum_value=one.seconds)
    yield receipts


def storage_families(metrics: Metrics) -> Iterator[Metric]:
    """Those of partitions and topics."""
    yield from unlabelled(metrics.storage, prefixed("bridge_storage_", texts.STORAGE))
    led = list(metrics.storage.led.values())
    text = "Partitions held open that this node leads. Nodes that differ much for long: see docs/cluster.md, weights."
    yield gauges("bridge_storage_led_partitions", text, [], [((), sum(one.number for one in led))])
    table = metrics.topics
    rows = [((row.name,), row.amounts) for row in table.rows]
    if table.left_out or any(table.others):
        rows.append(((OTHER,), table.others))
    why = "by topic; (other): beyond http.max_topics_in_metrics."
    for metric, attribute, what in (
        ("produced_records", "records_in", "Records that clients produced and Pulsar has stored"),
        ("produced_bytes", "bytes_in", "Bytes of the batches that clients produced"),
        ("fetched_records", "records_out", "Records sent to consumers"),
        ("fetched_bytes", "bytes_out", "Bytes of the batches sent to consumers"),
    ):
        values = [(name, getattr(amounts, attribute)) for name, amounts in rows]
        yield counters(f"bridge_topic_{metric}", f"{what}, {why}", ["topic"], values)
    text = (
        "The offset after a partition's last record: at the node that leads it, while clients use it and its topic is "
        "shown; and at one that coordinates a group with an offset there, some seconds old. The largest is the newest."
    )
    ends = {(lag.topic, str(lag.partition)): lag.end for lag in metrics.groups.lags if lag.end is not None}
    ends |= {(end.topic, str(end.partition)): end.end for one in led for end in one.ends}
    yield gauges("bridge_partition_end_offset", text, ["topic", "partition"], list(ends.items())[:_MOST_ENDS])


def group_families(groups: GroupMetrics) -> Iterator[Metric]:
    """Those of groups."""
    yield from unlabelled(groups, prefixed("bridge_groups_", texts.GROUPS))
    yield from _lag_families(groups.lags)


def _lag_families(lags: list[Lag]) -> Iterator[Metric]:
    # one after another: the garbage collector would hold the event loop for what all of them have at once
    for name, text in _LAG.items():
        family = GaugeMetricFamily(f"bridge_group_{name}", text, labels=["group", "topic", "partition"])
        attribute = name.removeprefix("lag_").removesuffix("_offset")
        for lag in lags:
            value = getattr(lag, attribute)
            if value is not None:
                family.add_metric([lag.group, lag.topic, str(lag.partition)], value)
        yield family
