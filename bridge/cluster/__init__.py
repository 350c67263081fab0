"""Which bridge node leads what: the membership of many nodes, agreed on through two topics of Pulsar."""

from bridge.cluster.cluster import (
    NO_EPOCH,
    RECORD_EPOCH,
    Cluster,
    ClusterSnapshot,
    Leader,
    Node,
    cluster_id,
    single_node,
)

__all__ = ["NO_EPOCH", "RECORD_EPOCH", "Cluster", "ClusterSnapshot", "Leader", "Node", "cluster_id", "single_node"]
