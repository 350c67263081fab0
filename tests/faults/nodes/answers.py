"""What single nodes answer: who leads, who is the controller, who coordinates a group, where a partition ends."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from bridge.apis import find_coordinator, list_offsets, metadata
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask_at

Partition = tuple[str, int]
NO_NODE = -1


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """One Metadata answer."""

    brokers: tuple[tuple[int, str], ...]
    """Ids and addresses."""
    controller: int
    leaders: dict[Partition, tuple[int, int]]
    """Leader's id (−1: none just now) and leader epoch."""
    listed: frozenset[str]
    """Topics without an error."""
    replicas: dict[Partition, frozenset[int]] = field(default_factory=dict)
    """All nodes that have it, in sync or not."""
    ids: dict[UUID, tuple[str, int]] = field(default_factory=dict)
    """Name and number of partitions of each topic without an error."""
    cluster_id: str = ""

    def address(self, node_id: int) -> str:
        """Of a broker; "" if it is not listed."""
        return dict(self.brokers).get(node_id, "")

    def led_by(self, address: str) -> set[Partition]:
        """The partitions that the node of an address leads."""
        return {where for where, (leader, _) in self.leaders.items() if self.address(leader) == address}


def cluster_at(address: str, topics: Collection[str] | None = None) -> ClusterAnswer:
    """What a node tells of the cluster and of some topics; None: of all."""
    wanted = None if topics is None else [metadata.RequestTopic(name=topic) for topic in topics]
    request = metadata.Request(topics=wanted, allow_auto_topic_creation=False)
    return cluster_told(ask_at(address, metadata.API, request))


def cluster_told(answer: metadata.Response) -> ClusterAnswer:
    """What an answer says."""
    partitions = {(topic.name or "", one.partition_index): one for topic in answer.topics for one in topic.partitions}
    known = [topic for topic in answer.topics if topic.error_code == ErrorCode.NONE]
    return ClusterAnswer(
        tuple((one.node_id, f"{one.host}:{one.port}") for one in answer.brokers),
        answer.controller_id,
        {where: (one.leader_id, one.leader_epoch) for where, one in partitions.items()},
        frozenset(topic.name or "" for topic in known),
        {where: frozenset([*one.replica_nodes, *one.isr_nodes]) for where, one in partitions.items()},
        {topic.topic_id: (topic.name or "", len(topic.partitions)) for topic in known},
        answer.cluster_id or "",
    )


def controller_at(address: str) -> str:
    """The address of the controller that a node names; "" for none."""
    told = cluster_at(address, ())
    return told.address(told.controller)


def coordinator_at(address: str, group: str) -> str:
    """The address of a group's coordinator that a node names; "" for none."""
    request = find_coordinator.Request(coordinator_keys=[group])
    (found,) = ask_at(address, find_coordinator.API, request).coordinators
    return "" if found.error_code or found.node_id == NO_NODE else f"{found.host}:{found.port}"


def latest_at(address: str, topic: str, partitions: int) -> dict[int, int]:
    """The end of each partition that a node answers for."""
    wanted: list[Any] = [
        list_offsets.RequestPartition(partition_index=number, timestamp=list_offsets.LATEST)
        for number in range(partitions)
    ]
    request = list_offsets.Request(replica_id=-1, topics=[list_offsets.RequestTopic(name=topic, partitions=wanted)])
    (found,) = ask_at(address, list_offsets.API, request).topics
    return {one.partition_index: one.offset for one in found.partitions if one.error_code == ErrorCode.NONE}
