"""Which bridge node leads what: the membership of many nodes, agreed on through two topics of Pulsar."""

from bridge.cluster.cluster import RECORD_EPOCH, Cluster, ClusterSnapshot, Leader, Node, cluster_id, single_node

__all__ = ["RECORD_EPOCH", "Cluster", "ClusterSnapshot", "Leader", "Node", "cluster_id", "single_node"]
