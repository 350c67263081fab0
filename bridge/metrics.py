"""The metrics, counted in plain numbers on the hot path; `exposition` shows them to Prometheus.

A prometheus-client child costs 0.35 to 1.2 µs an update, a plain addition 0.06: hence the small classes here. Every
label value comes from a table of ours, never from a client, so the number of series is bounded.
"""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import chain, islice
from typing import NamedTuple

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REJECTION_REASONS = (
    "too_large", "negative_size", "bad_header", "bad_body", "unknown_api", "unsupported_version",
    "too_many_connections", "idle", "tls_on_plaintext", "not_logged_in", "no_principal",
    "login_timeout", "session_expired", "no_namespace", "namespace_unavailable",
    "too_many_failed_logins", "no_memory", "other",
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
        "auth_challenges", "bytes_read", "bytes_sent", "certificate_expires_seconds", "certificate_reload_errors",
        "connections", "connections_lost",
        "connections_opened", "corrupt_entries", "entries_read", "entries_sent", "forgotten_readers", "hosts_refused",
        "lookup_errors", "lookups", "overfull_readers", "producers", "readers", "receipt_seconds", "reconnects",
        "resumed_readers", "send_errors", "stalled_seconds", "token_expires_seconds", "token_fetch_errors",
        "token_fetches", "unknown_commands",
    )  # fmt: skip

    def __init__(self) -> None:
        self.connections = Gauge()
        self.connections_opened = Counter()
        self.connections_lost = Counter()
        self.reconnects = Counter()  # of a producer or consumer, whatever made it necessary
        self.resumed_readers = Counter()
        self.forgotten_readers = Counter()  # by a broker that closed their topic
        self.overfull_readers = Counter()  # opened again, as brokers sent more than there was room for
        self.lookups = Counter()
        self.lookup_errors = Counter()
        self.producers = Gauge()
        self.readers = Gauge()
        self.receipt_seconds = Histogram()
        self.send_errors = Counter()
        self.stalled_seconds = Gauge()
        self.entries_sent = Counter()
        self.bytes_sent = Counter()
        self.entries_read = Counter()
        self.bytes_read = Counter()
        self.corrupt_entries = Counter()
        self.unknown_commands = Counter()
        self.hosts_refused = Counter()
        self.auth_challenges = Counter()
        self.token_fetches = Counter()
        self.token_fetch_errors = Counter()
        self.token_expires_seconds = Gauge()  # in Unix seconds; 0: there is none, or it does not say
        self.certificate_reload_errors = Counter()
        self.certificate_expires_seconds: dict[str, float] = {}
        """In Unix seconds, by setting."""


class StorageMetrics:
    """What the partition logs see."""

    __slots__ = (
        "cache_bytes", "cache_hits", "cache_misses", "catchup_readers", "cold_lookups", "grouped_batches",
        "open_partitions", "reanchors", "searches_given_up",
    )  # fmt: skip

    def __init__(self) -> None:
        self.open_partitions = Gauge()
        self.grouped_batches = Counter()  # that share an entry
        self.reanchors = Counter()
        self.searches_given_up = Counter()  # for repeated batches
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
        "_lags", "commits", "compaction_errors", "compactions", "entries_written", "expired_offsets", "lags", "loaded",
        "metadata_bytes", "mirror_errors", "mirrored", "rebalances", "records_read", "records_unreadable",
        "records_written", "slots_held", "slots_held_by_older", "slots_lost", "write_seconds",
    )  # fmt: skip

    def __init__(self) -> None:
        self.loaded = Gauge()
        self.metadata_bytes = Gauge()
        self.rebalances = Counter()
        self.slots_held = Gauge()
        self.slots_held_by_older = Gauge()
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
        self._lags: dict[str, list[Lag]] = {}

    def show_lags(self, namespace: str, lags: list[Lag], most: int) -> None:
        """The groups of a namespace stand like this now; of all namespaces so many are shown."""
        self._lags[namespace] = lags
        self.lags = lags if len(self._lags) == 1 else list(islice(chain.from_iterable(self._lags.values()), most))


class ClusterMetrics:
    """One node's membership."""

    def __init__(self) -> None:
        self.members = Gauge()
        self.view_version = Gauge()
        self.is_controller = Gauge()
        self.slots_led = Gauge()
        self.void_records = Counter()
        self.unreadable = Counter()
        self.probes = {"free": Counter(), "busy": Counter()}
        self.heartbeat_seconds = Histogram()


