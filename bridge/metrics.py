"""The metrics: counted in plain numbers on the hot path, turned into Prometheus families when scraped.

A prometheus-client child costs 0.35 to 1.2 µs an update, a plain addition 0.06: hence the small classes here. Every
label value comes from a table of ours, never from a client, so the number of series is bounded.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge import __version__

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REJECTION_REASONS = (
    "too_large", "negative_size", "bad_header", "bad_body", "unknown_api", "unsupported_version",
    "too_many_connections", "idle", "other",
)  # fmt: skip


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        """Add to it."""
        self.value += amount


class Gauge:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        """Add to it."""
        self.value += amount

    def dec(self, amount: int = 1) -> None:
        """Take from it."""
        self.value -= amount

    def set(self, value: int) -> None:
        """Replace it."""
        self.value = value


class Histogram:
    """Durations in seconds, counted by bucket."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """The cumulative buckets as Prometheus wants them."""
        seen = 0
        result: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, SECONDS), "+Inf"), self.counts, strict=True):
            seen += count
            result.append((bound, seen))
        return result


class ApiMetrics:
    """One Kafka API."""

    __slots__ = ("bytes_in", "bytes_out", "errors", "name", "requests", "seconds")

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests = Counter()
        self.seconds = Histogram()
        self.bytes_in = Counter()
        self.bytes_out = Counter()
        self.errors: dict[int, int] = {}

    def error(self, code: int) -> None:
        """Count an answer that carried this Kafka error code; codes come from our own table, so they are few."""
        self.errors[code] = self.errors.get(code, 0) + 1


class PulsarMetrics:
    """What the Pulsar client sees."""

    __slots__ = (
        "bytes_read", "bytes_sent", "connections", "connections_lost", "connections_opened", "corrupt_entries",
        "entries_read", "entries_sent", "lookup_errors", "lookups", "producers", "readers", "receipt_seconds",
        "reconnects", "resumed_readers", "send_errors", "unknown_commands",
    )  # fmt: skip

    def __init__(self) -> None:
        self.connections = Gauge()
        self.connections_opened = Counter()
        self.connections_lost = Counter()
        self.reconnects = Counter()  # of a producer or consumer, whatever made it necessary
        self.resumed_readers = Counter()
        self.lookups = Counter()
        self.lookup_errors = Counter()
        self.producers = Gauge()
        self.readers = Gauge()
        self.receipt_seconds = Histogram()
        self.send_errors = Counter()
        self.entries_sent = Counter()
        self.bytes_sent = Counter()
        self.entries_read = Counter()
        self.bytes_read = Counter()
        self.corrupt_entries = Counter()
        self.unknown_commands = Counter()


class StorageMetrics:
    """What the partition logs see."""

    __slots__ = (
        "cache_bytes", "cache_hits", "cache_misses", "catchup_readers", "cold_lookups", "open_partitions", "reanchors",
    )  # fmt: skip

    def __init__(self) -> None:
        self.open_partitions = Gauge()
        self.reanchors = Counter()
        self.cache_hits = Counter()
        self.cache_misses = Counter()
        self.cache_bytes = Gauge()
        self.cold_lookups = Counter()
        self.catchup_readers = Gauge()


class Lag(NamedTuple):
    """How far a group is behind in one partition; None: not known without asking Pulsar."""

    group: str
    topic: str
    partition: int
    committed: int
    records: int | None
    seconds: float | None


class GroupMetrics:
    """What keeps the groups.

    `lags` is the exception to the rule that no label comes from a client: its length is bounded by a setting.
    """

    __slots__ = (
        "commits", "compaction_errors", "compactions", "entries_written", "expired_offsets", "lags", "loaded",
        "mirror_errors", "mirrored", "rebalances", "records_read", "records_unreadable", "records_written",
        "slots_held", "slots_lost", "write_seconds",
    )  # fmt: skip

    def __init__(self) -> None:
        self.loaded = Gauge()
        self.rebalances = Counter()
        self.slots_held = Gauge()
        self.slots_lost = Counter()
        self.records_read = Counter()  # when slots are taken over
        self.records_unreadable = Counter()
        self.records_written = Counter()
        self.entries_written = Counter()
        self.write_seconds = Histogram()
        self.compactions = Counter()
        self.compaction_errors = Counter()
        self.commits = Counter()  # of single partitions
        self.expired_offsets = Counter()
        self.mirrored = Counter()
        self.mirror_errors = Counter()
        self.lags: list[Lag] = []  # replaced as a whole: the thread that renders may be reading it


class Metrics:
    """Every metric of one bridge process; passed in, never global. `codec`: the twin in use."""

    def __init__(self, codec: str = "python") -> None:
        self.codec = codec
        self.pulsar = PulsarMetrics()
        self.storage = StorageMetrics()
        self.groups = GroupMetrics()
        self.connections = Gauge()
        self.connections_accepted = Counter()
        self.in_flight_bytes = Gauge()
        self.waiting_answer_bytes = Gauge()
        self.paused_connections = Gauge()
        self._unknown = ApiMetrics("unknown")
        self._apis: dict[int, ApiMetrics] = {}
        self._rejected = {reason: Counter() for reason in REJECTION_REASONS}
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(_Families(self))

    def name_apis(self, names: Mapping[int, str]) -> None:
        """Give every served API its own series; requests for others are counted together as `unknown`."""
        for key, name in names.items():
            self._apis.setdefault(key, ApiMetrics(name))

    def api(self, key: int) -> ApiMetrics:
        """The series of one API key; a client cannot make a new one by sending a key of its own."""
        return self._apis.get(key, self._unknown)

    def rejected(self, reason: str) -> None:
        """Count a frame or connection that was refused, for one of REJECTION_REASONS."""
        self._rejected.get(reason, self._rejected["other"]).inc()

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition text and its content type; may take milliseconds, so not for the event loop."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def all_apis(self) -> list[ApiMetrics]:
        """The series of every API, the unknown ones' last."""
        return [*self._apis.values(), self._unknown]

    def rejections(self) -> dict[str, int]:
        """Refused frames and connections by reason."""
        return {reason: counter.value for reason, counter in self._rejected.items()}


