"""Where each partition can be asked for by interactive queries (Kafka's EndpointToPartitionsManager).

Kafka tells each member by itself; its clients take the last one of each endpoint, and so lose the tasks of all threads
of a process but one (StreamsGroupHeartbeatRequestManager.convertHostInfoMap). Here the members of an endpoint are one.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bridge.groups.streams.model import Endpoint, StreamsMember, Task, Topology
from bridge.groups.streams.topology import PartitionsOf


class EndpointPartitions(NamedTuple):
    """What the members of one endpoint have, by topic; only topics that they have partitions of."""

    endpoint: Endpoint
    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]


def partitions_by_endpoint(
    members: Iterable[StreamsMember], topology: Topology, partitions_of: PartitionsOf
) -> list[EndpointPartitions]:
    """For each endpoint, the partitions of the topics that its members' tasks read.

    It takes as long as the answer is large, not tasks times topics: both may be tens of thousands.
    """
    sizes = {name: partitions_of(name) or 0 for one in topology.subtopologies for name in one.sources}
    largest_first = {
        one.id: sorted(set(one.sources), key=sizes.__getitem__, reverse=True) for one in topology.subtopologies
    }
    active: dict[Endpoint, set[Task]] = {}
    standby: dict[Endpoint, set[Task]] = {}
    for member in members:
        if member.endpoint is not None:
            active.setdefault(member.endpoint, set()).update(member.assigned.active)
            standby.setdefault(member.endpoint, set()).update(member.assigned.standby)

    def partitions(tasks: Iterable[Task]) -> Mapping[str, tuple[int, ...]]:
        numbers: dict[str, list[int]] = {}
        for task in sorted(tasks):
            numbers.setdefault(task.subtopology, []).append(task.partition)
        found: dict[str, set[int]] = {}
        for subtopology, of_tasks in numbers.items():
            for name in largest_first.get(subtopology, ()):
                there = bisect_left(of_tasks, sizes[name])
                if not there:
                    break  # the others are no larger
                found.setdefault(name, set()).update(of_tasks[:there])
        return {name: tuple(sorted(numbers)) for name, numbers in sorted(found.items())}

    return [EndpointPartitions(one, partitions(active[one]), partitions(standby[one])) for one in sorted(active)]
