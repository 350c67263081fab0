"""Where each partition can be asked for by interactive queries (Kafka's EndpointToPartitionsManager)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bridge.groups.streams.model import Endpoint, StreamsMember, Topology
from bridge.groups.streams.topology import PartitionsOf


class EndpointPartitions(NamedTuple):
    """What one member has, by topic; only topics that it has partitions of."""

    endpoint: Endpoint
    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]


def partitions_by_endpoint(
    members: Iterable[StreamsMember], topology: Topology, partitions_of: PartitionsOf
) -> list[EndpointPartitions]:
    """For each member that has an endpoint, the partitions of the source topics of its tasks."""
    raise NotImplementedError
