"""The topics of the cluster: all that Pulsar has, their leaders, their sizes, how fast they grow, and who reads them.

Each node knows the ends of the partitions that it leads and serves, and what its groups read. `own_rows` and
`own_detail` are of one node. `Catalogue` puts all nodes' together with the list of Pulsar. What no node knows of a
topic that is shown, Pulsar is asked, in the background and seldom.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bridge.cluster.membership.view import NO_NODE
from bridge.errors import BridgeError
from bridge.http.status.groups import GroupLags
from bridge.http.status.lately import Lately
from bridge.http.status.table import MOST_SECONDS, Row, Value, cut
from bridge.runtime.futures import gathered, in_chunks, in_turns, loop_time
from bridge.storage.topics.configs import ConfigSource
from bridge.storage.topics.topic import Topic

if TYPE_CHECKING:
    from bridge.cluster.cluster import ClusterSnapshot
    from bridge.http.status.sources import ObservedNode, Services

OWN_COLUMNS: Final = (
    "name", "partitions", "counted", "records", "rate", "in_rate", "out_rate", "bytes_in", "bytes_out", "groups",
)  # fmt: skip
COLUMNS: Final = (
    "name", "partitions", "records", "rate", "groups", "in_rate", "out_rate", "bytes_in", "bytes_out",
)  # fmt: skip
_FORGOTTEN_SECONDS: Final = 4 * MOST_SECONDS
"""A rate is no mean over more than this: the page was not looked at. Where the tables of two nodes are made as seldom
as can be, one look follows the other after little more than half of it."""
_NAMES_SECONDS: Final = 30.0
_NAMES_PATIENCE: Final = 5.0
"""For so long the first list is waited for: without it there is no saying which topics there are."""
_FACTS_SECONDS: Final = 120.0
"""Sizes, configs and numbers of partitions that Pulsar was asked are shown for so long."""
_ENDS_SECONDS: Final = 30.0
_SUMS: Final = ("counted", "records", "rate", "in_rate", "out_rate", "bytes_in", "bytes_out", "groups")
_MOST_READERS: Final = 100


class Growth:
    """How fast numbers grow: what each topic's were when it was last looked at."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, ...]] = {}
        self._at = float("-inf")
        self._now: dict[str, tuple[int, ...]] = {}
        self._seconds = 0.0

    def begin(self, now: float) -> None:
        """Begin a look."""
        self._seconds, self._at = now - self._at, now
        self._before, self._now = self._now, {}

    def rates(self, name: str, *amounts: int) -> tuple[float | None, ...]:
        """How much was added a second since the last look; None where that is not known."""
        self._now[name] = amounts
        before = self._before.get(name)
        if before is None or not 0 < self._seconds <= _FORGOTTEN_SECONDS:
            return (None,) * len(amounts)
        return tuple((new - old) / self._seconds if new >= old else None
                     for old, new in zip(before, amounts, strict=True))  # fmt: skip


# ---- of one node -----------------------------------------------------------------------------------------------------


async def own_rows(node: "ObservedNode", growth: Growth, lags: GroupLags) -> list[Row]:
    """One row for each topic of which this node has numbers: of the partitions that it leads, and of its own groups."""
    growth.begin(loop_time())
    made: dict[str, Row] = {}
    for services in node.services():
        prefix = "" if services.is_own else services.name + "/"
        # those with nothing to tell are passed over in few turns: on a machine that is full each may be long
        told: list[Topic] = []
        async for some in in_chunks(list(services.topics.known())):
            told += [one for one in some if one.logs or node.metrics.topics.find(prefix + one.name)]
        async for topic in in_turns(told):
            row = _own_row(topic, prefix + topic.name, node, growth)
            if row is not None:
                made[prefix + topic.name] = row
    for name, readers in lags.readers.items():
        made[name] = {**made.get(name, {"name": name}), "groups": len(readers)}
    return list(made.values())


def _own_row(topic: Topic, name: str, node: "ObservedNode", growth: Growth) -> Row | None:
    """None where this node has nothing to tell of a topic."""
    traffic = node.metrics.topics.find(name)
    if not topic.logs and traffic is None:
        return None
    ends = records = counted = 0
    for number, log in topic.logs.items():
        end = log.known_end
        if end is not None and _leads(node, topic.name, number):
            counted += 1
            ends += end
            records += max(0, end - log.known_start)
    written, read = (0, 0) if traffic is None else (traffic.bytes_in, traffic.bytes_out)
    rate, in_rate, out_rate, found = growth.rates(name, ends, written, read, counted)
    return {
        "name": name,
        "partitions": topic.partitions,
        "counted": counted,
        "records": records if counted else None,
        "rate": rate if counted and found == 0 else None,  # the end of a log that becomes known is no growth
        "in_rate": None if traffic is None else in_rate,
        "out_rate": None if traffic is None else out_rate,
        "bytes_in": None if traffic is None else written,
        "bytes_out": None if traffic is None else read,
    }


