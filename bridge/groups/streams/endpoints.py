"""Where each partition can be asked for by interactive queries (Kafka's EndpointToPartitionsManager).

Kafka tells each member by itself; its clients take the last one of each endpoint, and so lose the tasks of all threads
of a process but one (StreamsGroupHeartbeatRequestManager.convertHostInfoMap). Here the members of an endpoint are one.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from bridge.groups.streams.model import Endpoint, StreamsMember, Task, Topology
from bridge.groups.streams.topology import PartitionsOf

_Partitions: TypeAlias = Mapping[str, tuple[int, ...]]


class EndpointPartitions(NamedTuple):
    """What the members of one endpoint have, by topic; only topics that they have partitions of."""

    endpoint: Endpoint
    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]


def partitions_by_endpoint(
    members: Iterable[StreamsMember], topology: Topology, partitions_of: PartitionsOf
) -> list[EndpointPartitions]:
    """For each endpoint, the partitions of the topics that its members' tasks read."""
    sources = {one.id: one.sources for one in topology.subtopologies}
    sizes = {name: partitions_of(name) or 0 for names in sources.values() for name in names}
    active: dict[Endpoint, set[Task]] = {}
    standby: dict[Endpoint, set[Task]] = {}
    for member in members:
        if member.endpoint is not None:
            active.setdefault(member.endpoint, set()).update(member.assigned.active)
            standby.setdefault(member.endpoint, set()).update(member.assigned.standby)

    def partitions(tasks: Iterable[Task]) -> _Partitions:
        found: dict[str, set[int]] = {}
        for task in tasks:
            for name in sources.get(task.subtopology, ()):
                if task.partition < sizes[name]:
                    found.setdefault(name, set()).add(task.partition)
        return {name: tuple(sorted(numbers)) for name, numbers in sorted(found.items())}

    return [EndpointPartitions(one, partitions(active[one]), partitions(standby[one])) for one in sorted(active)]
