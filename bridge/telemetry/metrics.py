"""The metrics: each declared once, counted in plain numbers on the hot path; `exposition` shows them to Prometheus.

A prometheus-client child costs 0.35 to 1.2 µs an update, a plain addition 0.06: hence the small classes of
`instruments`. A label's value comes from a table of ours, or is one of a number that a setting bounds (`traffic`,
`Lag`): so the number of series is bounded, whatever clients send.

A metric's text says what it counts, and what its reader should do. docs/metrics.md shows them all.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from bridge import __version__
from bridge.telemetry.families import (
    Declared,
    Families,
    Kind,
    Samples,
    Value,
    by_label,
    counter,
    counters,
    gauge,
    gauges,
    histogram,
    part,
    shown,
)
from bridge.telemetry.instruments import Counter, Histogram, Level
from bridge.telemetry.traffic import Amounts, ClientKind, Row, TrafficTable

REJECTION_REASONS = (
    "too_large", "negative_size", "bad_header", "bad_body", "unknown_api", "unsupported_version",
    "too_many_connections", "idle", "tls_on_plaintext", "http", "not_logged_in", "no_principal",
    "login_timeout", "session_expired", "no_namespace", "namespace_unavailable",
    "too_many_failed_logins", "no_memory", "other",
)  # fmt: skip


OTHER: Final = "(other)"
"""In place of what a limit leaves out; no topic and no client can be called that."""
_MOST_ENDS: Final = 4_000
"""Those that groups have offsets for come first."""


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


_MAX_BROKERS: Final = 200


def _of_brokers(kind: Kind, text: str, value: Callable[[BrokerMetrics], Value]) -> Declared:
    def samples(pulsar: "PulsarMetrics") -> Samples:
        return by_label({address: value(broker) for address, broker in dict(pulsar.brokers).items()})

    return shown(kind, text, ("broker",), samples)


def _unix(at: float) -> float:
    """In Unix seconds, of a time by the monotonic clock; 0 stays 0."""
    return at and at + time.time() - time.monotonic()


class PulsarMetrics(Families, prefix="bridge_pulsar_"):
    """What the Pulsar client sees."""

    connections = gauge("Open connections to brokers. 0: Pulsar is not reached, and nothing is served; see the log.")
    connections_opened = counter("Connections opened to brokers.")
    connections_lost = counter(
        "Connections to brokers lost. If it grows, brokers restart or the network fails: see the log."
    )
    connections_refused = counter(
        "Connections that a broker refused, as it has as many as it takes: topics share connections then, and one that "
        "Pulsar throttles slows those it shares with. Raise brokerMaxConnectionsPerIp there."
    )
    reconnects = counter(
        "Producers and consumers opened again: brokers restarted, or topics moved. All the time: see Pulsar."
    )
    resumed_readers = counter("Readers that went on where they were after a reconnect.")
    forgotten_readers = counter("Readers that brokers forgot as they closed topics; the bridge has opened them again.")
    overfull_readers = counter(
        "Readers opened again, as they held too much: slow consumers of topics in which large records follow many "
        "small ones. If it grows fast, raise storage.reader_buffer_bytes."
    )
    lookups = counter("Topic look-ups.")
    lookup_errors = counter(
        "Topic look-ups that failed: the cluster cannot say which broker serves a topic. See the brokers."
    )
    producers = gauge("Producers held in Pulsar.")
    readers = gauge("Readers and consumers held in Pulsar.")
    receipt_seconds = histogram("From a send to Pulsar's receipt: Pulsar's part of a produce. Slow: look at bookies.")
    send_errors = counter("Sends that a broker refused; they are sent again where that helps. The log says why.")
    stalled_seconds = gauge(
        "How long Pulsar has refused all that was sent to it. Above 0: bookies' disks may be full, see "
        "docs/operations.md."
    )
    unacknowledged_topics = gauge(
        "Topics with a record that Pulsar has not acknowledged for more than 5 s: they are above their publish rate, "
        "or their bookies hang. bridge_pulsar_topic_unacknowledged_seconds names them."
    )
    entries_sent = counter("Entries sent to Pulsar.")
    bytes_sent = counter("Bytes of entries sent to Pulsar.")
    entries_read = counter("Entries read from Pulsar.")
    bytes_read = counter("Bytes of entries read from Pulsar.")
    corrupt_entries = counter(
        "Stored entries that cannot be decoded. Above 0: the log says which; consumers go past them."
    )
    unknown_commands = counter(
        "Commands of brokers that are not understood, and ignored: a newer Pulsar than was tried."
    )
    hosts_refused = counter("Times Pulsar named a host that the bridge may not connect to: see docs/security.md.")
    auth_challenges = counter("Times a broker asked for new credentials.")
    token_fetches = counter("Tokens fetched by OAuth2.")
    token_fetch_errors = counter(
        "Tokens that could not be fetched from the OAuth2 issuer. If it grows, the log says why."
    )
    token_expires_seconds = gauges(
        "When the token ends that the bridge used last for Pulsar, Unix time, by where it is from. Absent: there is "
        "none, or it has no end. 'settings' or 'file', and some days away: put a new one in its place. 'oauth2', near "
        "and not moving: it is not renewed.",
        "source",
    )
    certificate_reload_errors = counter(
        "New certificates for Pulsar that were unfit: the former one stays. The log says why."
    )
    certificate_expires_seconds = gauges(
        "When the bridge's own certificate for Pulsar (pulsar.tls_cert_file) ends, Unix time. Some weeks away: put a "
        "new one in its place.",
        "setting",
    )
    slow_topics = gauges(
        "How long Pulsar has not acknowledged a topic's oldest record, where that is more than 5 s, of the 20 topics "
        "that wait longest: each is above its publish rate, or its bookies hang. Other topics do not wait for it.",
        "topic",
        "bridge_pulsar_topic_unacknowledged_seconds",
    )
    broker_connections = _of_brokers(
        "gauge",
        "Open connections to a broker of Pulsar. 0 for long: it is gone, or not reached; its topics move to others.",
        lambda broker: broker.connections,
    )
    broker_last_send_timestamp_seconds = _of_brokers(
        "gauge",
        "When an entry was last sent to a broker, Unix time; 0: none was.",
        lambda broker: _unix(broker.sent_at),
    )
    broker_last_receipt_timestamp_seconds = _of_brokers(
        "gauge",
        "When a broker last acknowledged a produce, Unix time; 0: never. Behind the last send by more than seconds: it "
        "does not store; look at the broker and its bookies.",
        lambda broker: _unix(broker.receipt_at),
    )
    broker_receipt_seconds = _of_brokers(
        "summary",
        "From send to receipt, of one broker. One that is slower than the others: look at its machine and bookies.",
        lambda broker: (broker.receipts, broker.seconds),
    )

    def __init__(self) -> None:
        super().__init__()
        self.brokers: dict[str, BrokerMetrics] = {}

    def token_ends(self, source: str, at: int) -> None:
        """The token in use ends then; 0: it has no end."""
        if at:
            self.token_expires_seconds[source] = at
        else:
            self.token_expires_seconds.pop(source, None)

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
    start: int | None = None
    """That of its first one, as it was learnt last; None: not known."""


class LedPartitions(NamedTuple):
    """The partitions of one namespace that are open here and that this node leads."""

    number: int
    ends: list[PartitionEnd]
    """Of some of them."""
    held: Mapping[str, float]
    """For how many seconds the last stable offset is held back, of topics where that is long."""
    topics: int = 0
    """Those of the namespace that are known here, led or not."""
    partitions: int = 0
    """Theirs."""


_MOST_HELD: Final = 20


def _held(storage: "StorageMetrics") -> Samples:
    held = [one for led in list(storage.led.values()) for one in led.held.items()]
    longest = sorted(held, key=lambda one: one[1], reverse=True)[:_MOST_HELD]
    return [((topic,), seconds) for topic, seconds in longest]


class StorageMetrics(Families, prefix="bridge_storage_"):
    """What the partition logs see."""

    open_partitions = gauge("Partitions held open by this process.")
    grouped_batches = counter("Batches that share an entry of Pulsar: what storage.group_commit_bytes does.")
    reanchors = counter(
        "Offsets learnt by reading an entry back, 2 ms each: other producers write to the same partitions."
    )
    searches_given_up = counter(
        "Searches for repeated batches that ended because too many had no client waiting: reads from Pulsar are slow, "
        "or clients' request.timeout.ms is very short."
    )
    cache_hits = counter("Reads answered from memory.")
    cache_misses = counter("Reads that memory could not answer. Many of all reads: raise storage.cache_bytes.")
    cache_bytes = gauge("Bytes of records in memory.")
    cold_lookups = counter("Searches in Pulsar for the entry that holds an offset: consumers began far behind.")
    catchup_readers = gauge(
        "Readers serving consumers far behind. At storage.max_catchup_readers they displace each other."
    )
    led_partitions = shown(
        "gauge",
        "Partitions held open that this node leads. Nodes that differ much for long: see docs/cluster.md, weights.",
        (),
        lambda storage: [((), sum(led.number for led in list(storage.led.values())))],
    )
    known_topics = shown(
        "gauge",
        "Topics that this node knows: those that its clients have named, or all since one has listed them. Each takes "
        "some memory.",
        (),
        lambda storage: [((), sum(led.topics for led in list(storage.led.values())))],
    )
    known_partitions = shown(
        "gauge",
        "Partitions of the topics that this node knows.",
        (),
        lambda storage: [((), sum(led.partitions for led in list(storage.led.values())))],
    )
    stable_offset_held_seconds = shown(
        "gauge",
        "How long an open transaction has held back a topic's readers of committed records, where that is more than "
        "10 s, of the 20 topics held longest; at the node that leads the partition. Absent: none is. Above the longest "
        "time-out: see docs/operations.md, BridgeStableOffsetHeld.",
        ("topic",),
        _held,
        "bridge_topic_stable_offset_held_seconds",
    )

    def __init__(self) -> None:
        super().__init__()
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
    namespace: str = ""
    """Empty: the bridge's own."""


