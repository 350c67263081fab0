"""The families of the process, its limits, its readiness and its place in the cluster."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.metrics_core import Metric

from bridge import __version__
from bridge.telemetry.exposition import texts
from bridge.telemetry.exposition.simple import by_one, counters, gauges, unlabelled
from bridge.telemetry.instruments import Level
from bridge.telemetry.metrics import (
    ClusterMetrics,
    Metrics,
    PermissionMetrics,
    QuotaMetrics,
    SecurityMetrics,
    TlsMetrics,
)


def families(metrics: Metrics) -> Iterator[Metric]:
    """All of them."""
    text = "The running version, and the codec: with 'python' a record costs forty times as much as with 'native'."
    yield gauges("bridge_build_info", text, ["version", "codec"], [((__version__, metrics.codec), 1)])
    yield from unlabelled(metrics, texts.SERVER)
    yield from _limit_families(metrics)
    text = (
        "Whether a check of /readyz held when it was last tried, some seconds ago at most. 0: clients are not served "
        "well; /readyz says why."
    )
    ready = [((check,), int(holds)) for check, holds in metrics.ready.items()]
    yield gauges("bridge_ready_check", text, ["check"], ready)
    yield from _tls_families(metrics.tls)
    yield from _security_families(metrics.security)
    yield from _permission_families(metrics.permissions)
    yield from _quota_families(metrics.quotas)
    yield from _cluster_families(metrics.cluster)


def _limit_families(metrics: Metrics) -> Iterator[Metric]:
    used, most = _levels(metrics.memory)
    text = "Bytes held of what has a limit (bridge_memory_limit_bytes). Near it: see docs/operations.md, Memory."
    yield gauges("bridge_memory_used_bytes", text, ["kind"], used)
    text = "The most bytes that bridge_memory_used_bytes may have; docs/operations.md, Memory, names the settings."
    yield gauges("bridge_memory_limit_bytes", text, ["kind"], most)
    used, most = _levels(metrics.places)
    text = "How many there are of what has a limit in number (bridge_places_limit). Near it, more are refused or wait."
    yield gauges("bridge_places_used", text, ["kind"], used)
    text = "The most that bridge_places_used may be; docs/metrics.md names the settings."
    yield gauges("bridge_places_limit", text, ["kind"], most)
    left_out = [((kind,), count) for kind, count in metrics.left_out().items()]
    yield gauges("bridge_metrics_left_out", texts.LEFT_OUT, ["kind"], left_out)


_Values = Iterable[tuple[Iterable[str], float]]


def _levels(levels: Mapping[str, Level]) -> tuple[_Values, _Values]:
    found = dict(levels)
    used = [((kind,), level.used()) for kind, level in found.items()]
    return used, [((kind,), level.limit) for kind, level in found.items()]


def _tls_families(tls: TlsMetrics) -> Iterator[Metric]:
    yield counters("bridge_tls_handshakes", texts.HANDSHAKES, ["outcome"], by_one(tls.handshakes))
    expires = [((listener,), at) for listener, at in dict(tls.certificate_expires).items()]
    yield gauges("bridge_tls_certificate_expires_seconds", texts.CERTIFICATE, ["listener"], expires)
    lists = [((listener,), at) for listener, at in dict(tls.crl_expires).items()]
    yield gauges("bridge_tls_crl_expires_seconds", texts.CRL, ["listener"], lists)
    yield from unlabelled(tls, texts.TLS)


def _security_families(security: SecurityMetrics) -> Iterator[Metric]:
    yield from unlabelled(security, texts.SECURITY)
    text = "Changes of users, permissions and quotas through this node. If 'failed' grows, they are not stored in time."
    yield counters("bridge_security_changes", text, ["outcome"], by_one(security.changes))
    text = (
        "Requests for what a client may not do, by operation and type of resource. If it grows, '! denied' of the log "
        "category bridge.audit says who and what."
    )
    denials = [(labels, count.value) for labels, count in dict(security.denials).items()]
    yield counters("bridge_authorization_denials", text, ["operation", "resource"], denials)


def _permission_families(permissions: PermissionMetrics) -> Iterator[Metric]:
    text = "Questions to Pulsar whether a principal may do something. 'unknown': Pulsar did not say, and it may not."
    yield counters("bridge_pulsar_permission_questions", text, ["outcome"], by_one(permissions.questions))
    yield from unlabelled(permissions, texts.PERMISSIONS)


def _quota_families(quotas: QuotaMetrics) -> Iterator[Metric]:
    text = "Connections that are not read for a quota now: their clients exceed it."
    yield gauges("bridge_quota_throttled_connections", text, [], [((), quotas.throttled_connections.value)])
    text = (
        "Requests that exceeded a quota. If clients are slow and it grows, that is why: see docs/security.md, Quotas."
    )
    yield counters("bridge_quota_throttled", text, ["quota"], by_one(quotas.throttled))
    text = "How long the clients of requests above a quota were told to wait."
    seconds = [((quota,), count.value / 1000) for quota, count in quotas.throttled_ms.items()]
    yield counters("bridge_quota_throttled_seconds", text, ["quota"], seconds)


def _cluster_families(cluster: ClusterMetrics) -> Iterator[Metric]:
    yield from unlabelled(cluster, texts.CLUSTER)
    text = "Who this node is in the cluster: joins the instance with the id that clients see."
    node = [] if cluster.node is None else [(cluster.node(), 1)]
    yield gauges("bridge_cluster_node_info", text, ["node_id", "name", "rack"], node)
    text = "Questions after silent nodes. 'free': the node was gone, and its place is taken over."
    yield counters("bridge_cluster_probes", text, ["result"], by_one(cluster.probes))
