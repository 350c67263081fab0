"""The topics that this node knows: how large their logs are, and how fast they grow."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bridge.cluster.view import NO_NODE
from bridge.futures import in_turns, loop_time
from bridge.status.table import Row, cut
from bridge.storage.topics.topic import Topic

if TYPE_CHECKING:
    from bridge.cluster.cluster import ClusterSnapshot
    from bridge.status.sources import Node

COLUMNS: Final = (
    "name", "partitions", "led", "open", "records", "rate", "in_rate", "out_rate", "bytes_in", "bytes_out",
)  # fmt: skip
_FORGOTTEN_SECONDS: Final = 60.0
"""A rate is no mean over more than this: the page was not looked at."""


class Growth:
    """How fast logs grow: where each topic's ended when it was last looked at."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, int]] = {}
        self._at = float("-inf")
        self._now: dict[str, tuple[int, int]] = {}

    def note(self, name: str, ends: int, counted: int, seconds: float) -> float | None:
        """The sum of the ends of so many partitions now; records a second since the last look, None if unknown."""
        self._now[name] = ends, counted
        before = self._before.get(name)
        if before is None or before[1] != counted or not 0 < seconds <= _FORGOTTEN_SECONDS or ends < before[0]:
            return None
        return (ends - before[0]) / seconds

    def begin(self, now: float) -> float:
        """Begin a look; the seconds since the last one."""
        seconds, self._at = now - self._at, now
        self._before, self._now = self._now, {}
        return seconds


async def rows(node: "Node", growth: Growth) -> list[Row]:
    """One row for each topic."""
    seconds = growth.begin(loop_time())
    known = node.cluster
    snapshot = None if known is None else known.snapshot
    node_id = NO_NODE if known is None else known.node_id
    made: list[Row] = []
    for services in node.services():
        prefix = "" if services.is_own else services.name + "/"
        async for topic in in_turns(list(services.topics.known())):
            made.append(_row(topic, prefix, snapshot, node_id, growth, seconds))
    return made


def _row(
    topic: Topic, prefix: str, snapshot: "ClusterSnapshot | None", node_id: int, growth: Growth, seconds: float
) -> Row:
    name = prefix + topic.name
    ends = records = counted = 0
    for log in topic.logs.values():
        end = log.known_end
        if end is not None:
            counted += 1
            ends += end
            records += max(0, end - log.known_start)
    return {
        "name": name,
        "partitions": topic.partitions,
        "led": None if snapshot is None else snapshot.count_led(node_id, topic.name, topic.partitions),
        "open": len(topic.logs),
        "records": records if counted else None,
        "rate": growth.note(name, ends, counted, seconds) if counted else None,
        "in_rate": None,
        "out_rate": None,
        "bytes_in": None,
        "bytes_out": None,
    }


def detail(node: "Node", name: str, page: int) -> Mapping[str, object] | None:
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


def _find(node: "Node", name: str) -> Topic | None:
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
