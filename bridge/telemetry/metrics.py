"""The metrics, counted in plain numbers on the hot path; `exposition` shows them to Prometheus.

A prometheus-client child costs 0.35 to 1.2 µs an update, a plain addition 0.06: hence the small classes of
`instruments`. A label's value comes from a table of ours, or is one of a number that a setting bounds (`traffic`,
`Lag`): so the number of series is bounded, whatever clients send.
"""

from collections.abc import Callable, Mapping
from itertools import chain, islice
from typing import NamedTuple

from bridge.telemetry.instruments import Counter, Gauge, Histogram, Level
from bridge.telemetry.traffic import TrafficTable

REJECTION_REASONS = (
    "too_large", "negative_size", "bad_header", "bad_body", "unknown_api", "unsupported_version",
    "too_many_connections", "idle", "tls_on_plaintext", "not_logged_in", "no_principal",
    "login_timeout", "session_expired", "no_namespace", "namespace_unavailable",
    "too_many_failed_logins", "no_memory", "other",
)  # fmt: skip


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


class BrokerMetrics:
    """One broker of Pulsar; its connections add to it."""

    __slots__ = ("connections", "receipt_at", "receipts", "seconds", "sent_at")

    def __init__(self) -> None:
        self.connections = 0
        self.receipts = 0
        self.seconds = 0.0
        """From send to receipt, of all together."""
        self.sent_at = 0.0
        """When something was last sent (monotonic clock); 0: nothing was."""
        self.receipt_at = 0.0

    def acknowledged(self, sent_at: float, now: float) -> float:
        """It has stored what was sent then: the seconds between."""
        seconds = now - sent_at
        self.receipt_at = now
        self.receipts += 1
        self.seconds += seconds
        return seconds


_MAX_BROKERS = 200


class PulsarMetrics:
    """What the Pulsar client sees."""

    __slots__ = (
        "auth_challenges", "brokers", "bytes_read", "bytes_sent", "certificate_expires_seconds",
        "certificate_reload_errors", "connections", "connections_lost", "connections_opened", "connections_refused",
        "corrupt_entries", "entries_read", "entries_sent", "forgotten_readers", "hosts_refused", "lookup_errors",
        "lookups", "overfull_readers", "producers", "readers", "receipt_seconds", "reconnects", "resumed_readers",
        "send_errors", "slow_topics", "stalled_seconds", "token_expires_seconds", "token_fetch_errors", "token_fetches",
        "unacknowledged_topics", "unknown_commands",
    )  # fmt: skip

    def __init__(self) -> None:
        self.connections = Gauge()
        self.connections_opened = Counter()
        self.connections_lost = Counter()
        self.connections_refused = Counter()  # by a broker that has as many as it takes
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
        self.unacknowledged_topics = Gauge()
        self.slow_topics: dict[str, float] = {}
        """Seconds for which Pulsar has not acknowledged a record, of the topics for which that is long."""
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
        self.brokers: dict[str, BrokerMetrics] = {}

    def broker(self, address: str) -> BrokerMetrics:
        """The numbers of a broker, by its host and port. Pulsar names them: more than there can be are not shown."""
        if len(self.brokers) >= _MAX_BROKERS:
            return self.brokers.get(address) or BrokerMetrics()
        return self.brokers.setdefault(address, BrokerMetrics())


class PartitionEnd(NamedTuple):
    """The offset after the last record of a partition, as far as this node knows."""

    topic: str
    partition: int
    end: int


class LedPartitions(NamedTuple):
    """The partitions of one namespace that are open here and that this node leads."""

    number: int
    ends: list[PartitionEnd]
    """Of some of them."""


class StorageMetrics:
    """What the partition logs see."""

    __slots__ = (
        "cache_bytes", "cache_hits", "cache_misses", "catchup_readers", "cold_lookups", "grouped_batches", "led",
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
        self.led: dict[str, LedPartitions] = {}
        """By namespace; replaced as a whole."""


class Lag(NamedTuple):
    """How far a group is behind in one partition; None: not known (yet)."""

    group: str
    topic: str
    partition: int
    committed: int
    records: int | None
    """Less than 0: more is committed than there is."""
    seconds: float | None
    end: int | None = None
    """Of the partition."""


class Lags(NamedTuple):
    """Those of one namespace, and what is not among them."""

    lags: list[Lag]
    groups: int
    """How many groups this node coordinates."""
    groups_left_out: int
    """How many of them are not shown for `groups.max_groups_in_metrics`."""
    partitions_left_out: int
    """How many partitions of groups that are shown are not."""


class GroupMetrics:
    """What keeps the groups."""

    __slots__ = (
        "_lags", "commits", "compaction_errors", "compactions", "coordinated", "entries_written", "expired_offsets",
        "groups_left_out", "lags", "loaded", "metadata_bytes", "mirror_errors", "mirrored", "partitions_left_out",
        "rebalances", "records_read", "records_unreadable", "records_written", "slots_held", "slots_lost",
        "write_seconds",
    )  # fmt: skip

    def __init__(self) -> None:
        self.coordinated = Gauge()
        self.loaded = Gauge()
        self.metadata_bytes = Gauge()
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
        self.groups_left_out = self.partitions_left_out = 0
        self._lags: dict[str, Lags] = {}

    def show_lags(self, namespace: str, lags: Lags, most: int) -> None:
        """The groups of a namespace stand like this now; of all namespaces so many partitions are shown."""
        self._lags[namespace] = lags
        every = list(self._lags.values())
        self.lags = lags.lags if len(every) == 1 else list(islice(chain.from_iterable(one.lags for one in every), most))
        self.coordinated.set(sum(one.groups for one in every))
        self.groups_left_out = sum(one.groups_left_out for one in every)
        cut = sum(len(one.lags) for one in every) - len(self.lags)
        self.partitions_left_out = cut + sum(one.partitions_left_out for one in every)


class ClusterMetrics:
    """One node's membership."""

    def __init__(self) -> None:
        self.members = Gauge()
        self.node: Callable[[], tuple[str, str, str]] | None = None
        """This node's id, name and rack, once it is to be a member."""
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
        self.crl_expires: dict[str, float] = {}
        """Of the list of withdrawn client certificates, likewise."""
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
        self.topics: TrafficTable[str] = TrafficTable(100_000)
        self.clients: TrafficTable[tuple[str, str]] = TrafficTable()
        """By the name and the version of their software."""
        self.memory: dict[str, Level] = {}
        """How many bytes are held of what has a limit, by what they are held for."""
        self.places: dict[str, Level] = {}
        """The same of other things that are counted."""
        self.ready: dict[str, bool] = {}
        """Whether each check of readiness held when it was last tried; replaced as a whole."""
        self._unknown = ApiMetrics("unknown")
        self._apis: dict[int, ApiMetrics] = {}
        self._rejected = {reason: Counter() for reason in REJECTION_REASONS}

    def left_out(self) -> dict[str, int]:
        """How many there are of what a limit keeps out of the metrics, by kind."""
        groups = self.groups
        return {
            "topics": self.topics.left_out,
            "clients": self.clients.left_out,
            "groups": groups.groups_left_out,
            "group_partitions": groups.partitions_left_out,
        }

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
