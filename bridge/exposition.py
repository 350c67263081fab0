"""Shows the metrics to Prometheus: families made of the plain numbers, once per scrape.

Imported at the first scrape, not before: `prometheus_client` takes as long to import as a tenth of a start.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge import __version__
from bridge.metrics import (
    ApiMetrics,
    ClusterMetrics,
    Counter,
    Gauge,
    GroupMetrics,
    Histogram,
    Lag,
    Metrics,
    PermissionMetrics,
    PulsarMetrics,
    QuotaMetrics,
    SecurityMetrics,
    StorageMetrics,
    TlsMetrics,
)


class Exposition:
    """One process's metrics as text."""

    def __init__(self, metrics: Metrics) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(_Families(metrics))

    def render(self, *, open_metrics: bool = False) -> tuple[bytes, str]:
        """The text, of OpenMetrics or the older format, and its content type; may take milliseconds, so not for the
        event loop."""
        encode, content_type = choose_encoder("application/openmetrics-text" if open_metrics else "")
        return encode(self._registry), content_type


class _Families(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from _server_families(self._metrics)
        yield from _tls_families(self._metrics.tls)
        yield from _security_families(self._metrics.security)
        yield from _permission_families(self._metrics.permissions)
        yield from _quota_families(self._metrics.quotas)
        yield from _api_families(self._metrics.all_apis())
        yield from _pulsar_families(self._metrics.pulsar)
        yield from _storage_families(self._metrics.storage)
        yield from _group_families(self._metrics.groups)
        yield from _cluster_families(self._metrics.cluster)

    def describe(self) -> Iterable[Metric]:
        return []


def _counter(name: str, text: str, counter: Counter) -> Metric:
    return CounterMetricFamily(name, text, value=counter.value)


def _gauge(name: str, text: str, gauge: Gauge) -> Metric:
    return GaugeMetricFamily(name, text, value=gauge.value)


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(name, text, buckets=histogram.buckets(), sum_value=histogram.total)


def _server_families(metrics: Metrics) -> Iterator[Metric]:
    info = GaugeMetricFamily("bridge_build_info", "The running version.", labels=["version", "codec"])
    info.add_metric([__version__, metrics.codec], 1)
    yield info
    yield _histogram(
        "bridge_event_loop_held_seconds",
        "How late the event loop came to what was due each 20 ms: something held it for so long.",
        metrics.loop_held_seconds,
    )
    yield _gauge("bridge_kafka_connections", "Open client connections.", metrics.connections)
    yield _gauge("bridge_tenant_namespaces", "Open namespaces beside the bridge's own.", metrics.tenant_namespaces)
    yield _counter("bridge_kafka_connections_accepted", "Client connections accepted.", metrics.connections_accepted)
    yield _gauge(
        "bridge_kafka_paused_connections", "Client sockets not read, for back-pressure.", metrics.paused_connections
    )
    yield _gauge("bridge_in_flight_bytes", "Bytes of requests held, of the budget.", metrics.in_flight_bytes)
    yield _gauge(
        "bridge_waiting_answer_bytes",
        "Bytes of answers that are read from Pulsar, or not taken by their clients yet.",
        metrics.waiting_answer_bytes,
    )
    rejected = CounterMetricFamily("bridge_kafka_rejected", "Frames and connections refused.", labels=["reason"])
    for reason, count in metrics.rejections().items():
        rejected.add_metric([reason], count)
    yield rejected
    logins = CounterMetricFamily("bridge_logins", "Log-ins of clients.", labels=["mechanism", "outcome"])
    for labels, count in metrics.logins().items():
        logins.add_metric(list(labels), count)
    yield logins
    yield from _http_families(metrics)
    yield _counter(
        "bridge_kafka_preferred_replicas",
        "Partitions of Fetch whose consumers were sent to a node of their rack.",
        metrics.preferred_replicas,
    )


def _http_families(metrics: Metrics) -> Iterator[Metric]:
    yield _counter(
        "bridge_http_rejected", "Connections refused on the side of metrics and health.", metrics.http_rejected
    )
    yield _counter(
        "bridge_http_unauthorized", "Requests there that were refused without the token.", metrics.http_unauthorized
    )


def _tls_families(tls: TlsMetrics) -> Iterator[Metric]:
    outcomes = CounterMetricFamily("bridge_tls_handshakes", "TLS handshakes of clients.", labels=["outcome"])
    for outcome, count in tls.handshakes.items():
        outcomes.add_metric([outcome], count.value)
    yield outcomes
    yield _gauge("bridge_tls_handshakes_under_way", "Connections that have not shaken hands yet.", tls.under_way)
    expires = GaugeMetricFamily(
        "bridge_tls_certificate_expires_seconds", "When a listener's certificate ends, Unix time.", labels=["listener"]
    )
    for listener, at in dict(tls.certificate_expires).items():
        expires.add_metric([listener], at)
    yield expires
    yield _counter("bridge_tls_certificate_reloads", "Changed certificates that were taken.", tls.reloads)
    yield _counter(
        "bridge_tls_certificate_reload_errors",
        "Changed certificates that were unfit: the former stays.",
        tls.reload_errors,
    )


def _api_families(apis: list[ApiMetrics]) -> Iterator[Metric]:
    requests = CounterMetricFamily("bridge_kafka_requests", "Requests received.", labels=["api"])
    errors = CounterMetricFamily("bridge_kafka_errors", "Error codes answered.", labels=["api", "code"])
    bytes_in = CounterMetricFamily("bridge_kafka_request_bytes", "Bytes of requests.", labels=["api"])
    bytes_out = CounterMetricFamily("bridge_kafka_response_bytes", "Bytes of answers.", labels=["api"])
    seconds = HistogramMetricFamily(
        "bridge_kafka_request_seconds", "From frame read to answer written.", labels=["api"]
    )
    for api in apis:
        requests.add_metric([api.name], api.requests.value)
        bytes_in.add_metric([api.name], api.bytes_in.value)
        bytes_out.add_metric([api.name], api.bytes_out.value)
        seconds.add_metric([api.name], api.seconds.buckets(), api.seconds.total)
        # a copy: the loop's thread may add a code while this thread renders
        for code, count in dict(api.errors).items():
            errors.add_metric([api.name, str(code)], count)
    yield from (requests, errors, bytes_in, bytes_out, seconds)


def _pulsar_families(pulsar: PulsarMetrics) -> Iterator[Metric]:
    yield _gauge("bridge_pulsar_connections", "Open connections to brokers.", pulsar.connections)
    yield _counter("bridge_pulsar_connections_opened", "Connections opened to brokers.", pulsar.connections_opened)
    yield _counter("bridge_pulsar_connections_lost", "Connections to brokers lost.", pulsar.connections_lost)
    yield _counter("bridge_pulsar_reconnects", "Producers and consumers opened again.", pulsar.reconnects)
    yield _counter("bridge_pulsar_resumed_readers", "Readers that went on after a reconnect.", pulsar.resumed_readers)
    yield _counter("bridge_pulsar_forgotten_readers", "Readers that brokers forgot.", pulsar.forgotten_readers)
    yield _counter("bridge_pulsar_overfull_readers", "Readers that held too much.", pulsar.overfull_readers)
    yield _counter("bridge_pulsar_lookups", "Topic lookups.", pulsar.lookups)
    yield _counter("bridge_pulsar_lookup_errors", "Topic lookups that failed.", pulsar.lookup_errors)
    yield _gauge("bridge_pulsar_producers", "Producers held.", pulsar.producers)
    yield _gauge("bridge_pulsar_readers", "Readers and consumers held.", pulsar.readers)
    yield _histogram("bridge_pulsar_receipt_seconds", "From send to receipt.", pulsar.receipt_seconds)
    yield _counter("bridge_pulsar_send_errors", "Sends the broker refused.", pulsar.send_errors)
    yield _gauge(
        "bridge_pulsar_stalled_seconds", "How long Pulsar has refused all that was sent.", pulsar.stalled_seconds
    )
    yield _counter("bridge_pulsar_entries_sent", "Entries sent.", pulsar.entries_sent)
    yield _counter("bridge_pulsar_bytes_sent", "Bytes of entries sent.", pulsar.bytes_sent)
    yield _counter("bridge_pulsar_entries_read", "Entries read.", pulsar.entries_read)
    yield _counter("bridge_pulsar_bytes_read", "Bytes of entries read.", pulsar.bytes_read)
    yield _counter("bridge_pulsar_corrupt_entries", "Stored entries that cannot be decoded.", pulsar.corrupt_entries)
    yield _counter("bridge_pulsar_unknown_commands", "Commands not understood, ignored.", pulsar.unknown_commands)
    yield _counter("bridge_pulsar_hosts_refused", "Times Pulsar named a host not connected to.", pulsar.hosts_refused)
    yield _counter("bridge_pulsar_auth_challenges", "Times a broker asked for new credentials.", pulsar.auth_challenges)
    yield _counter("bridge_pulsar_token_fetches", "Tokens fetched by OAuth2.", pulsar.token_fetches)
    yield _counter("bridge_pulsar_token_fetch_errors", "Tokens that could not be fetched.", pulsar.token_fetch_errors)
    yield _gauge("bridge_pulsar_token_expires_seconds", "When the token for Pulsar ends.", pulsar.token_expires_seconds)
    yield _counter(
        "bridge_pulsar_certificate_reload_errors",
        "Certificates for Pulsar not taken.",
        pulsar.certificate_reload_errors,
    )
    text = "When the bridge's own certificate for Pulsar ends, Unix time."
    expires = GaugeMetricFamily("bridge_pulsar_certificate_expires_seconds", text, labels=["setting"])
    for setting, at in dict(pulsar.certificate_expires_seconds).items():
        expires.add_metric([setting], at)
    yield expires


def _storage_families(storage: StorageMetrics) -> Iterator[Metric]:
    yield _gauge("bridge_storage_open_partitions", "Partitions held open.", storage.open_partitions)
    yield _counter("bridge_storage_grouped_batches", "Batches that share an entry of Pulsar.", storage.grouped_batches)
    yield _counter("bridge_storage_reanchors", "Offsets learnt by reading an entry back.", storage.reanchors)
    text = "Searches for repeated batches that ended because too many had no client waiting."
    yield _counter("bridge_storage_searches_given_up", text, storage.searches_given_up)
    yield _counter("bridge_storage_cache_hits", "Reads answered from memory.", storage.cache_hits)
    yield _counter("bridge_storage_cache_misses", "Reads that memory could not answer.", storage.cache_misses)
    yield _gauge("bridge_storage_cache_bytes", "Bytes of records in memory.", storage.cache_bytes)
    yield _counter("bridge_storage_cold_lookups", "Searches for the entry that holds an offset.", storage.cold_lookups)
    yield _gauge("bridge_storage_catchup_readers", "Readers serving consumers far behind.", storage.catchup_readers)


def _security_families(security: SecurityMetrics) -> Iterator[Metric]:
    yield _gauge("bridge_security_users", "SCRAM credentials that are kept in Pulsar.", security.users)
    yield _gauge("bridge_security_acls", "Access control entries that are kept in Pulsar.", security.acls)
    yield _gauge("bridge_security_quotas", "Client quotas that are kept in Pulsar.", security.quotas)
    yield _gauge(
        "bridge_security_records_not_understood",
        "Kept records of a kind or format level that this version does not know.",
        security.not_understood,
    )
    yield _counter(
        "bridge_security_unreadable_entries", "Entries of the topic that could not be decoded.", security.unreadable
    )
    changes = CounterMetricFamily("bridge_security_changes", "Changes through this node.", labels=["outcome"])
    for outcome, count in security.changes.items():
        changes.add_metric([outcome], count.value)
    yield changes
    text = "Requests for what a client may not do, by operation and type of resource."
    denials = CounterMetricFamily("bridge_authorization_denials", text, labels=["operation", "resource"])
    for labels, count in security.denials.items():
        denials.add_metric(labels, count.value)
    yield denials
    yield _counter("bridge_security_compactions", "Compactions asked for.", security.compactions)
    yield _counter("bridge_security_compaction_errors", "Compactions that Pulsar refused.", security.compaction_errors)


def _permission_families(permissions: PermissionMetrics) -> Iterator[Metric]:
    questions = CounterMetricFamily(
        "bridge_pulsar_permission_questions", "Questions whether a principal may.", labels=["outcome"]
    )
    for outcome, count in permissions.questions.items():
        questions.add_metric([outcome], count.value)
    yield questions
    yield _gauge("bridge_pulsar_permissions_remembered", "Answers that are remembered.", permissions.remembered)
    yield _gauge("bridge_pulsar_permission_roles", "Roles with connections for questions.", permissions.roles)


def _quota_families(quotas: QuotaMetrics) -> Iterator[Metric]:
    yield _gauge(
        "bridge_quota_throttled_connections", "Connections that are not read for a quota.", quotas.throttled_connections
    )
    throttled = CounterMetricFamily("bridge_quota_throttled", "Requests that exceeded a quota.", labels=["quota"])
    for quota, count in quotas.throttled.items():
        throttled.add_metric([quota], count.value)
    yield throttled
    seconds = CounterMetricFamily(
        "bridge_quota_throttled_seconds", "How long their clients were told to wait.", labels=["quota"]
    )
    for quota, count in quotas.throttled_ms.items():
        seconds.add_metric([quota], count.value / 1000)
    yield seconds


def _cluster_families(cluster: ClusterMetrics) -> Iterator[Metric]:
    yield _gauge("bridge_cluster_members", "Nodes of the cluster, as this node knows it.", cluster.members)
    yield _gauge("bridge_cluster_view_version", "The version of the view that this node goes by.", cluster.view_version)
    yield _gauge("bridge_cluster_is_controller", "1 on the node that is the controller.", cluster.is_controller)
    yield _gauge("bridge_cluster_slots_led", "Leadership slots of this node.", cluster.slots_led)
    yield _counter(
        "bridge_cluster_void_records",
        "Views that this node proposed after another one.",
        cluster.void_records,
    )
    yield _counter("bridge_cluster_unreadable_records", "Records that could not be decoded.", cluster.unreadable)
    probes = CounterMetricFamily("bridge_cluster_probes", "Questions after silent nodes.", labels=["result"])
    for result, counter in cluster.probes.items():
        probes.add_metric([result], counter.value)
    yield probes
    yield _histogram("bridge_cluster_heartbeat_seconds", "From a heartbeat to its receipt.", cluster.heartbeat_seconds)


def _group_families(groups: GroupMetrics) -> Iterator[Metric]:
    yield _gauge("bridge_groups_loaded", "Groups in memory: those with members, or asked for.", groups.loaded)
    yield _gauge("bridge_groups_metadata_bytes", "What their members say about themselves.", groups.metadata_bytes)
    yield _counter("bridge_groups_rebalances", "Rebalances completed.", groups.rebalances)
    yield _gauge("bridge_groups_slots_held", "Slots of groups that this node coordinates.", groups.slots_held)
    older = "Slots of this node that a bridge of an older version has: stop it."
    yield _gauge("bridge_groups_slots_held_by_older", older, groups.slots_held_by_older)
    yield _counter("bridge_groups_slots_lost", "Slots lost to another node or to an error.", groups.slots_lost)
    yield _counter("bridge_groups_records_read", "Stored records read when slots were taken.", groups.records_read)
    yield _counter(
        "bridge_groups_records_unreadable", "Stored records that could not be read.", groups.records_unreadable
    )
    yield _counter("bridge_groups_records_written", "Records of groups stored.", groups.records_written)
    yield _counter("bridge_groups_entries_written", "Pulsar entries that they took.", groups.entries_written)
    yield _histogram("bridge_groups_write_seconds", "From a write to Pulsar's receipt.", groups.write_seconds)
    yield _counter("bridge_groups_compactions", "Compactions asked for.", groups.compactions)
    yield _counter("bridge_groups_compaction_errors", "Compactions refused.", groups.compaction_errors)
    yield _counter("bridge_groups_commits", "Offsets committed.", groups.commits)
    yield _counter("bridge_groups_expired_offsets", "Committed offsets that expired.", groups.expired_offsets)
    yield _counter("bridge_groups_mirrored", "Offsets mirrored to Pulsar subscriptions.", groups.mirrored)
    yield _counter("bridge_groups_mirror_errors", "Offsets that could not be mirrored.", groups.mirror_errors)
    yield from _lag_families(groups.lags)


def _lag_families(lags: list[Lag]) -> Iterator[Metric]:
    labels = ["group", "topic", "partition"]
    offset = GaugeMetricFamily("bridge_group_committed_offset", "The offset a group has committed.", labels=labels)
    records = GaugeMetricFamily("bridge_group_lag_records", "Records after it, where it is known.", labels=labels)
    seconds = GaugeMetricFamily(
        "bridge_group_lag_seconds", "Age of the first record after it, where it is known.", labels=labels
    )
    for lag in lags:
        where = [lag.group, lag.topic, str(lag.partition)]
        offset.add_metric(where, lag.committed)
        if lag.records is not None:
            records.add_metric(where, lag.records)
        if lag.seconds is not None:
            seconds.add_metric(where, lag.seconds)
    yield from (offset, records, seconds)
