"""The groups that this node coordinates: their state, their members, and how far they are behind."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bridge.futures import in_turns
from bridge.groups.store.records import StoredOffset
from bridge.status.table import Row, cut

if TYPE_CHECKING:
    from bridge.status.sources import Node, Services

COLUMNS: Final = ("name", "protocol", "state", "members", "generation", "partitions", "lag", "behind")
_MOST_MEMBERS: Final = 100
"""Of one group, in its details."""


async def rows(node: "Node") -> list[Row]:
    """One row for each group."""
    behind: dict[tuple[str, str], float] = {}
    async for lag in in_turns(node.metrics.groups.lags):
        if lag.seconds is not None:
            key = lag.topic.rpartition("/")[0], lag.group
            behind[key] = max(behind.get(key, 0.0), lag.seconds)
    made: list[Row] = []
    for services in list(node.services()):
        namespace = "" if services.is_own else services.name
        groups = services.groups.in_memory
        async for name in in_turns(dict.fromkeys((*groups.names(), *services.store.groups()))):
            summary = groups.summary(name)
            partitions, lag_ = await _lag(services, name)
            made.append({
                "name": f"{namespace}/{name}" if namespace else name,
                "protocol": summary.protocol,
                "state": summary.state,
                "members": summary.members,
                "generation": summary.generation,
                "partitions": partitions,
                "lag": lag_,
                "behind": behind.get((namespace, name)),
            })  # fmt: skip
    return made


async def _lag(services: "Services", group_id: str) -> tuple[int, int | None]:
    """How many partitions the group has offsets for, and the records after those, where an end is known."""
    offsets = list(services.store.stored(group_id).items())
    lag: int | None = None
    opened = services.topics.opened
    async for (topic, number), stored in in_turns(offsets):
        log = opened(topic, number)
        end = None if log is None else log.known_end
        if end is not None:
            lag = (lag or 0) + max(0, end - stored.offset)
    return len(offsets), lag


def detail(node: "Node", name: str, page: int) -> Mapping[str, object] | None:
    """A group's members and some of its partitions; None where this node does not coordinate it."""
    services, group_id = _find(node, name)
    if services is None:
        return None
    offsets = services.store.stored(group_id)
    groups = services.groups.in_memory
    summary = groups.summary(group_id)
    if summary.protocol == "offsets" and not offsets:
        return None
    members = groups.members(group_id)
    keys = cut([{"topic": topic, "partition": number} for topic, number in sorted(offsets)], page)
    where = [(str(row["topic"]), int(row["partition"] or 0)) for row in keys.rows]
    return {
        "state": summary.state,
        "protocol": summary.protocol,
        "members": [one._asdict() for one in members[:_MOST_MEMBERS]],
        "partitions": [_partition(services, *key, offsets[key]) for key in where],
        "page": keys.page,
        "pages": keys.pages,
        "left_out": max(0, len(members) - _MOST_MEMBERS),
    }


def _find(node: "Node", name: str) -> "tuple[Services | None, str]":
    """The longest namespace that the name begins with; a group's own name may have slashes."""
    others = [one for one in node.services() if not one.is_own and name.startswith(one.name + "/")]
    if others:
        found = max(others, key=lambda one: len(one.name))
        return found, name.removeprefix(found.name + "/")
    return next((one for one in node.services() if one.is_own), None), name


def _partition(services: "Services", topic: str, number: int, stored: StoredOffset) -> Row:
    log = services.topics.opened(topic, number)
    end = None if log is None else log.known_end
    published = None if log is None or end is None or end <= stored.offset else log.published_at(stored.offset)
    return {
        "topic": topic,
        "partition": number,
        "committed": stored.offset,
        "end": end,
        "lag": None if end is None else max(0, end - stored.offset),
        "next_at": None if published is None else published / 1000,
        "committed_at": stored.committed_at_ms / 1000,
    }
