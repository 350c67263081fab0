"""What a node does when the view changes: it lets go of what others lead now, and takes what they have let go of."""

from collections.abc import Callable, Collection
from typing import Final, Protocol

from bridge.cluster import Cluster, ClusterSnapshot
from bridge.cluster.effects import Serving
from bridge.cluster.group_slots import GroupSlots
from bridge.futures import loop_time

_MOVED_SECONDS: Final = 60.0

AssignGroups = Callable[[Collection[int], Collection[int]], None]
"""Hold exactly these group slots; the second: those whose former owner is no member any more."""


class LedTopics(Protocol):
    """What is asked of the topics (`storage.topics.Topics`)."""

    leads: Callable[[str, int], bool]
    has_moved: Callable[[str, int], bool]

    def hold(self) -> None:
        """Open no producer and send nothing again."""

    def proceed(self) -> None:
        """Do so again."""

    def hand_over(self, is_lost: Callable[[str, int], bool], *, flush: bool) -> object:
        """Close what is open of these partitions."""


class ViewFollower:
    """Follows `cluster` on behalf of storage and groups."""

    def __init__(self, cluster: Cluster, topics: LedTopics, assign_groups: AssignGroups) -> None:
        self._cluster = cluster
        self._topics = topics
        self._assign_groups = assign_groups
        self._group_slots = GroupSlots()
        self._moved: dict[int, float] = {}
        """When a slot came from another node, by the loop's time."""
        topics.leads = self._leads
        topics.has_moved = self._has_moved
        cluster.on_change.append(self._changed)

    def _leads(self, topic: str, partition: int) -> bool:
        cluster = self._cluster
        return cluster.snapshot.leads(cluster.node_id, topic, partition)

    def _is_lost(self, topic: str, partition: int) -> bool:
        return not self._leads(topic, partition)

    def _has_moved(self, topic: str, partition: int) -> bool:
        """Whether another node led it within the last minute: a client may wait for answers of that one."""
        moved_at = self._moved.get(self._cluster.snapshot.slot(topic, partition))
        return moved_at is not None and loop_time() - moved_at < _MOVED_SECONDS

    def _changed(self, before: ClusterSnapshot, after: ClusterSnapshot) -> None:
        cluster, topics = self._cluster, self._topics
        self._moved.update(dict.fromkeys(after.moved_to(cluster.node_id, before), loop_time()))
        if cluster.serving is not Serving.SERVE:
            topics.hold()
        if cluster.serving is Serving.REFUSE:
            topics.hand_over(_everything, flush=False)
        elif not after.has_leaders_of(before):
            topics.hand_over(self._is_lost, flush=True)
        if cluster.serving is Serving.SERVE:
            topics.proceed()
        if before.version != after.version:
            self._assign_groups(*self._group_slots.update(cluster.view, cluster.node_id))


def _everything(topic: str, partition: int) -> bool:
    return True
