"""All nodes as the one broker that clients see behind one address: any of them serves any partition.

Clients get one answer from every node: a broker of a constant id leads everything. The leader epoch is −1, "unknown",
for the leader never changes. A node that knew only epoch 0 would be ignored by clients that have known greater ones,
from the time when each node had its own address.
"""

from typing import Final

from bridge.cluster.cluster import NO_EPOCH, Cluster, ClusterSnapshot
from bridge.cluster.membership.view import ClusterView, Endpoint, NodeRegistration

BROKER_ID: Final = 0
"""The id of the one broker."""
_NAME: Final = "all"


class OneBroker(Cluster):
    """The cluster as clients behind one address see it: request handlers ask it in place of the cluster itself."""

    def __init__(self, nodes: Cluster, *endpoints: Endpoint) -> None:
        """`endpoints`: where clients reach all nodes, by each listener."""
        super().__init__(nodes.cluster_id)
        self._nodes = nodes
        self._member = NodeRegistration(_NAME, 1, BROKER_ID, endpoints, since=1)
        nodes.on_change.append(self._follow)

    def _follow(self, before: ClusterSnapshot, after: ClusterSnapshot) -> None:
        nodes = self._nodes
        is_member = after.node(nodes.node_id) is not None
        view = ClusterView(
            nodes.view.version,
            BROKER_ID,
            {BROKER_ID: self._member} if is_member else {},
            {_NAME: BROKER_ID},
            owners=(BROKER_ID,),
            epochs=(NO_EPOCH,),
            groups=(BROKER_ID,) * len(nodes.view.groups),
            level=nodes.view.level,
        )
        self.update(view, BROKER_ID, nodes.serving)
