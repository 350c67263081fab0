"""Nodes that have left a short time ago: librdkafka is still told of them.

librdkafka from 2.10 on takes a broker that Metadata does not list any more out of service. If partitions are still with
that broker, and OffsetForLeaderEpoch was asked of it, two of the client's threads may wait for each other permanently.
The consumer gets nothing more then (its issue #5476). A broker that stays listed only loses its partitions.
"""

from collections.abc import Callable
from typing import Final

from bridge.cluster.membership.view import ClusterView, NodeRegistration, NodeState

LISTED_SECONDS: Final = 60.0
"""By then clients have long heard of the new leaders, and most nodes that were killed are back."""


class DepartedNodes:
    """The nodes that this node has seen leave; one that has just started, in the views that it has read."""

    def __init__(self) -> None:
        self._left: dict[int, tuple[NodeRegistration, float]] = {}

    def observe(self, before: ClusterView, after: ClusterView, now: Callable[[], float]) -> None:
        """Note who has left between two views, and who is back; `now`: when the second one came."""
        here = _here(after)
        for id_ in here:
            self._left.pop(id_, None)
        for id_, member in _here(before).items():
            if id_ not in here:
                self._left[id_] = (member, now())

    def members(self, now: Callable[[], float]) -> list[NodeRegistration]:
        """Those that left less than `LISTED_SECONDS` ago."""
        if not self._left:
            return []
        oldest = now() - LISTED_SECONDS
        self._left = {id_: left for id_, left in self._left.items() if left[1] > oldest}
        return [member for member, _ in self._left.values()]


def _here(view: ClusterView) -> dict[int, NodeRegistration]:
    return {id_: member for id_, member in view.members.items() if member.state is not NodeState.GONE}