class GroupRow(NamedTuple):
    """One group, as it is shown."""

    group: str
    protocol: str
    """`classic`, `consumer`, `share`, or `offsets` where nothing but committed offsets is known of it."""
    state: str
    members: int
    namespace: str = ""
    """Empty: the bridge's own."""


class Lags(NamedTuple):
    """Those of one namespace, and what is not among them."""

    lags: list[Lag]
    groups: int
    """How many groups this node coordinates."""
    groups_left_out: int
    """How many of them are not shown for `groups.max_groups_in_metrics`."""
    partitions_left_out: int
    """How many partitions of groups that are shown are not."""
    rows: Sequence[GroupRow] = ()
    """The groups that are shown."""
    states: Mapping[tuple[str, str], int] = {}
    """How many groups in memory there are, shown or not, by protocol and state."""
    members: int = 0
    """Of all groups, shown or not."""


def _labels(of: Lag | GroupRow, *values: str) -> Sequence[str]:
    """The values of the labels, `tenant_namespace` the last of them, which only other namespaces than our own have."""
    return (*values, of.namespace) if of.namespace else values


def _of_lags(text: str, name: str, value: Callable[[Lag], float | None]) -> Declared:
    def samples(groups: "GroupMetrics") -> Samples:
        for lag in groups.lags:
            if (known := value(lag)) is not None:
                yield _labels(lag, lag.group, lag.topic, str(lag.partition)), known

    return shown("gauge", text, ("group", "topic", "partition", "tenant_namespace"), samples, name)


