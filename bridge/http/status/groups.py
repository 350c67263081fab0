"""The groups of the cluster: their state, their members and what each has, how far they are behind, worst first.

Each node knows those that it coordinates. `own_rows` and `detail` are of one node; `rows` puts all nodes' together.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from bridge.groups.store.records import StoredOffset
from bridge.groups.store.visible import TopicPartition
from bridge.groups.summary import OFFSETS, Assigned
from bridge.http.status.history import LagHistory
from bridge.http.status.table import Row, cut
from bridge.runtime.futures import in_turns

if TYPE_CHECKING:
    from bridge.http.status.sources import ObservedNode, Services

COLUMNS: Final = ("name", "protocol", "state", "members", "generation", "partitions", "lag", "behind", "node")
_MOST_MEMBERS: Final = 100
"""Of one group, in its details."""
_MOST_SHARING: Final = 5
"""Members that have one partition together, by name."""
_MOST_ASSIGNED: Final = 500
"""Characters of what one member has."""


class GroupLags:
    """The groups that read each topic, with their lag in it: as they were when the groups were looked at last."""

    def __init__(self) -> None:
        self.readers: Mapping[str, Mapping[str, int | None]] = {}


async def own_rows(node: "ObservedNode", history: LagHistory, lags: GroupLags) -> list[Row]:
    """One row for each group that this node coordinates."""
    made: list[Row] = []
    readers: dict[str, dict[str, int | None]] = {}
    for services in list(node.services()):
        namespace = "" if services.is_own else services.name + "/"
        groups = services.groups.in_memory
        async for name in in_turns(dict.fromkeys((*groups.names(), *services.store.groups()))):
            summary = groups.summary(name)
            by_topic: dict[str, int | None] = {}
            lag = await _lag(services, name, by_topic)
            for topic, records in by_topic.items():
                readers.setdefault(namespace + topic, {})[namespace + name] = records
            made.append({
                "name": namespace + name,
                "protocol": summary.protocol,
                "state": summary.state,
                "members": summary.members,
                "generation": summary.generation,
                "trend": history.trend("" if services.is_own else services.name, name),
                **lag,
            })  # fmt: skip
    lags.readers = readers
    return made


async def _lag(services: "Services", group_id: str, by_topic: dict[str, int | None] | None = None) -> Row:
    """The records after what the group has committed, and the age of the oldest: of the partitions where it is known.

    `unknown` is the number of the others, of which nothing is in `lag`. `at_least`: `behind` may be more. `by_topic`
    gets the lag in each topic; None where it is known of no partition.
    """
    offsets = list(services.store.stored(group_id).items())
    records: list[int] = []
    behind: list[float] = []
    unknown, at_least = 0, False
    async for where, stored in in_turns(offsets):
        lag = services.lag.lag(group_id, where, stored.offset)
        if lag is None:  # there is no such partition any more
            continue
        known = None if lag.records is None else max(0, lag.records)
        if known is None:
            unknown += 1
        else:
            records.append(known)
        if by_topic is not None:
            before = by_topic.get(where[0])
            by_topic[where[0]] = before if known is None else known + (before or 0)
        if lag.seconds is None:
            at_least = True
        else:
            behind.append(lag.seconds)
    oldest = max(behind, default=None)
    return {
        "partitions": len(offsets),
        "lag": sum(records) if records else None,
        "unknown": unknown,
        "behind": None if at_least and not oldest else oldest,
        "at_least": at_least,
    }


def detail(node: "ObservedNode", name: str, page: int, history: LagHistory) -> Mapping[str, object] | None:
    """A group's members and some of its partitions; None where this node does not coordinate it."""
    services, group_id = _find(node, name)
    if services is None:
        return None
    offsets = services.store.stored(group_id)
    groups = services.groups.in_memory
    summary = groups.summary(group_id)
    if summary.protocol == OFFSETS and not offsets:
        return None
    members = groups.members(group_id)
    assigned = groups.assigned(group_id)
    clients = {one.id: one.client_id or one.id for one in members}
    having: dict[TopicPartition, list[str]] = {}
    for member, has in assigned.items():
        for where in has.partitions:  # of a share group several have one
            having.setdefault(where, []).append(clients.get(member, member))
    keys = cut([{"topic": topic, "partition": number} for topic, number in sorted({*offsets, *having})], page)
    shown = [(str(row["topic"]), int(row["partition"] or 0)) for row in keys.rows]
    return {
        "state": summary.state,
        "protocol": summary.protocol,
        "members": [
            {**one._asdict(), "assigned": told(assigned.get(one.id, Assigned()))} for one in members[:_MOST_MEMBERS]
        ],
        "partitions": [
            {
                **_partition(services, group_id, *where, offsets.get(where)),
                "member": ", ".join(having.get(where, ())[:_MOST_SHARING]) or None,
            }
            for where in shown
        ],
        "page": keys.page,
        "pages": keys.pages,
        "left_out": max(0, len(members) - _MOST_MEMBERS),
        "history": history.points("" if services.is_own else services.name, group_id),
    }


def told(assigned: Assigned) -> str:
    """What a member has, in words: `orders 0-3, 7; payments 1`."""
    parts = [f"{topic} {_ranges(number for _, number in of)}" for topic, of in groupby(assigned.partitions, _topic_of)]
    if assigned.standby:
        parts.append(f"standby tasks {', '.join(assigned.standby)}")
    text = "; ".join(parts)
    return text if len(text) <= _MOST_ASSIGNED else text[: _MOST_ASSIGNED - 1] + "…"


def _topic_of(where: TopicPartition) -> str:
    return where[0]


def _ranges(numbers: Iterable[int]) -> str:
    """Numbers in order, those that follow each other as one range."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    return ", ".join("-".join(map(str, one)) for one in found)


def _find(node: "ObservedNode", name: str) -> "tuple[Services | None, str]":
    """The longest namespace that the name begins with; a group's own name may have slashes."""
    others = [one for one in node.services() if not one.is_own and name.startswith(one.name + "/")]
    if others:
        found = max(others, key=lambda one: len(one.name))
        return found, name.removeprefix(found.name + "/")
    return next((one for one in node.services() if one.is_own), None), name


def _partition(services: "Services", group_id: str, topic: str, number: int, stored: StoredOffset | None) -> Row:
    if stored is None:  # a member has it, and has committed nothing
        return {"topic": topic, "partition": number, "committed": None}
    lag = services.lag.lag(group_id, (topic, number), stored.offset)
    return {
        "topic": topic,
        "partition": number,
        "committed": stored.offset,
        "end": None if lag is None else lag.end,
        "lag": None if lag is None else lag.records,
        "behind": None if lag is None else lag.seconds,
        "committed_at": stored.committed_at_ms / 1000,
    }


def worst(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row of the largest lag; None where no group is behind."""
    behind = [row for row in rows if row.get("lag")]
    return max(behind, key=lambda row: int(row["lag"]), default=None)
