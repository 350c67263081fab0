"""The conditions of config/alerts.yml, as one node finds them in its own numbers: for the page, and without Prometheus.

Each rule here has the name, the limit and the duration of one there; a test compares them. The numbers are those that
the metrics show. They are looked at every 15 seconds, so what lasts shorter may be missed; of the time before the node
started nothing is known. What Prometheus alone can see is not here: that a node gives no metrics (BridgeDown).
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from bridge.kafka.error_codes import ErrorCode
from bridge.telemetry.families import Families, Value
from bridge.telemetry.instruments import SECONDS
from bridge.telemetry.metrics import Lag

if TYPE_CHECKING:
    from bridge.telemetry.metrics import Metrics

LOOK_SECONDS: Final = 15.0
ELSEWHERE: Final = ("BridgeDown",)
"""Rules that no node can know of itself."""
_KEPT_SECONDS: Final = 3700.0
_GROUP_SECONDS: Final = 600.0
"""Of the ranges over groups' numbers."""
_DAY: Final = 86_400.0
_PRODUCE: Final = 0
_ERRORS: Final = (
    ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR,
)  # fmt: skip

Found: TypeAlias = Iterable[tuple[str, str]]
"""What a rule holds for: a name, such as a topic's, and what is told of it."""


class Rule(NamedTuple):
    """One alert."""

    name: str
    seconds: float
    """For so long the condition has to hold (`for`)."""
    severity: str
    holds: Callable[["Numbers"], Found]


class Firing(NamedTuple):
    """An alert that fires."""

    alert: str
    severity: str
    what: str
    since: float
    """When its condition began to hold, Unix time."""


class Counts(NamedTuple):
    """The numbers of which changes over time are asked."""

    at: float
    members: float
    heartbeats: int
    requests: int
    errors: int
    corrupt: float
    receipts: tuple[int, ...]
    refusals: Mapping[str, float]


class _Group:
    """What a group had committed in a partition, and since when it is that."""

    __slots__ = ("committed", "since")

    def __init__(self, committed: int, since: float) -> None:
        self.committed, self.since = committed, since


class Numbers:
    """The metrics of a node now and before: what the rules ask."""

    def __init__(self, metrics: "Metrics") -> None:
        self.metrics = metrics
        self.now = self.wall = 0.0
        """Of the last look: a clock that never goes back, and Unix time."""
        self._counts: deque[Counts] = deque()
        self._committed: dict[tuple[str, str, str, int], _Group] = {}
        self._lags: dict[tuple[str, str, str], deque[tuple[float, int]]] = {}

    def look(self, now: float, wall: float) -> None:
        """Take the numbers of this moment."""
        metrics, self.now, self.wall = self.metrics, now, wall
        produce = metrics.api(_PRODUCE)
        self._counts.append(
            Counts(
                now,
                metrics.cluster.members.value,
                sum(metrics.cluster.heartbeat_seconds.counts),
                int(produce.requests.value),
                sum(produce.errors.get(code, 0) for code in _ERRORS),
                metrics.pulsar.corrupt_entries.value,
                tuple(metrics.pulsar.receipt_seconds.counts),
                {reason: refused.value for reason, refused in metrics.refusals.items()},
            )
        )
        while now - self._counts[0].at > _KEPT_SECONDS:
            self._counts.popleft()
        self._look_at_groups(metrics.groups.lags)

    def since(self, seconds: float) -> tuple[Counts, Counts] | None:
        """The first counts of so many seconds ago or less, and those of now; None where there are none before."""
        first = next((one for one in self._counts if self.now - one.at <= seconds), None)
        return None if first is None or first is self._counts[-1] else (first, self._counts[-1])

    def most_members(self, seconds: float) -> float:
        """The most nodes that the cluster had within this time."""
        return max(one.members for one in self._counts if self.now - one.at <= seconds)

    def of(self, families: Families, name: str) -> Iterator[tuple[tuple[str, ...], Value]]:
        """The samples of one metric of some."""
        for family in families.families():
            if family.name == name:
                yield from ((tuple(labels), value) for labels, value in family.samples)

    # ---- groups ------------------------------------------------------------------------------------------------------

    def _look_at_groups(self, lags: Iterable[Lag]) -> None:
        committed: dict[tuple[str, str, str, int], _Group] = {}
        sums: dict[tuple[str, str, str], int | None] = {}
        for lag in lags:
            key = lag.namespace, lag.group, lag.topic, lag.partition
            before = self._committed.get(key)
            same = before is not None and before.committed == lag.committed
            committed[key] = before if before is not None and same else _Group(lag.committed, self.now)
            topic = lag.namespace, lag.group, lag.topic
            of = sums.get(topic, 0)
            sums[topic] = None if of is None or lag.records is None else of + max(0, lag.records)
        self._committed = committed
        known = {key: records for key, records in sums.items() if records is not None}
        most = int(_GROUP_SECONDS / LOOK_SECONDS) + 1
        self._lags = {topic: self._lags.get(topic) or deque(maxlen=most) for topic in known}
        for topic, records in known.items():
            self._lags[topic].append((self.now, records))

    def growing(self) -> Found:
        """Groups that are more than 1000 records behind in a topic, and fall further behind."""
        for (_, group, topic), points in self._lags.items():
            if points[-1][1] > 1000 and _slope(points) > 0:
                yield f"{group} in {topic}", f"{points[-1][1]:,} records behind, and growing"

    def stopped(self, *, with_members: bool) -> Found:
        """Groups that have records to read in a topic, and the same committed offsets for ten minutes."""
        members = {(one.namespace, one.group): one.members for one in self.metrics.groups.rows}
        count: dict[tuple[str, str, str], int] = {}
        for lag in self.metrics.groups.lags:
            one = self._committed.get((lag.namespace, lag.group, lag.topic, lag.partition))
            has_waited = one is not None and self.now - one.since >= _GROUP_SECONDS
            group = lag.namespace, lag.group
            is_behind = has_waited and lag.records is not None and lag.records > 0
            if is_behind and group in members and bool(members[group]) == with_members:
                count[*group, lag.topic] = count.get((*group, lag.topic), 0) + 1
        for (_, group_id, topic), partitions in count.items():
            has = "has members, and commits nothing" if with_members else "has no members, and records wait for it"
            yield f"{group_id} in {topic}", f"{has}: {partitions} partitions"

    def unknown(self) -> Found:
        """Groups of which the lag in a topic is not known of some partitions."""
        count: dict[tuple[str, str], int] = {}
        for lag in self.metrics.groups.lags:
            if lag.records is None:
                count[lag.group, lag.topic] = count.get((lag.group, lag.topic), 0) + 1
        for (group, topic), partitions in count.items():
            yield f"{group} in {topic}", f"the lag is not known of {partitions} partitions"