class Pending(NamedTuple):
    """The offsets of one namespace that are committed in transactions, and not settled yet."""

    offsets: int
    seconds: float
    """The age of the oldest; 0: there is none."""


def _of_pendings(text: str, value: Callable[[list[Pending]], float]) -> Declared:
    def samples(groups: "GroupMetrics") -> Samples:
        pendings = list(groups.pendings.values())
        return [((), value(pendings))] if pendings else []

    return shown("gauge", text, (), samples)


class GroupMetrics(Families, prefix="bridge_groups_"):
    """What keeps the groups."""

    coordinated = gauge("Groups with members or committed offsets that this node coordinates.")
    loaded = gauge("Groups in memory: those with members, or asked for.")
    members = gauge("Members of all groups that this node coordinates, of those, too, that are not shown by name.")
    metadata_bytes = gauge(
        "Bytes that members say of themselves. At groups.max_metadata_bytes new members are refused."
    )
    rebalances = counter(
        "Rebalances completed. If it grows all the time, members are too slow or restart: see their logs."
    )
    slots_held = gauge("Slots of groups that this node coordinates.")
    slots_lost = counter("Slots lost to another node or to an error; their groups' members find their new coordinator.")
    records_read = counter("Stored records read when slots were taken.")
    records_unreadable = counter(
        "Stored records of groups that could not be read. Above 0: the log says of which group."
    )
    records_written = counter("Records of groups stored.")
    entries_written = counter("Pulsar entries that the records of groups took.")
    write_seconds = histogram("From a write of groups' records to Pulsar's receipt. Slow: commits wait for Pulsar.")
    compactions = counter("Compactions of the groups' topic asked for.")
    compaction_errors = counter(
        "Compactions of the groups' topic refused. If it grows, starts take longer; the log says why."
    )
    commits = counter("Offsets committed, of single partitions.")
    expired_offsets = counter("Committed offsets that expired (groups.offsets_retention_minutes).")
    mirrored = counter("Offsets mirrored to Pulsar subscriptions.")
    mirror_errors = counter("Offsets that could not be mirrored. If it grows, the log says why.")
    pending_offsets = _of_pendings(
        "Offsets committed in transactions that are open, or have just ended, in groups that this node coordinates.",
        lambda all_of_them: sum(one.offsets for one in all_of_them),
    )
    pending_seconds = _of_pendings(
        "Age of the oldest of them; 0: there is none. Above the longest time-out its transaction is open for too long, "
        "or the log has '! offsets not settled'.",
        lambda all_of_them: max(one.seconds for one in all_of_them),
    )
    committed_offset = _of_lags(
        "The offset a group has committed, at the node that coordinates it. Not moving while its topic grows: it is "
        "stuck.",
        "bridge_group_committed_offset",
        lambda lag: lag.committed,
    )
    lag_records = _of_lags(
        "Records after it; below 0: more is committed than there is, as kafka-consumer-groups has it. If it grows, "
        "consumers are too slow, too few or stuck. Absent: not known.",
        "bridge_group_lag_records",
        lambda lag: lag.records,
    )
    lag_seconds = _of_lags(
        "Age of the first record after it; 0: there is none. Absent: not known.",
        "bridge_group_lag_seconds",
        lambda lag: lag.seconds,
    )
    group_members = shown(
        "gauge",
        "Members of a group, at the node that coordinates it, of the groups whose lag is shown, and of others with "
        "members as far as groups.max_groups_in_metrics reaches. 0 while records are behind: its consumers are gone, "
        "or assign partitions to themselves.",
        ("group", "tenant_namespace"),
        lambda groups: [(_labels(row, row.group), row.members) for row in groups.rows],
        "bridge_group_members",
    )
    group_info = shown(
        "gauge",
        "1 for the protocol and the state of each of them. PreparingRebalance, CompletingRebalance or Reconciling for "
        "minutes: a member does not answer, or does not give partitions back.",
        ("group", "protocol", "state", "tenant_namespace"),
        lambda groups: [(_labels(row, row.group, row.protocol, row.state), 1) for row in groups.rows],
        "bridge_group_info",
    )
    in_state = shown(
        "gauge",
        "Groups in memory, shown or not, by protocol and state. Many that rebalance at once: nodes restart, or clients "
        "lose their connections.",
        ("protocol", "state"),
        lambda groups: groups.states.items(),
    )

    def __init__(self) -> None:
        super().__init__()
        # replaced as a whole: the thread that renders may be reading them
        self.lags: list[Lag] = []
        self.rows: list[GroupRow] = []
        self.states: dict[tuple[str, str], int] = {}
        self.groups_left_out = self.partitions_left_out = 0
        self._lags: dict[str, Lags] = {}
        self.pendings: dict[str, Pending] = {}
        """By namespace; none before they are counted."""

    def show_lags(self, namespace: str, lags: Lags, most: int) -> None:
        """The groups of a namespace stand like this now; of all namespaces so many partitions, and as many groups, are
        shown."""
        self._lags[namespace] = lags
        every = list(self._lags.values())
        self.lags = lags.lags if len(every) == 1 else list(islice(chain.from_iterable(one.lags for one in every), most))
        self.rows = list(islice(chain.from_iterable(one.rows for one in every), most))
        states = dict.fromkeys(self.states, 0)  # one that no group is in any more stays, at 0
        for key, groups in chain.from_iterable(one.states.items() for one in every):
            states[key] = states.get(key, 0) + groups
        self.states = states
        self.members.set(sum(one.members for one in every))
        self.coordinated.set(sum(one.groups for one in every))
        cut = sum(len(one.rows) for one in every) - len(self.rows)
        self.groups_left_out = cut + sum(one.groups_left_out for one in every)
        cut = sum(len(one.lags) for one in every) - len(self.lags)
        self.partitions_left_out = cut + sum(one.partitions_left_out for one in every)

    def show_pending(self, namespace: str, pending: Pending) -> None:
        """So many offsets of a namespace are pending now."""
        self.pendings = {**self.pendings, namespace: pending}  # the thread that renders may be reading it


