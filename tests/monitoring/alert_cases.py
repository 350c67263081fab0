"""For each alert a fault of 20 minutes between good times, as series of Prometheus; and a healthy hour.

The values are in promtool's notation, one each 15 s: `1x19` is 20 times 1, `0+15x19` counts up by 15.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.monitoring.quickened import ALL

ANNOTATIONS = {rule["alert"]: rule["annotations"] for rule in ALL if "alert" in rule}
INTERVAL = "15s"
BEFORE, FIRES, AFTER = "5m", "24m", "58m"
"""The fault begins after five minutes and is over after 25; the longest range of an alert is 15 minutes."""
_A = 'job="bridge",instance="a"'
_ON_A = {"job": "bridge", "instance": "a"}


def fault(good: str, bad: str, again: str | None = None) -> str:
    """Five good minutes, 20 bad ones, 35 good ones; `x` stands for the repetitions."""
    return f"{good}19 {bad}79 {again or good}139"


class Case(NamedTuple):
    """An alert that fires."""

    alert: str
    severity: str
    summary: str
    labels: Mapping[str, str]
    series: Mapping[str, str]


BEATS = f"bridge_cluster_heartbeat_seconds_count{{{_A}}}"
ERRORS = f'bridge_kafka_errors_total{{{_A},api="Produce",code="56"}}'
PRODUCES = f'bridge_kafka_requests_total{{{_A},api="Produce"}}'
RECEIPTS = f"bridge_pulsar_receipt_seconds_bucket{{{_A},le="
COMMITTED = 'bridge_group_committed_offset{job="bridge",instance="b",group="g",topic="t",partition='
LAG = 'bridge_group_lag_records{job="bridge",instance="b",group="g",topic="t",partition='
MEMBERS = 'bridge_group_members{job="bridge",instance="b",group="g"}'
USED = f"bridge_memory_used_bytes{{{_A},kind="
LIMIT = f"bridge_memory_limit_bytes{{{_A},kind="
CERTIFICATE = f'bridge_tls_certificate_expires_seconds{{{_A},listener="SASL_SSL"}}'
TOKEN = f"bridge_pulsar_token_expires_seconds{{{_A},source="
CORRUPT = f"bridge_pulsar_corrupt_entries_total{{{_A}}}"
HELD = f"bridge_topic_stable_offset_held_seconds{{{_A},topic="
REJECTED = f'bridge_kafka_rejected_total{{{_A},reason="too_many_connections"}}'


def of_the_same_name(members: int) -> Mapping[str, str]:
    """A group of another namespace that stops, while its coordinator moves; and ours of its name, which reads on."""
    where, moves = 'tenant_namespace="acme/a",group="g"', ("1x39 _x199", "_x39 1x59 _x139", "_x99 1x139")
    offsets = ("0+150x18 2850x20 _x199", "_x39 2850x59 _x139", "_x99 3000+150x139")
    made = {
        MEMBERS: f"{1 - members}x239",
        f'{COMMITTED}"0"}}': "0+150x239",
        f'{LAG}"0"}}': "10x239",
    }
    for node, there, committed in zip("abc", moves, offsets, strict=True):
        on = f'{{job="bridge",instance="{node}",{where}'
        made[f"bridge_group_members{on}}}"] = there.replace("1x", f"{members}x")
        partition = f'{on},topic="acme/a/t",partition="0"}}'
        made[f"bridge_group_committed_offset{partition}"] = committed
        made[f"bridge_group_lag_records{partition}"] = there.replace("1x", "10x")
    return made


CASES = (
    Case(
        "BridgeDown",
        "critical",
        "The bridge a gives no metrics: it has ended, hangs, or cannot be reached.",
        _ON_A,
        {f"up{{{_A}}}": fault("1x", "0x")},
    ),
    Case(
        "BridgeDown",
        "critical",
        "The bridge  gives no metrics: it has ended, hangs, or cannot be reached.",
        {"job": "bridge"},
        {f"up{{{_A}}}": fault("1x", "_x")},
    ),
    Case(
        "BridgeNotReady",
        "critical",
        "The bridge a does not serve its clients: /readyz names the reason.",
        _ON_A,
        {
            f'bridge_ready_check{{{_A},check="pulsar"}}': fault("1x", "1x"),
            f'bridge_ready_check{{{_A},check="writes"}}': fault("1x", "0x"),
        },
    ),
    Case(
        "BridgePulsarUnreachable",
        "critical",
        "Pulsar has acknowledged nothing to the bridge a for two minutes.",
        _ON_A,
        {BEATS: fault("0+15x", "300x", "300+15x"), f"bridge_pulsar_stalled_seconds{{{_A}}}": fault("0x", "0x")},
    ),
    Case(
        "BridgePulsarStoresNothing",
        "critical",
        "Pulsar refuses all that the bridge a sends: its disks may be full.",
        _ON_A,
        {f"bridge_pulsar_stalled_seconds{{{_A}}}": fault("0x", "5+15x", "0x")},
    ),
    Case(
        "BridgeTopicNotAcknowledged",
        "warning",
        "Pulsar has not acknowledged a record of the topic t for 19m 20s: it is throttled, or its bookies hang.",
        {"job": "bridge", "topic": "t"},
        {f'bridge_pulsar_topic_unacknowledged_seconds{{{_A},topic="t"}}': fault("_x", "5+15x", "_x")},
    ),
    Case(
        "BridgeProduceErrors",
        "critical",
        "More than one in a hundred produce requests to the bridge a fails.",
        _ON_A,
        {ERRORS: fault("0x", "0+30x", "2400x"), PRODUCES: fault("0+1500x", "30000+1500x", "150000+1500x")},
    ),
    Case(
        "BridgeReceiptsSlow",
        "warning",
        "One in a hundred of the bridge a's sends waits longer than 2.485s for Pulsar's receipt.",
        _ON_A,
        {
            f'{RECEIPTS}"1.0"}}': fault("0+100x", "2000x", "2000+100x"),
            f'{RECEIPTS}"2.5"}}': fault("0+100x", "2000+100x", "10000+100x"),
            f'{RECEIPTS}"+Inf"}}': fault("0+100x", "2000+100x", "10000+100x"),
        },
    ),
    Case(
        "BridgeLagGrowing",
        "warning",
        "The group g is 23.12k records behind in the topic t, and falls further behind.",
        {"job": "bridge", "group": "g", "topic": "t"},
        {
            f'{COMMITTED}"0"}}': fault("0+150x", "2850x", "15000+150x"),
            f'{COMMITTED}"1"}}': fault("0+150x", "2850x", "15000+150x"),
            f'{LAG}"0"}}': fault("10x", "160+150x", "10x"),
            f'{LAG}"1"}}': fault("10x", "160+150x", "10x"),
        },
    ),
    Case(
        "BridgeGroupStuck",
        "warning",
        "The group g has members, and has committed nothing for 15 minutes in 1 partitions of the topic t that have "
        "records for it.",
        {"job": "bridge", "group": "g", "topic": "t"},
        {
            MEMBERS: "2x239",
            f'{COMMITTED}"0"}}': fault("0+150x", "2850x", "15000+150x"),
            f'{COMMITTED}"1"}}': "0+150x239",
            f'{COMMITTED}"2"}}': "150x239",
            f'{LAG}"0"}}': fault("10x", "160+150x", "10x"),
            f'{LAG}"1"}}': "10x239",
            f'{LAG}"2"}}': "0x239",
        },
    ),
    Case(
        "BridgeGroupStuck",
        "warning",
        "The group g has members, and has committed nothing for 15 minutes in 1 partitions of the topic acme/a/t that "
        "have records for it.",
        {"job": "bridge", "group": "g", "topic": "acme/a/t", "tenant_namespace": "acme/a"},
        of_the_same_name(members=1),
    ),
    Case(
        "BridgeGroupWithoutMembers",
        "warning",
        "The group g has no members, and records wait for it in 2 partitions of the topic t.",
        {"job": "bridge", "group": "g", "topic": "t"},
        {
            MEMBERS: fault("2x", "0x"),
            f'{COMMITTED}"0"}}': fault("0+150x", "2850x", "2850+150x"),
            f'{COMMITTED}"1"}}': fault("0+150x", "2850x", "2850+150x"),
            f'{LAG}"0"}}': fault("10x", "10+150x", "10x"),
            f'{LAG}"1"}}': fault("10x", "10+150x", "10x"),
        },
    ),
    Case(
        "BridgeGroupWithoutMembers",
        "warning",
        "The group g has no members, and records wait for it in 1 partitions of the topic acme/a/t.",
        {"job": "bridge", "group": "g", "topic": "acme/a/t", "tenant_namespace": "acme/a"},
        of_the_same_name(members=0),
    ),
    Case(
        "BridgeLagUnknown",
        "warning",
        "How far the group g is behind in the topic t is not known of 1 partitions.",
        {"job": "bridge", "group": "g", "topic": "t"},
        {
            f'{COMMITTED}"0"}}': "150x239",
            f'{COMMITTED}"1"}}': "150x239",
            f'{LAG}"0"}}': fault("10x", "_x"),
            f'{LAG}"1"}}': "10x239",
        },
    ),
    Case(
        "BridgeMemoryNearLimit",
        "warning",
        "The bridge a holds 95% of what it may for requests: clients wait for memory.",
        {**_ON_A, "kind": "requests"},
        {
            f'{USED}"requests"}}': fault("20x", "95x"),
            f'{LIMIT}"requests"}}': "100x239",
            f'{USED}"records"}}': "100x239",
            f'{LIMIT}"records"}}': "100x239",
        },
    ),
    Case(
        "BridgeCertificateEnding",
        "warning",
        "The certificate of SASL_SSL of the bridge a ends in 6d 23h 41m 0s.",
        {**_ON_A, "listener": "SASL_SSL"},
        {CERTIFICATE: f"{7 * 86400 + 300}x99 {90 * 86400}x139"},
    ),
    Case(
        "BridgePulsarTokenEnding",
        "warning",
        "The token of the bridge a for Pulsar ends in 2d 23h 41m 0s.",
        _ON_A,
        {
            f'{TOKEN}"file"}}': f"{3 * 86400 + 300}x99 {90 * 86400}x139",
            f'{TOKEN}"oauth2"}}': "0+15x239",
        },
    ),
    Case(
        "BridgeNodeMissing",
        "warning",
        "Nodes that the cluster has lost within the last hour: 1.",
        {"job": "bridge"},
        {f"bridge_cluster_members{{{_A}}}": fault("3x", "2x")},
    ),
    Case(
        "BridgeEntriesCorrupt",
        "warning",
        "The bridge a has met entries in Pulsar that cannot be decoded.",
        _ON_A,
        {CORRUPT: fault("0x", "0+1x", "79x")},
    ),
    Case(
        "BridgeRefusesClients",
        "warning",
        "The bridge a refuses clients for a limit: too_many_connections.",
        {**_ON_A, "reason": "too_many_connections"},
        {REJECTED: fault("0x", "0+1x", "79x")},
    ),
    Case(
        "BridgeTransactionOverdue",
        "warning",
        "As the bridge a knows it, 2 transactions are open for more than twice their time-outs: readers of committed "
        "records wait for them.",
        _ON_A,
        {f"bridge_transactions_overdue{{{_A}}}": fault("0x", "2x")},
    ),
    Case(
        "BridgeStableOffsetHeld",
        "warning",
        "A transaction has held back the readers of committed records in the topic t for 39m 25s.",
        {"job": "bridge", "topic": "t"},
        {f'{HELD}"t"}}': fault("_x", "1210+15x", "_x"), f'{HELD}"u"}}': fault("_x", "11+11x", "_x")},
    ),
    Case(
        "BridgeTransactionTableOld",
        "warning",
        "The bridge a may lack what has become of transactions in the last 19m 0s: readers of committed records wait "
        "there.",
        _ON_A,
        {f"bridge_transactions_table_age_seconds{{{_A}}}": fault("0x", "0+15x", "0x")},
    ),
    Case(
        "BridgeTransactionalIdClosed",
        "warning",
        "The bridge a has waited for 19m 0s for the outcome of a write: the producer of a transactional id is told to "
        "come again.",
        _ON_A,
        {f"bridge_transactions_closed_seconds{{{_A}}}": fault("0x", "0+15x", "0x")},
    ),
)


def healthy_node(name: str, down: int) -> Iterator[tuple[str, str]]:
    """An hour of one of three nodes that is restarted after so many samples: a minute without it, and what that breaks.

    All have a burst of errors then, and a second of slow receipts.
    """
    on = f'job="bridge",instance="{name}"'
    left = 239 - down - 4

    def with_restart(value: str, again: str) -> str:
        return f"{value}{down - 1} _x3 {again}{left}"

    yield f"up{{{on}}}", f"1x{down - 1} 0x3 1x{left}"
    yield f'bridge_ready_check{{{on},check="writes"}}', f"1x{down - 1} _x2 0x0 1x{left}"
    yield f"bridge_cluster_heartbeat_seconds_count{{{on}}}", with_restart("0+15x", "0+15x")
    yield f"bridge_pulsar_stalled_seconds{{{on}}}", with_restart("0x", "0x")
    yield f'bridge_kafka_errors_total{{{on},api="Produce",code="6"}}', with_restart("0x", "500x")
    yield f'bridge_kafka_errors_total{{{on},api="Produce",code="10"}}', with_restart("0+9x", "0+9x")
    yield f'bridge_kafka_requests_total{{{on},api="Produce"}}', with_restart("0+100x", "0+100x")
    for bound, slow in (("1.0", 100), ("2.5", 0), ("+Inf", 0)):
        buckets = with_restart("0+1000x", f"{1000 - slow}+1000x")
        yield f'bridge_pulsar_receipt_seconds_bucket{{{on},le="{bound}"}}', buckets
    yield f'bridge_pulsar_token_expires_seconds{{{on},source="oauth2"}}', with_restart("600+15x", "600+15x")
    yield f'bridge_tls_certificate_expires_seconds{{{on},listener="SSL"}}', with_restart("2592000x", "2592000x")
    yield f"bridge_cluster_members{{{on}}}", f"3x{down - 1} 2x3 3x{left}"
    yield f"bridge_pulsar_corrupt_entries_total{{{on}}}", with_restart("0x", "0x")
    yield f'bridge_kafka_rejected_total{{{on},reason="too_many_connections"}}', with_restart("0x", "20x")
    yield f'bridge_kafka_rejected_total{{{on},reason="bad_body"}}', with_restart("0+1x", "0+1x")
    for partition in "01":  # the lag comes later than the offsets, first that of one partition
        where = f'{on},group="g{name}",topic="t",partition="{partition}"'
        yield f"bridge_group_committed_offset{{{where}}}", with_restart("0+400x", "30000+800x24 50000+400x")
        late = f"_x{int(partition) * 4} 20000x{left - 1 - int(partition) * 4}"
        yield f"bridge_group_lag_records{{{where}}}", f"20000x{down - 1} _x3 {late}"
    yield f'bridge_group_members{{{on},group="g{name}"}}', with_restart("3x", "3x")
    for group, committed, behind in (("spark", "0+400x", 10), ("done", "400x", 0)):  # without members, and well
        where = f'{on},group="{group}-{name}"'
        yield f"bridge_group_members{{{where}}}", with_restart("0x", "0x")
        yield f'bridge_group_committed_offset{{{where},topic="t",partition="0"}}', with_restart(committed, committed)
        yield f'bridge_group_lag_records{{{where},topic="t",partition="0"}}', with_restart(f"{behind}x", f"{behind}x")
    yield f"bridge_transactions_overdue{{{on}}}", with_restart("0x", "2x3 0x")
    yield f'bridge_topic_stable_offset_held_seconds{{{on},topic="long"}}', with_restart("_x", "15+15x59 _x")
    yield f"bridge_transactions_table_age_seconds{{{on}}}", with_restart("0x", "20x3 0x")
    yield f"bridge_transactions_closed_seconds{{{on}}}", with_restart("0x", "5+15x3 0x")
    yield f'bridge_memory_used_bytes{{{on},kind="answers"}}', with_restart("50x", "99x12 50x")
    yield f'bridge_memory_limit_bytes{{{on},kind="answers"}}', with_restart("100x", "100x")


def quiet(alert: str, at: str) -> dict[str, Any]:
    """That an alert does not fire."""
    return {"eval_time": at, "alertname": alert, "exp_alerts": []}


def fires(case: Case) -> dict[str, Any]:
    """That it fires, with these labels and words."""
    annotations = {**ANNOTATIONS[case.alert], "summary": case.summary}
    expected = {"exp_labels": {**case.labels, "severity": case.severity}, "exp_annotations": annotations}
    return {"eval_time": FIRES, "alertname": case.alert, "exp_alerts": [expected]}


def tests() -> Iterator[dict[str, Any]]:
    """What promtool is to try."""
    for case in CASES:
        yield {
            "interval": INTERVAL,
            "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
            "alert_rule_test": [quiet(case.alert, BEFORE), fires(case), quiet(case.alert, AFTER)],
        }
    healthy = {**dict(healthy_node("a", 60)), **dict(healthy_node("b", 100)), **dict(healthy_node("c", 160))}
    yield {
        "interval": INTERVAL,
        "input_series": [{"series": name, "values": values} for name, values in healthy.items()],
        "alert_rule_test": [
            quiet(alert, f"{minute}m") for minute in range(1, 60) for alert in {case.alert for case in CASES}
        ],
    }