def _slope(points: Iterable[tuple[float, int]]) -> float:
    """Of the line of least squares, as Prometheus' deriv()."""
    found = list(points)
    middle = sum(at for at, _ in found) / len(found)
    spread = sum((at - middle) ** 2 for at, _ in found)
    return sum((at - middle) * value for at, value in found) / spread if spread else 0.0


def _quantile(share: float, counts: Iterable[int]) -> float:
    """As histogram_quantile(): within its bucket by a straight line; the last bound for what is beyond it."""
    found = list(counts)
    wanted, seen = share * sum(found), 0
    for number, count in enumerate(found):
        if count and seen + count >= wanted:
            if number == len(SECONDS):
                break
            low = SECONDS[number - 1] if number else 0.0
            return low + (SECONDS[number] - low) * (wanted - seen) / count
        seen += count
    return SECONDS[-1]


# ---- the rules -------------------------------------------------------------------------------------------------------


def _not_ready(numbers: Numbers) -> Found:
    failed = [check for check, holds in numbers.metrics.ready.items() if not holds]
    return [("", f"these checks of readiness fail: {', '.join(failed)}")] if failed else []


def _unreachable(numbers: Numbers) -> Found:
    counted = numbers.since(60)
    silent = counted is not None and counted[0].heartbeats == counted[1].heartbeats
    return [("", "Pulsar acknowledges nothing")] if silent and not numbers.metrics.pulsar.stalled_seconds.value else []


def _stores_nothing(numbers: Numbers) -> Found:
    stalled = numbers.metrics.pulsar.stalled_seconds.value
    return [("", f"Pulsar refuses all that is sent, for {stalled:.0f} s")] if stalled > 0 else []


def _not_acknowledged(numbers: Numbers) -> Found:
    slow = dict(numbers.metrics.pulsar.slow_topics)
    return [(topic, f"nothing is acknowledged for {age:.0f} s") for topic, age in slow.items() if age > 20]


def _produce_errors(numbers: Numbers) -> Found:
    counted = numbers.since(120)
    if counted is None:
        return []
    errors, requests = counted[1].errors - counted[0].errors, counted[1].requests - counted[0].requests
    return [("", f"{errors} of {requests} produce requests failed")] if errors > 0.01 * requests else []


def _receipts_slow(numbers: Numbers) -> Found:
    counted = numbers.since(300)
    if counted is None:
        return []
    grown = [after - before for before, after in zip(counted[0].receipts, counted[1].receipts, strict=True)]
    slow = _quantile(0.99, grown) if sum(grown) else 0.0
    return [("", f"one in a hundred sends waits for more than {slow:.1f} s")] if slow > 1 else []


def _memory(numbers: Numbers) -> Found:
    for kind, level in dict(numbers.metrics.memory).items():
        if kind != "records" and level.limit and level.used() / level.limit > 0.9:
            yield kind, f"{level.used() / level.limit:.0%} of what may be held is held"


def _certificates(numbers: Numbers) -> Found:
    metrics = numbers.metrics
    for ends in (metrics.tls.certificate_expires_seconds, metrics.pulsar.certificate_expires_seconds):
        for name, at in dict(ends).items():
            if at - numbers.wall < 7 * _DAY:
                yield name, f"the certificate ends in {(at - numbers.wall) / _DAY:.1f} days"