class ShareMetrics(Families, prefix="bridge_shares_"):
    """What share groups do with the records of partitions that this node leads."""

    sessions = gauge("Share sessions: members of share groups that read at this node. At 2,000 new ones are refused.")
    ranges = gauge(
        "Stretches of offsets that share groups deal with alike: 200 bytes of memory each. At 500,000 (of a namespace) "
        "no new records are given where a partition has more than 16."
    )
    delivered = counter("Records given to members, each time that they are.")
    acknowledged = counters(
        "What members said of records: a rejected record is given to nobody again, a renewed one is its member's for "
        "longer.",
        "type",
        ("gap", "accept", "release", "reject", "renew"),
    )
    expired = counter(
        "Records whose lock ran out before they were acknowledged: consumers are too slow for "
        "share.record.lock.duration.ms, or hang. They are given again."
    )
    given_up = counter(
        "Records that were delivered share.delivery.count.limit times and acknowledged by nobody: they are archived, "
        "and no member gets them again."
    )
    write_errors = counter("States that could not be stored: members are told to try again. The log says why.")


class Standing(NamedTuple):
    """How the transactional ids stand that a node coordinates in one namespace."""

    ids: int
    open: int
    open_seconds: float
    """Of the oldest."""
    aborted: int
    """Records of aborted transactions."""
    closed: int
    """Ids with a write whose outcome is not known."""
    closed_seconds: float
    """Of the oldest."""


def _of_standings(text: str, value: Callable[[list[Standing]], float]) -> Declared:
    def samples(transactions: "TransactionMetrics") -> Samples:
        yield (), value(list(transactions.standings.values()))

    return shown("gauge", text, (), samples)


class Known(NamedTuple):
    """What a node knows of all transactions of one namespace, whoever coordinates them."""

    overdue: int
    """Those that have been open for more than twice their time-outs."""
    age: float | None
    """For how many seconds this may have been old; None: there are no transactions yet."""


def _of_known(text: str, value: Callable[[list[Known]], float | None]) -> Declared:
    def samples(transactions: "TransactionMetrics") -> Samples:
        found = value(list(transactions.known.values()))
        return [] if found is None else [((), found)]

    return shown("gauge", text, (), samples)


