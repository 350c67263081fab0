"""What a node does when the view changes: it lets go of what others serve now, and takes what they have let go of."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final, Protocol

from bridge.cluster import Cluster, ClusterSnapshot
from bridge.cluster.membership.effects import Serving
from bridge.cluster.membership.group_slots import GroupAssignment, GroupSlots
from bridge.cluster.membership.view import NO_NODE
from bridge.runtime.futures import loop_time

_MOVED_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 2.0
"""Until clients that have come back are turned away once more; each time twice as long."""

AssignGroups = Callable[[Collection[int], Collection[int]], None]
"""Hold exactly these group slots; the second: those whose former owner is no member any more."""


class LedTopics(Protocol):
    """What a node does with its topics when the view changes (`storage.topics.Topics`)."""

    def lead_by(self, lead: "ViewFollower") -> None:
        """Go by this from now on."""

    def hold(self) -> None:
        """Open no producer and send nothing again."""

    def proceed(self) -> None:
        """Open producers and send again."""

    def hand_over(self, is_lost: Callable[[str, int], bool], *, flush: bool) -> object:
        """Close what is open of these partitions."""


class ViewFollower:
    """Follows `cluster` on behalf of storage and groups."""

    def __init__(
        self, cluster: Cluster, topics: LedTopics, assign_groups: AssignGroups, nodes: Cluster | None = None
    ) -> None:
        """`nodes`: the cluster whose views tell nodes apart, where `cluster` is all nodes as one (`OneBroker`)."""
        self._cluster = cluster
        self._nodes = nodes or cluster
        self._topics: list[LedTopics] = []
        self._assign_groups: list[AssignGroups] = []
        self._group_slots = GroupSlots()
        self._assigned = GroupAssignment(frozenset(), frozenset())
        self._moved: dict[int, float] = {}
        """When a slot came from another process, by the loop's time."""
        self._is_member = False
        """Whether this process ever was: until then, what this node leads its former life does."""
        self._add(topics, assign_groups)
        self._nodes.on_change.append(self._note_moves)
        cluster.on_change.append(self._changed)

    def add(self, topics: LedTopics, assign_groups: AssignGroups) -> None:
        """Follow on behalf of another namespace's, too, whose groups' log is started."""
        self._add(topics, assign_groups)
        if self._cluster.serving is not Serving.SERVE:
            topics.hold()
        assign_groups(*self._assigned)

    def remove(self, topics: LedTopics, assign_groups: AssignGroups) -> None:
        """Follow on behalf of these no more."""
        self._topics.remove(topics)
        self._assign_groups.remove(assign_groups)

    def _add(self, topics: LedTopics, assign_groups: AssignGroups) -> None:
        topics.lead_by(self)
        self._topics.append(topics)
        self._assign_groups.append(assign_groups)

    def leads(self, topic: str, partition: int) -> bool:
        """Whether this node leads a partition."""
        cluster = self._cluster
        return cluster.snapshot.leads(cluster.node_id, topic, partition)

    def _lost_since(self, before: ClusterSnapshot) -> Callable[[str, int], bool]:
        """Whether a partition's log has to be closed here; asked when its turn has come, perhaps some views later.

        A leader that becomes a follower closes it, too: its producers' names must get free. A follower that becomes the
        leader goes on with what it has read.
        """
        cluster, then = self._cluster, self._cluster.node_id

        def is_lost(topic: str, partition: int) -> bool:
            if self.leads(topic, partition):
                return False
            return before.leads(then, topic, partition) or not cluster.snapshot.follows(
                cluster.node_id, topic, partition
            )

        return is_lost

    def has_moved(self, topic: str, partition: int) -> bool:
        """Whether another process leads it or did within the last minute: a client may wait for answers of that one."""
        nodes = self._nodes
        if not nodes.snapshot.leads(nodes.node_id, topic, partition):
            return True  # with one address for all nodes, each serves what comes to it
        moved_at = self._moved.get(nodes.snapshot.slot(topic, partition))
        return moved_at is not None and loop_time() - moved_at < _MOVED_SECONDS

    def _note_moves(self, before: ClusterSnapshot, after: ClusterSnapshot) -> None:
        nodes = self._nodes
        if nodes.node_id == NO_NODE:
            return
        moved = after.moved_to(nodes.node_id, before, is_new=not self._is_member)
        self._moved.update(dict.fromkeys(moved, loop_time()))
        self._is_member = True

    def _changed(self, before: ClusterSnapshot, after: ClusterSnapshot) -> None:
        for topics in self._topics:
            self._follow(topics, before, after)
        if before.version != after.version:
            self._assigned = self._group_slots.update(self._nodes.view, self._nodes.node_id)
            for assign_groups in self._assign_groups:
                assign_groups(*self._assigned)

    def _follow(self, topics: LedTopics, before: ClusterSnapshot, after: ClusterSnapshot) -> None:
        serving = self._cluster.serving
        if serving is not Serving.SERVE:
            topics.hold()
        if serving is Serving.REFUSE:
            topics.hand_over(_everything, flush=False)
        elif not after.has_servers_of(before):
            topics.hand_over(self._lost_since(before), flush=True)
        if serving is Serving.SERVE:
            topics.proceed()


def _everything(topic: str, partition: int) -> bool:
    return True


class TurningAway:
    """Closes the connections of clients while this node is cut off from Pulsar: other nodes can serve them.

    What it tells of the cluster is of its last view, by which it leads. Java's client asks the node that has the fewest
    requests under way, which is the one that refuses them all, and would stay for as long as that lasts. Clients that
    come back are turned away again, but more and more seldom: Pulsar may be away for all nodes.
    """

    def __init__(self, cluster: Cluster, turn_away: Callable[[], None]) -> None:
        """`turn_away`: lets every connection answer what it has received, and close."""
        self._cluster = cluster
        self._turn_away = turn_away
        self._was_serving = False
        self._again_after = _AGAIN_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        cluster.on_change.append(self._changed)

    def close(self) -> None:
        """Turn no client away any more."""
        self._cluster.on_change.remove(self._changed)
        self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _changed(self, before: ClusterSnapshot, after: ClusterSnapshot) -> None:
        was_serving, self._was_serving = self._was_serving, self._cluster.serving is not Serving.REFUSE
        if self._was_serving:
            self._stop()
        elif was_serving:
            self._again_after = _AGAIN_SECONDS
            self._clients_away()

    def _clients_away(self) -> None:
        self._turn_away()
        self._timer = asyncio.get_running_loop().call_later(self._again_after, self._clients_away)
        self._again_after *= 2
