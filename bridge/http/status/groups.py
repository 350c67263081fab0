"""The groups that this node coordinates: their state, their members, and how far they are behind."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bridge.groups.store.records import StoredOffset
from bridge.groups.summary import OFFSETS
from bridge.http.status.table import Row, cut
from bridge.runtime.futures import in_turns

if TYPE_CHECKING:
    from bridge.http.status.sources import ObservedNode, Services

COLUMNS: Final = ("name", "protocol", "state", "members", "generation", "partitions", "lag", "behind")
_MOST_MEMBERS: Final = 100
"""Of one group, in its details."""


async def rows(node: "ObservedNode") -> list[Row]:
    """One row for each group."""
    made: list[Row] = []
    for services in list(node.services()):
        namespace = "" if services.is_own else services.name
        groups = services.groups.in_memory
        async for name in in_turns(dict.fromkeys((*groups.names(), *services.store.groups()))):
            summary = groups.summary(name)
            made.append({
                "name": f"{namespace}/{name}" if namespace else name,
                "protocol": summary.protocol,
                "state": summary.state,
                "members": summary.members,
                "generation": summary.generation,
                **await _lag(services, name),
            })  # fmt: skip
    return made


async def _lag(services: "Services", group_id: str) -> Row:
    """The records after what the group has committed, and the age of the oldest: of the partitions where it is known.

    `unknown` is the number of the others, of which nothing is in `lag`. `at_least`: `behind` may be more.
    """
    offsets = list(services.store.stored(group_id).items())
    records: list[int] = []
    behind: list[float] = []
    unknown, at_least = 0, False
    async for where, stored in in_turns(offsets):
        lag = services.lag.lag(group_id, where, stored.offset)
        if lag is None:  # there is no such partition any more
            continue
        if lag.records is None:
            unknown += 1
        else:
            records.append(max(0, lag.records))
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


def detail(node: "ObservedNode", name: str, page: int) -> Mapping[str, object] | None:
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
    keys = cut([{"topic": topic, "partition": number} for topic, number in sorted(offsets)], page)
    where = [(str(row["topic"]), int(row["partition"] or 0)) for row in keys.rows]
    return {
        "state": summary.state,
        "protocol": summary.protocol,
        "members": [one._asdict() for one in members[:_MOST_MEMBERS]],
        "partitions": [_partition(services, group_id, *key, offsets[key]) for key in where],
        "page": keys.page,
        "pages": keys.pages,
        "left_out": max(0, len(members) - _MOST_MEMBERS),
    }


def _find(node: "ObservedNode", name: str) -> "tuple[Services | None, str]":
    """The longest namespace that the name begins with; a group's own name may have slashes."""
    others = [one for one in node.services() if not one.is_own and name.startswith(one.name + "/")]
    if others:
        found = max(others, key=lambda one: len(one.name))
        return found, name.removeprefix(found.name + "/")
    return next((one for one in node.services() if one.is_own), None), name


def _partition(services: "Services", group_id: str, topic: str, number: int, stored: StoredOffset) -> Row:
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