class TransactionMetrics(Families, prefix="bridge_transactions_"):
    """What coordinates and follows transactions."""

    ids = _of_standings(
        "Transactional ids that this node coordinates. At transactions.max_ids of all nodes new ones are refused.",
        lambda all_of_them: sum(one.ids for one in all_of_them),
    )
    open = _of_standings(
        "Open transactions that this node coordinates.", lambda all_of_them: sum(one.open for one in all_of_them)
    )
    open_seconds = _of_standings(
        "Age of the oldest of them. Beyond twice the longest time-out: the log says why it is not aborted.",
        lambda all_of_them: max((one.open_seconds for one in all_of_them), default=0.0),
    )
    aborted_records = _of_standings(
        "Stored records of aborted transactions in the slots of this node.",
        lambda all_of_them: sum(one.aborted for one in all_of_them),
    )
    closed_ids = _of_standings(
        "Transactional ids that wait for the outcome of a write: Pulsar did not acknowledge it in time.",
        lambda all_of_them: sum(one.closed for one in all_of_them),
    )
    closed_seconds = _of_standings(
        "For how long the oldest of them does. Above a minute: Pulsar answers, and the bridge does not notice.",
        lambda all_of_them: max((one.closed_seconds for one in all_of_them), default=0.0),
    )
    overdue = _of_known(
        "Transactions of all nodes that, as far as this one knows, are open for more than twice their time-outs. Above "
        "0: see docs/operations.md, BridgeTransactionOverdue.",
        lambda all_of_them: sum(one.overdue for one in all_of_them) if all_of_them else None,
    )
    table_age_seconds = _of_known(
        "For how long this node may lack what others have recorded of transactions: a slot is being read, or Pulsar "
        "has not said where it ends. Above 10 s: readers of committed records wait. Absent: there have been no "
        "transactions.",
        lambda all_of_them: max((one.age for one in all_of_them if one.age is not None), default=None),
    )
    reloads = counter(
        "Slots of other nodes that were read again. If it grows, entries are missed or Pulsar is away: the log line "
        "'! slot not followed' says why."
    )
    commits = counter("Transactions committed.")
    aborts = counter("Transactions aborted, those that timed out among them.")
    timeouts = counter("Transactions aborted because they were open for longer than their producers allow.")
    refused = counter(
        "New transactional ids and transactions refused: there were transactions.max_ids, or transactions.max_open of "
        "them open. The limits are of each namespace, and tenants.limits may set others."
    )
    expired_ids = counter("Transactional ids forgotten (transactions.id_expiration_ms).")
    pruned_records = counter(
        "Stored records of aborted transactions deleted, as nothing was left of them in any partition or group."
    )
    end_seconds = histogram("From an EndTxn to its receipt. Slow: Pulsar is, or many end at once.")
    confirm_seconds = histogram("From the question what is recorded of transactions to Pulsar's answer.")
    slots_held = gauge("Slots of transactional ids that this node coordinates.")
    slots_lost = counter("Slots lost to another node or to an error; producers find their new coordinator.")
    records_read = counter("Stored records read when slots were taken, and of slots that other nodes have.")
    records_unreadable = counter("Stored entries of transactions that could not be read. Above 0: the log says where.")
    records_written = counter("Records of transactions stored.")
    entries_written = counter("Pulsar entries that the records of transactions took.")
    write_seconds = histogram("From a write of transactions' records to Pulsar's receipt.")
    compactions = counter("Compactions of the transactions' topic asked for.")
    compaction_errors = counter(
        "Compactions of the transactions' topic refused. If it grows, starts take longer; the log says why."
    )

    def __init__(self) -> None:
        super().__init__()
        self.standings: dict[str, Standing] = {}
        self.known: dict[str, Known] = {}
        """By namespace."""

    def show(self, namespace: str, standing: Standing) -> None:
        """The ids of a namespace stand like this now."""
        self.standings = {**self.standings, namespace: standing}  # the thread that renders may be reading it

    def show_known(self, namespace: str, known: Known) -> None:
        """This node knows so much of a namespace now."""
        self.known = {**self.known, namespace: known}


