"""The topics that this node knows: how large their logs are, and how fast they grow."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bridge.cluster.membership.view import NO_NODE
from bridge.http.status.table import Row, cut
from bridge.runtime.futures import in_turns, loop_time
from bridge.storage.topics.topic import Topic
from bridge.telemetry.traffic import Traffic

if TYPE_CHECKING:
    from bridge.cluster.cluster import ClusterSnapshot
    from bridge.http.status.sources import ObservedNode

COLUMNS: Final = (
    "name", "partitions", "led", "open", "records", "rate", "in_rate", "out_rate", "bytes_in", "bytes_out",
)  # fmt: skip
_FORGOTTEN_SECONDS: Final = 60.0
"""A rate is no mean over more than this: the page was not looked at."""


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


async def rows(node: "ObservedNode", growth: Growth) -> list[Row]:
    """One row for each topic."""
    growth.begin(loop_time())
    known = node.cluster
    snapshot = None if known is None else known.snapshot
    node_id = NO_NODE if known is None else known.node_id
    made: list[Row] = []
    for services in node.services():
        prefix = "" if services.is_own else services.name + "/"
        async for topic in in_turns(list(services.topics.known())):
            name = prefix + topic.name
            led = None if snapshot is None else snapshot.count_led(node_id, topic.name, topic.partitions)
            made.append(_row(topic, name, led, node.metrics.topics.find(name), growth))
    return made


def _row(topic: Topic, name: str, led: int | None, traffic: Traffic | None, growth: Growth) -> Row:
    ends = records = counted = 0
    for log in topic.logs.values():
        end = log.known_end
        if end is not None:
            counted += 1
            ends += end
            records += max(0, end - log.known_start)
    written, read = (0, 0) if traffic is None else (traffic.bytes_in, traffic.bytes_out)
    rate, in_rate, out_rate, found = growth.rates(name, ends, written, read, counted)
    return {
        "name": name,
        "partitions": topic.partitions,
        "led": led,
        "open": len(topic.logs),
        "records": records if counted else None,
        "rate": rate if counted and found == 0 else None,  # the end of a log that becomes known is no growth
        "in_rate": None if traffic is None else in_rate,
        "out_rate": None if traffic is None else out_rate,
        "bytes_in": None if traffic is None else written,
        "bytes_out": None if traffic is None else read,
    }


def detail(node: "ObservedNode", name: str, page: int) -> Mapping[str, object] | None:
    """Some of a topic's partitions; None where this node does not know it."""
    topic = _find(node, name)
    if topic is None:
        return None
    snapshot = None if node.cluster is None else node.cluster.snapshot
    numbers = cut([{"partition": number} for number in range(topic.partitions)], page)
    return {
        "partitions": [_partition(topic, int(row["partition"] or 0), snapshot) for row in numbers.rows],
        "page": numbers.page,
        "pages": numbers.pages,
    }


def _find(node: "ObservedNode", name: str) -> Topic | None:
    namespace, _, local = name.rpartition("/")
    for services in node.services():
        if (services.is_own and not namespace) or services.name == namespace:
            return next((one for one in services.topics.known() if one.name == local), None)
    return None


def _partition(topic: Topic, number: int, snapshot: "ClusterSnapshot | None") -> Row:
    log = topic.logs.get(number)
    end = None if log is None else log.known_end
    leader = NO_NODE if snapshot is None else snapshot.leader(topic.name, number).owner
    return {
        "partition": number,
        "leader": None if leader == NO_NODE else leader,
        "start": None if log is None or end is None else log.known_start,
        "end": end,
        "records": None if log is None or end is None else max(0, end - log.known_start),
        "followed": log is not None and log.is_followed,
    }