def _leads(node: "ObservedNode", topic: str, partition: int) -> bool:
    return node.cluster is None or node.cluster.snapshot.leads(node.cluster.node_id, topic, partition)


def own_detail(node: "ObservedNode", name: str, lags: GroupLags) -> Mapping[str, object]:
    """What this node knows of a topic: where the logs begin and end that it leads, and which of its groups read it."""
    services, local = find(node, name)
    topic = None if services is None else _known(services, local)
    logs = {} if topic is None else topic.logs
    return {
        "logs": [
            [number, log.known_start, log.known_end]
            for number, log in sorted(logs.items())
            if log.known_end is not None and _leads(node, local, number)
        ],
        "readers": sorted(lags.readers.get(name, {}).items(), key=lambda one: -(one[1] or 0))[:_MOST_READERS],
    }


def find(node: "ObservedNode", name: str) -> "tuple[Services | None, str]":
    """The namespace that a name begins with, and the rest of it: no topic's own name has a slash."""
    namespace, _, local = name.rpartition("/")
    found = (one for one in node.services() if (one.is_own and not namespace) or one.name == namespace)
    return next(found, None), local


def _known(services: "Services", name: str) -> Topic | None:
    return next((one for one in services.topics.known() if one.name == name), None)


# ---- of all nodes ----------------------------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """Where a partition's log begins and ends."""

    start: int
    end: int


class Facts(NamedTuple):
    """What Pulsar was asked of one topic."""

    partitions: int
    sizes: tuple[int, ...]
    """Stored bytes of each partition."""