class ClusterMetrics(Families, prefix="bridge_cluster_"):
    """One node's membership."""

    members = gauge("Nodes of the cluster, as this node knows it. Fewer than run: see docs/cluster.md.")
    view_version = gauge(
        "The version of the view that this node goes by. Nodes that differ for more than seconds: one is cut off."
    )
    is_controller = gauge("1 on the node that is the controller. The sum should be 1.")
    slots_led = gauge("Leadership slots of this node, of cluster.slots: its share of all partitions goes by them.")
    void_records = counter(
        "Views that this node proposed after another one. If it grows on and on, nodes contend: see docs/cluster.md."
    )
    unreadable = counter(
        "Records of the cluster's topics that could not be decoded. Above 0: something else writes there.",
        "bridge_cluster_unreadable_records",
    )
    heartbeat_seconds = histogram(
        "From a heartbeat to its receipt. Near cluster.dead_seconds the node is taken for dead: Pulsar is slow."
    )
    node_info = shown(
        "gauge",
        "Who this node is in the cluster: joins the instance with the id that clients see.",
        ("node_id", "name", "rack"),
        lambda cluster: [] if cluster.node is None else [(cluster.node(), 1)],
    )
    probes = counters(
        "Questions after silent nodes. 'free': the node was gone, and its place is taken over.",
        "result",
        ("free", "busy"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.node: Callable[[], tuple[str, str, str]] | None = None
        """This node's id, name and rack, once it is to be a member."""


class SecurityMetrics(Families, prefix="bridge_security_"):
    """Users and permissions that are kept in Pulsar."""

    users = gauge("SCRAM credentials that are kept in Pulsar.")
    acls = gauge("Access control entries that are kept in Pulsar.")
    quotas = gauge("Client quotas that are kept in Pulsar.")
    not_understood = gauge(
        "Kept records of a kind or format level that this version does not know. Above 0: a newer bridge wrote them; "
        "bring this one up to date.",
        "bridge_security_records_not_understood",
    )
    unreadable = counter(
        "Entries of __bridge_security that could not be decoded. Above 0: something else writes there.",
        "bridge_security_unreadable_entries",
    )
    compactions = counter("Compactions of __bridge_security asked for.")
    compaction_errors = counter(
        "Compactions of __bridge_security that Pulsar refused. If it grows, its data may be held by retention alone: "
        "see the log."
    )
    changes = counters(
        "Changes of users, permissions and quotas through this node. If 'failed' grows, they are not stored in time.",
        "outcome",
        ("stored", "failed"),
    )
    authorization_denials = shown(
        "counter",
        "Requests for what a client may not do, by operation and type of resource. If it grows, '! denied' of the log "
        "category bridge.audit says who and what.",
        ("operation", "resource"),
        lambda security: dict(security.denials).items(),
        "bridge_authorization_denials",
    )

    def __init__(self) -> None:
        super().__init__()
        self.denials: dict[tuple[str, str], Counter] = {}
        """By operation and type of resource."""

    def denied(self, operation: str, resource: str) -> None:
        """A client asked for what it may not do."""
        self.denials.setdefault((operation, resource), Counter()).inc()


PERMISSION_OUTCOMES = ("allowed", "denied", "unknown")


class PermissionMetrics(Families, prefix="bridge_pulsar_permission_"):
    """Permissions in Pulsar, asked in the name of clients' principals."""

    questions = counters(
        "Questions to Pulsar whether a principal may do something. 'unknown': Pulsar did not say, and it may not.",
        "outcome",
        PERMISSION_OUTCOMES,
    )
    remembered = gauge(
        "Answers about permissions in Pulsar that are remembered.", "bridge_pulsar_permissions_remembered"
    )
    roles = gauge("Roles with connections for questions about their permissions.")


QUOTA_TYPES = ("produce", "fetch", "request", "controller_mutation", "connection", "topic_creation")


class QuotaMetrics(Families, prefix="bridge_quota_"):
    """Client quotas, by type: never by client."""

    throttled_connections = gauge("Connections that are not read for a quota now: their clients exceed it.")
    throttled = counters(
        "Requests that exceeded a quota. If clients are slow and it grows, that is why: see docs/security.md, Quotas.",
        "quota",
        QUOTA_TYPES,
    )
    throttled_seconds = shown(
        "counter",
        "How long the clients of requests above a quota were told to wait.",
        ("quota",),
        lambda quotas: [((quota,), count.value / 1000) for quota, count in quotas.throttled_ms.items()],
    )

    def __init__(self) -> None:
        super().__init__()
        self.throttled_ms = {one: Counter() for one in QUOTA_TYPES}

    def throttle(self, quota: str, seconds: float) -> None:
        """A client has to wait so long for a quota of this type."""
        self.throttled[quota].inc()
        self.throttled_ms[quota].inc(round(seconds * 1000))


HANDSHAKE_OUTCOMES = ("established", "failed", "plaintext", "lost", "timeout", "displaced", "stopped")


LOGIN_OUTCOMES = ("succeeded", "failed", "unsupported", "unavailable")


class TlsMetrics(Families, prefix="bridge_tls_"):
    """TLS towards clients."""

    handshakes = counters(
        "TLS handshakes of clients. Many that are not 'established': clients have the wrong port, or do not trust the "
        "certificate; the log line '! no TLS handshake' says why.",
        "outcome",
        HANDSHAKE_OUTCOMES,
    )
    certificate_expires_seconds = gauges(
        "When a listener's certificate ends, Unix time. Some weeks away: put a new one in its place.", "listener"
    )
    crl_expires_seconds = gauges(
        "When a listener's list of withdrawn client certificates ends, Unix time. Past it, clients with certificates "
        "are refused: put a new one in its place.",
        "listener",
    )
    under_way = gauge(
        "Connections that have not shaken hands yet. Many for long: clients connect faster than a core shakes hands.",
        "bridge_tls_handshakes_under_way",
    )
    reloads = counter("Changed certificates that were taken.", "bridge_tls_certificate_reloads")
    reload_errors = counter(
        "Changed certificates that were unfit: the former one stays. If it grows, the log says why.",
        "bridge_tls_certificate_reload_errors",
    )


def _of_apis(kind: Kind, text: str, value: Callable[[ApiMetrics], Value]) -> Declared:
    def samples(metrics: "Metrics") -> Samples:
        return [((api.name,), value(api)) for api in metrics.all_apis()]

    return shown(kind, text, ("api",), samples)


def _of_clients(kind: Kind, what: str, value: Callable[[Row[ClientKind]], int], more: str = "") -> Declared:
    def samples(metrics: "Metrics") -> Samples:
        other = (OTHER,) * (3 if metrics.by_principal else 2)
        return [(row.name, value(row)) for row in metrics.clients.shown(other)]

    who = (
        "by the name and version that clients tell of their software, and by principal with "
        "http.principals_in_metrics; (other): beyond http.max_clients_in_metrics."
    )
    labels = ("client_software_name", "client_software_version", "principal")
    return shown(kind, f"{what}, {who}{more}", labels, samples)


def _of_topics(what: str, value: Callable[[Amounts], int]) -> Declared:
    def samples(metrics: "Metrics") -> Samples:
        return [((row.name,), value(row.amounts)) for row in metrics.topics.shown(OTHER)]

    text = f"{what}, by topic; (other): beyond http.max_topics_in_metrics."
    return shown("counter", text, ("topic",), samples)


def _used(levels: Mapping[str, Level]) -> Samples:
    return by_label({kind: level.used() for kind, level in dict(levels).items()})


def _limits(levels: Mapping[str, Level]) -> Samples:
    return by_label({kind: level.limit for kind, level in dict(levels).items()})


def _starts(metrics: "Metrics") -> Samples:
    led = chain.from_iterable(led.ends for led in list(metrics.storage.led.values()))
    return islice((((one.topic, str(one.partition)), one.start) for one in led if one.start is not None), _MOST_ENDS)


def _ends(metrics: "Metrics") -> Samples:
    ends = {(lag.topic, str(lag.partition)): lag.end for lag in metrics.groups.lags if lag.end is not None}
    for led in list(metrics.storage.led.values()):
        ends |= {(end.topic, str(end.partition)): end.end for end in led.ends}
    return islice(ends.items(), _MOST_ENDS)


class Metrics(Families, prefix="bridge_"):
    """Every metric of one bridge process; passed in, never global. `codec`: the twin in use."""

    build_info = shown(
        "gauge",
        "The running version, and the codec: with 'python' a record costs forty times as much as with 'native'.",
        ("version", "codec"),
        lambda metrics: [((__version__, metrics.codec), 1)],
    )
    loop_held_seconds = histogram(
        "How late the event loop came to what was due each 20 ms. Above 50 ms all clients wait: the log line '! event "
        "loop held' names the API and the code.",
        "bridge_event_loop_held_seconds",
    )
    connections = gauge(
        "Open client connections. At its limit (bridge_places_limit) new ones are closed: raise kafka.max_connections.",
        "bridge_kafka_connections",
    )
    connections_accepted = counter(
        "Client connections accepted. A high rate costs log-ins and handshakes: clients should keep their connections.",
        "bridge_kafka_connections_accepted",
    )
    paused_connections = gauge(
        "Client sockets that are not read, for back-pressure. For long above 0: see bridge_memory_used_bytes and "
        "whether Pulsar stores (bridge_pulsar_receipt_seconds).",
        "bridge_kafka_paused_connections",
    )
    in_flight_bytes = gauge(
        "Bytes of requests held. At kafka.memory_budget_bytes no socket is read: Pulsar is slow, or the budget small."
    )
    waiting_answer_bytes = gauge(
        "Bytes of answers that are read from Pulsar, or not taken by their clients yet. Near kafka.memory_budget_bytes "
        "consumers are slow at reading, and get less with each answer."
    )
    preferred_replicas = counter(
        "Partitions of Fetch whose consumers were sent to a node of their rack. More than one a partition and consumer "
        "in five minutes: they go to and fro, see docs/cluster.md.",
        "bridge_kafka_preferred_replicas",
    )
    tenant_namespaces = gauge(
        "Open namespaces beside the bridge's own. At tenants.max_namespaces clients of more are refused: raise it."
    )
    http_rejected = counter(
        "Connections refused on the side of metrics and health. If it grows, scrapes or probes fail: find who asks so "
        "often, or raise http.max_connections and http.max_connections_per_ip."
    )
    http_unauthorized = counter(
        "Requests there that were refused without the token. If it grows, who asks has no token, or an old one."
    )
    memory_used_bytes = shown(
        "gauge",
        "Bytes held of what has a limit (bridge_memory_limit_bytes). Near it: see docs/operations.md, Memory.",
        ("kind",),
        lambda metrics: _used(metrics.memory),
    )
    memory_limit_bytes = shown(
        "gauge",
        "The most bytes that bridge_memory_used_bytes may have; docs/operations.md, Memory, names the settings.",
        ("kind",),
        lambda metrics: _limits(metrics.memory),
    )
    places_used = shown(
        "gauge",
        "How many there are of what has a limit in number (bridge_places_limit). Near it, more are refused or wait.",
        ("kind",),
        lambda metrics: _used(metrics.places),
    )
    places_limit = shown(
        "gauge",
        "The most that bridge_places_used may be; docs/metrics.md names the settings.",
        ("kind",),
        lambda metrics: _limits(metrics.places),
    )
    metrics_left_out = shown(
        "gauge",
        "How many a limit keeps out of the metrics now, by kind; topics and clients are in the series '(other)'. Above "
        "0: raise http.max_topics_in_metrics, http.max_clients_in_metrics or groups.max_groups_in_metrics if they are "
        "missed.",
        ("kind",),
        lambda metrics: by_label(metrics.left_out()),
    )
    ready = gauges(
        "Whether a check of /readyz held when it was last tried, some seconds ago at most. 0: clients are not served "
        "well; /readyz says why.",
        "check",
        "bridge_ready_check",
    )
    tls = part(TlsMetrics)
    security = part(SecurityMetrics)
    permissions = part(PermissionMetrics)
    quotas = part(QuotaMetrics)
    cluster = part(ClusterMetrics)
    kafka_requests = _of_apis("counter", "Requests received, by API.", lambda api: api.requests)
    kafka_errors = shown(
        "counter",
        "Errors answered, by API, Kafka's number of the error and its name. If it grows, see the clients' logs, and "
        "docs/errors.md.",
        ("api", "code", "error"),
        lambda metrics: [
            ((api.name, str(code), metrics.error_names.get(code, str(code))), count)
            for api in metrics.all_apis()
            for code, count in dict(api.errors).items()
        ],
    )
    kafka_request_bytes = _of_apis("counter", "Bytes of requests, by API.", lambda api: api.bytes_in)
    kafka_response_bytes = _of_apis("counter", "Bytes of answers, by API.", lambda api: api.bytes_out)
    kafka_request_seconds = _of_apis(
        "histogram",
        "From frame read to answer written, by API. Slow Produce: compare bridge_pulsar_receipt_seconds. Fetch, "
        "JoinGroup and SyncGroup wait on purpose.",
        lambda api: api.seconds,
    )
    refusals = counters(
        "Frames and connections refused, by reason. If it grows, a client is faulty, or no Kafka client, or a limit is "
        "too low: the log line '! refused' says whose they are.",
        "reason",
        REJECTION_REASONS,
        "bridge_kafka_rejected",
    )
    login_outcomes = shown(
        "counter",
        "Log-ins of clients. If 'failed' grows, the log category bridge.audit says from where: see docs/security.md.",
        ("mechanism", "outcome"),
        lambda metrics: metrics.logins().items(),
        "bridge_logins",
    )
    client_connections = _of_clients(
        "gauge", "Open connections", lambda row: row.users, " Old versions with errors: bring those clients up to date."
    )
    client_requests = _of_clients("counter", "Requests", lambda row: row.amounts.requests)
    client_errors = _of_clients("counter", "Error codes answered", lambda row: row.amounts.errors)
    client_request_bytes = _of_clients("counter", "Bytes of requests", lambda row: row.amounts.bytes_in)
    client_response_bytes = _of_clients("counter", "Bytes of answers", lambda row: row.amounts.bytes_out)
    pulsar = part(PulsarMetrics)
    storage = part(StorageMetrics)
    topic_produced_records = _of_topics(
        "Records that clients produced and Pulsar has stored", lambda amounts: amounts.records_in
    )
    topic_produced_bytes = _of_topics("Bytes of the batches that clients produced", lambda amounts: amounts.bytes_in)
    topic_fetched_records = _of_topics("Records sent to consumers", lambda amounts: amounts.records_out)
    topic_fetched_bytes = _of_topics("Bytes of the batches sent to consumers", lambda amounts: amounts.bytes_out)
    partition_end_offset = shown(
        "gauge",
        "The offset after a partition's last record: at the node that leads it, while clients use it and its topic is "
        "shown; and at one that coordinates a group with an offset there, some seconds old. The largest is the newest.",
        ("topic", "partition"),
        _ends,
    )
    partition_start_offset = shown(
        "gauge",
        "The offset of a partition's first record, at the node that leads it, as Pulsar told it last. Absent: nobody "
        "has needed it yet. The end less this is how many records retention keeps.",
        ("topic", "partition"),
        _starts,
    )
    groups = part(GroupMetrics)
    shares = part(ShareMetrics)
    transactions = part(TransactionMetrics)

    def __init__(self, codec: str = "python") -> None:
        super().__init__()
        self.codec = codec
        self.topics: TrafficTable[str] = TrafficTable(100_000)
        self.clients: TrafficTable[ClientKind] = TrafficTable()
        self.by_principal = False
        """Whether clients are told apart by principal, too."""
        self.memory: dict[str, Level] = {}
        """How many bytes are held of what has a limit, by what they are held for."""
        self.places: dict[str, Level] = {}
        """The same of other things that are counted."""
        self.error_names: Mapping[int, str] = {}
        """Kafka's, by number."""
        self._unknown = ApiMetrics("unknown")
        self._apis: dict[int, ApiMetrics] = {}
        self._logins: dict[tuple[str, str], Counter] = {}

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
        self.refusals.get(reason, self.refusals["other"]).inc()

    def login(self, mechanism: str, outcome: str) -> None:
        """Count a log-in by one of the listeners' mechanisms, or `none`; `outcome`: one of LOGIN_OUTCOMES."""
        self._logins.setdefault((mechanism, outcome), Counter()).inc()

    def logins(self) -> dict[tuple[str, str], int]:
        """Log-ins by mechanism and outcome."""
        return {key: counter.value for key, counter in dict(self._logins).items()}

    def all_apis(self) -> list[ApiMetrics]:
        """The series of every API, the unknown ones' last."""
        return [*self._apis.values(), self._unknown]