def _tokens(numbers: Numbers) -> Found:
    for source, at in dict(numbers.metrics.pulsar.token_expires_seconds).items():
        if source != "oauth2" and at - numbers.wall < 3 * _DAY:
            yield source, f"the token for Pulsar ends in {(at - numbers.wall) / _DAY:.1f} days"


def _node_missing(numbers: Numbers) -> Found:
    missing = numbers.most_members(3600) - numbers.metrics.cluster.members.value
    nodes = "1 node" if missing == 1 else f"{missing:.0f} nodes"
    return [("", f"{nodes} fewer than within the last hour")] if missing > 0 else []


def _corrupt(numbers: Numbers) -> Found:
    counted = numbers.since(900)
    more = 0.0 if counted is None else counted[1].corrupt - counted[0].corrupt
    return [("", f"{more:.0f} entries could not be decoded")] if more > 0 else []


def _refuses(numbers: Numbers) -> Found:
    counted = numbers.since(300)
    for reason in () if counted is None else ("too_many_connections", "no_memory"):
        more = counted[1].refusals.get(reason, 0) - counted[0].refusals.get(reason, 0) if counted else 0
        if more > 0:
            yield reason, f"{more:.0f} were refused in five minutes"


def _above(part: Callable[["Metrics"], Families], name: str, limit: float, text: str) -> Callable[[Numbers], Found]:
    """Whether one metric is above a limit."""

    def holds(numbers: Numbers) -> Found:
        for labels, value in numbers.of(part(numbers.metrics), name):
            if isinstance(value, int | float) and value > limit:
                yield " ".join(labels), text.format(value)

    return holds


RULES: Final = (
    Rule("BridgeNotReady", 120, "critical", _not_ready),
    Rule("BridgePulsarUnreachable", 60, "critical", _unreachable),
    Rule("BridgePulsarStoresNothing", 60, "critical", _stores_nothing),
    Rule("BridgeTopicNotAcknowledged", 120, "warning", _not_acknowledged),
    Rule("BridgeProduceErrors", 300, "critical", _produce_errors),
    Rule("BridgeReceiptsSlow", 600, "warning", _receipts_slow),
    Rule("BridgeLagGrowing", 600, "warning", Numbers.growing),
    Rule("BridgeGroupStuck", 300, "warning", lambda numbers: numbers.stopped(with_members=True)),
    Rule("BridgeGroupWithoutMembers", 300, "warning", lambda numbers: numbers.stopped(with_members=False)),
    Rule("BridgeLagUnknown", 600, "warning", Numbers.unknown),
    Rule("BridgeMemoryNearLimit", 600, "warning", _memory),
    Rule("BridgeCertificateEnding", 600, "warning", _certificates),
    Rule("BridgePulsarTokenEnding", 600, "warning", _tokens),
    Rule("BridgeNodeMissing", 300, "warning", _node_missing),
    Rule("BridgeEntriesCorrupt", 0, "warning", _corrupt),
    Rule("BridgeRefusesClients", 600, "warning", _refuses),
    Rule(
        "BridgeTransactionOverdue", 120, "warning",
        _above(lambda all_: all_.transactions, "bridge_transactions_overdue", 0, "{:.0f} transactions are overdue"),
    ),
    Rule(
        "BridgeStableOffsetHeld", 60, "warning",
        _above(
            lambda all_: all_.storage, "bridge_topic_stable_offset_held_seconds", 1200,
            "a transaction has held back readers for {:.0f} s",
        ),
    ),
    Rule(
        "BridgeTransactionTableOld", 120, "warning",
        _above(
            lambda all_: all_.transactions, "bridge_transactions_table_age_seconds", 10,
            "what has become of transactions in the last {:.0f} s may be missing",
        ),
    ),
    Rule(
        "BridgeTransactionalIdClosed", 60, "warning",
        _above(
            lambda all_: all_.transactions, "bridge_transactions_closed_seconds", 60,
            "the outcome of a write is waited for since {:.0f} s",
        ),
    ),
)  # fmt: skip


class Alerts:
    """Which rules hold, and since when."""

    def __init__(
        self, metrics: "Metrics", clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._numbers = Numbers(metrics)
        self._clock, self._wall = clock, wall
        self._held: dict[tuple[str, str], tuple[float, str]] = {}
        """By rule and name: since when, and what is told."""
        self._firing: list[Firing] = []

    def look(self) -> None:
        """Look at the numbers of now."""
        now, numbers = self._clock(), self._numbers
        numbers.look(now, self._wall())
        held, firing = {}, []
        for rule in RULES:
            for what, text in rule.holds(numbers):
                key = rule.name, what
                since, _ = self._held.get(key, (now, ""))
                held[key] = since, text
                if now - since >= rule.seconds:
                    told = f"{what}: {text}" if what else text
                    firing.append(Firing(rule.name, rule.severity, told, numbers.wall - (now - since)))
        self._held = held
        self._firing = sorted(firing, key=lambda one: (one.severity != "critical", one.since))

    def firing(self) -> list[Firing]:
        """Those that had held for as long as their rules say when they were looked at, the critical ones first."""
        return self._firing