class _Families(Collector):
    """Turns the plain numbers into metric families, once per scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from _server_families(self._metrics)
        yield from _api_families(self._metrics.all_apis())
        yield from _pulsar_families(self._metrics.pulsar)
        yield from _storage_families(self._metrics.storage)
        yield from _group_families(self._metrics.groups)

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
    yield _gauge("bridge_kafka_connections", "Open client connections.", metrics.connections)
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
    yield _counter("bridge_pulsar_reconnects", "Producers and consumers opened anew.", pulsar.reconnects)
    yield _counter("bridge_pulsar_resumed_readers", "Readers that went on after a reconnect.", pulsar.resumed_readers)
    yield _counter("bridge_pulsar_lookups", "Topic lookups.", pulsar.lookups)
    yield _counter("bridge_pulsar_lookup_errors", "Topic lookups that failed.", pulsar.lookup_errors)
    yield _gauge("bridge_pulsar_producers", "Producers held.", pulsar.producers)
    yield _gauge("bridge_pulsar_readers", "Readers and consumers held.", pulsar.readers)
    yield _histogram("bridge_pulsar_receipt_seconds", "From send to receipt.", pulsar.receipt_seconds)
    yield _counter("bridge_pulsar_send_errors", "Sends the broker refused.", pulsar.send_errors)
    yield _counter("bridge_pulsar_entries_sent", "Entries sent.", pulsar.entries_sent)
    yield _counter("bridge_pulsar_bytes_sent", "Bytes of entries sent.", pulsar.bytes_sent)
    yield _counter("bridge_pulsar_entries_read", "Entries read.", pulsar.entries_read)
    yield _counter("bridge_pulsar_bytes_read", "Bytes of entries read.", pulsar.bytes_read)
    yield _counter("bridge_pulsar_corrupt_entries", "Stored entries that cannot be decoded.", pulsar.corrupt_entries)
    yield _counter("bridge_pulsar_unknown_commands", "Commands not understood, ignored.", pulsar.unknown_commands)


def _storage_families(storage: StorageMetrics) -> Iterator[Metric]:
    yield _gauge("bridge_storage_open_partitions", "Partitions held open.", storage.open_partitions)
    yield _counter("bridge_storage_reanchors", "Offsets learnt by reading an entry back.", storage.reanchors)
    yield _counter("bridge_storage_cache_hits", "Reads answered from memory.", storage.cache_hits)
    yield _counter("bridge_storage_cache_misses", "Reads that memory could not answer.", storage.cache_misses)
    yield _gauge("bridge_storage_cache_bytes", "Bytes of records in memory.", storage.cache_bytes)
    yield _counter("bridge_storage_cold_lookups", "Searches for the entry that holds an offset.", storage.cold_lookups)
    yield _gauge("bridge_storage_catchup_readers", "Readers serving consumers far behind.", storage.catchup_readers)


def _group_families(groups: GroupMetrics) -> Iterator[Metric]:
    yield _gauge("bridge_groups_loaded", "Groups in memory: those with members, or asked for.", groups.loaded)
    yield _counter("bridge_groups_rebalances", "Rebalances completed.", groups.rebalances)
    yield _gauge("bridge_groups_slots_held", "Slots of groups that this node coordinates.", groups.slots_held)
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