class Catalogue:
    """All topics, as all nodes and Pulsar know them."""

    def __init__(self, node: "ObservedNode", on_first: Callable[[], None] = lambda: None) -> None:
        """`on_first` is called when the first list of all topics has come."""
        self._node = node
        self._on_first = on_first
        self._names: dict[str, Sequence[str]] = {}
        """Those of each namespace that has told them, by what they begin with."""
        self._named_at = float("-inf")
        self._naming: asyncio.Task[None] | None = None
        self._counted_in: ClusterSnapshot | None = None
        self._counted: dict[tuple[str, int], str] = {}
        """The leaders of topics that were shown, in this snapshot."""
        self._facts = Lately(self._ask_facts, _FACTS_SECONDS)
        self._configs = Lately(self._ask_configs, _FACTS_SECONDS)
        self._bounds = Lately(self._ask_bounds, _ENDS_SECONDS)

    def close(self) -> None:
        """Ask Pulsar nothing any more."""
        for one in (self._facts, self._configs, self._bounds):
            one.close()
        if self._naming is not None:
            self._naming.cancel()

    @property
    def count(self) -> int | None:
        """How many topics there are; None before Pulsar has told."""
        return sum(map(len, self._names.values())) if self._names else None

    async def refresh(self, patience: float | None = None) -> None:
        """Have the list of all topics asked where it is old; wait for the first, for a limited time."""
        if self._naming is None and loop_time() - self._named_at > _NAMES_SECONDS:
            self._naming = asyncio.get_running_loop().create_task(self._ask_names(), name="status page lists topics")
        if self._naming is not None and not self._names:
            await asyncio.wait((self._naming,), timeout=_NAMES_PATIENCE if patience is None else patience)

    async def rows(self, told: Iterable[Iterable[Mapping[str, Any]]]) -> list[Row]:
        """One row for each topic; `told`: the rows of each node."""
        made: dict[str, dict[str, Value]] = {}
        async for names in in_chunks([name for of_one in self._names.values() for name in of_one]):
            made.update((name, {"name": name, **_NOTHING}) for name in names)
        async for some in in_chunks([row for rows in told for row in rows]):
            for row in some:
                _add(made.setdefault(row["name"], {"name": row["name"], **_NOTHING}), row)
        return list(made.values())

    def finish(self, row: Row) -> Row:
        """A row that is shown: its leaders and its size, too."""
        name = str(row["name"])
        _, local = find(self._node, name)
        facts = self._facts.look(name)
        partitions = int(row["partitions"] or 0) or (0 if facts is None else facts.partitions)
        return {
            **row,
            "partitions": partitions or None,
            "leaders": self._leaders(local, partitions),
            "size": None if facts is None else sum(facts.sizes),
        }

    def detail(self, name: str, page: int, told: Iterable[Mapping[str, Any]]) -> Mapping[str, object] | None:
        """Some of a topic's partitions, its configs and its readers; None where there is no such topic. `told`: what
        each node knows of it (`own_detail`)."""
        services, local = find(self._node, name)
        topic = None if services is None else _known(services, local)
        facts = self._facts.look(name)
        partitions = topic.partitions if topic is not None else 0 if facts is None else facts.partitions
        if not partitions and not any(name in names for names in self._names.values()):
            return None
        told = list(told)
        logs = {number: Bounds(start, end) for one in told for number, start, end in one["logs"]}
        readers = [{"group": group, "lag": lag} for one in told for group, lag in one["readers"]]
        cluster = self._node.cluster
        snapshot = None if cluster is None else cluster.snapshot
        numbers = cut([{"partition": number} for number in range(partitions)], page)
        sizes = () if facts is None else facts.sizes
        shown = [int(row["partition"] or 0) for row in numbers.rows]
        return {
            "partitions": [
                _partition(local, number, logs.get(number) or self._bounds.look((name, number)), sizes, snapshot)
                for number in shown
            ],
            "configs": self._configs.look(name) or [],
            "readers": sorted(readers, key=lambda one: -(one["lag"] or 0))[:_MOST_READERS],
            "page": numbers.page,
            "pages": numbers.pages,
        }

    def _leaders(self, topic: str, partitions: int) -> str | None:
        """Which node is the leader of how many partitions: `0: 2, 1: 1`."""
        cluster = self._node.cluster
        if cluster is None or not partitions:
            return None
        if self._counted_in is not cluster.snapshot:
            self._counted_in, self._counted = cluster.snapshot, {}
        found = self._counted.get((topic, partitions))
        if found is None:
            owners = Counter(cluster.snapshot.leader(topic, number).owner for number in range(partitions))
            found = ", ".join(f"{'none' if one == NO_NODE else one}: {led}" for one, led in sorted(owners.items()))
            self._counted[topic, partitions] = found
        return found

    # ---- what Pulsar is asked ----------------------------------------------------------------------------------------

    async def _ask_names(self) -> None:
        try:
            opened = {"" if one.is_own else one.name + "/": one for one in self._node.services()}
            found = await gathered(_names(prefix, one) for prefix, one in opened.items())
            # of a namespace that does not tell them the last ones are shown
            told = {prefix: names for prefix, names in zip(opened, found, strict=True) if names is not None}
            is_first = not self._names
            self._names = {prefix: names for prefix, names in self._names.items() if prefix in opened} | told
            if is_first and told:
                self._on_first()
        finally:
            self._named_at, self._naming = loop_time(), None

    async def _topic(self, name: str) -> "tuple[Services, Topic] | None":
        services, local = find(self._node, name)
        if services is None:
            return None
        topic = _known(services, local) or await services.topics.get(local)
        return None if topic is None else (services, topic)

    async def _ask_facts(self, name: str) -> Facts | None:
        found = await self._topic(name)
        if found is None:
            return None
        services, topic = found
        return Facts(topic.partitions, tuple(await services.topics.administration.sizes(topic)))

    async def _ask_configs(self, name: str) -> list[Row]:
        found = await self._topic(name)
        if found is None:
            return []
        services, topic = found
        return [
            {"name": one.name, "value": one.value, "own": one.source == ConfigSource.TOPIC}
            for one in await services.topics.administration.describe(topic)
        ]

    async def _ask_bounds(self, where: tuple[str, int]) -> Bounds | None:
        name, number = where
        services, local = find(self._node, name)
        if services is None:
            return None
        end = await services.closed_logs.end(local, number)
        return None if end is None else Bounds(await services.closed_logs.start(local, number, end), end.offset)


async def _names(prefix: str, services: "Services") -> list[str] | None:
    """All topics of a namespace; None where Pulsar does not tell them."""
    try:
        return [prefix + name for name in await services.topics.names()]
    except (BridgeError, OSError):
        return None


_NOTHING: Final[Mapping[str, None]] = dict.fromkeys((*COLUMNS[1:], "counted"))


def _add(into: dict[str, Value], row: Mapping[str, Any]) -> None:
    """Add what one node tells of a topic to what the others do."""
    into["partitions"] = max(int(row.get("partitions") or 0), int(into["partitions"] or 0)) or None
    for column in _SUMS:
        value = row.get(column)
        if value is not None:
            before = into[column]
            into[column] = value if not isinstance(before, int | float) else before + value


def _partition(
    topic: str, number: int, bounds: Bounds | None, sizes: tuple[int, ...], snapshot: "ClusterSnapshot | None"
) -> Row:
    leader = NO_NODE if snapshot is None else snapshot.leader(topic, number).owner
    return {
        "partition": number,
        "leader": None if leader == NO_NODE else leader,
        "start": None if bounds is None else bounds.start,
        "end": None if bounds is None else bounds.end,
        "records": None if bounds is None else max(0, bounds.end - bounds.start),
        "size": sizes[number] if number < len(sizes) else None,
    }