class SecurityMetrics:
    """Users and permissions that are kept in Pulsar."""

    def __init__(self) -> None:
        self.users = Gauge()
        self.acls = Gauge()
        self.quotas = Gauge()
        self.not_understood = Gauge()
        self.unreadable = Counter()
        self.changes = {"stored": Counter(), "failed": Counter()}
        self.compactions = Counter()
        self.compaction_errors = Counter()
        self.denials: dict[tuple[str, str], Counter] = {}
        """By operation and type of resource."""

    def denied(self, operation: str, resource: str) -> None:
        """A client asked for what it may not do."""
        self.denials.setdefault((operation, resource), Counter()).inc()


PERMISSION_OUTCOMES = ("allowed", "denied", "unknown")


class PermissionMetrics:
    """Permissions in Pulsar, asked in the name of clients' principals."""

    def __init__(self) -> None:
        self.questions = {outcome: Counter() for outcome in PERMISSION_OUTCOMES}
        self.remembered = Gauge()
        self.roles = Gauge()


QUOTA_TYPES = ("produce", "fetch", "request", "controller_mutation", "connection", "topic_creation")


class QuotaMetrics:
    """Client quotas, by type: never by client."""

    def __init__(self) -> None:
        self.throttled_connections = Gauge()
        self.throttled = {one: Counter() for one in QUOTA_TYPES}
        self.throttled_ms = {one: Counter() for one in QUOTA_TYPES}

    def throttle(self, quota: str, seconds: float) -> None:
        """A client has to wait so long for a quota of this type."""
        self.throttled[quota].inc()
        self.throttled_ms[quota].inc(round(seconds * 1000))


HANDSHAKE_OUTCOMES = ("established", "failed", "plaintext", "lost", "timeout", "displaced", "stopped")


LOGIN_OUTCOMES = ("succeeded", "failed", "unsupported", "unavailable")


class TlsMetrics:
    """TLS towards clients."""

    def __init__(self) -> None:
        self.handshakes = {outcome: Counter() for outcome in HANDSHAKE_OUTCOMES}
        self.under_way = Gauge()
        self.certificate_expires: dict[str, float] = {}
        """In Unix seconds, by listener."""
        self.reloads = Counter()
        self.reload_errors = Counter()


class Metrics:
    """Every metric of one bridge process; passed in, never global. `codec`: the twin in use."""

    def __init__(self, codec: str = "python") -> None:
        self.codec = codec
        self.pulsar = PulsarMetrics()
        self.storage = StorageMetrics()
        self.groups = GroupMetrics()
        self.cluster = ClusterMetrics()
        self.tls = TlsMetrics()
        self.security = SecurityMetrics()
        self.permissions = PermissionMetrics()
        self.quotas = QuotaMetrics()
        self.loop_held_seconds = Histogram()
        self.connections = Gauge()
        self.tenant_namespaces = Gauge()
        self.connections_accepted = Counter()
        self.in_flight_bytes = Gauge()
        self.waiting_answer_bytes = Gauge()
        self.paused_connections = Gauge()
        self.http_rejected = Counter()
        self.http_unauthorized = Counter()
        self.preferred_replicas = Counter()
        self._logins: dict[tuple[str, str], Counter] = {}
        self._unknown = ApiMetrics("unknown")
        self._apis: dict[int, ApiMetrics] = {}
        self._rejected = {reason: Counter() for reason in REJECTION_REASONS}

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

    def login(self, mechanism: str, outcome: str) -> None:
        """Count a log-in by one of the listeners' mechanisms, or `none`; `outcome`: one of LOGIN_OUTCOMES."""
        self._logins.setdefault((mechanism, outcome), Counter()).inc()

    def logins(self) -> dict[tuple[str, str], int]:
        """Log-ins by mechanism and outcome."""
        return {key: counter.value for key, counter in dict(self._logins).items()}

    def all_apis(self) -> list[ApiMetrics]:
        """The series of every API, the unknown ones' last."""
        return [*self._apis.values(), self._unknown]

    def rejections(self) -> dict[str, int]:
        """Refused frames and connections by reason."""
        return {reason: counter.value for reason, counter in self._rejected.items()}
