"""The cluster: brokers, replicas, directories, features."""

from __future__ import annotations

from typing import Any

from bridge.apis import (
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    elect_leaders,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)
from tests.authorization.asked.row import Row
from tests.authorization.world import MISSING, TOPICS
from tests.clients.refusals import cluster

ALL = (*TOPICS, *MISSING)
NO_BROKER = 4711


def _described(*, operations: bool) -> Any:
    return describe_cluster.Request(include_cluster_authorized_operations=operations)


def _elect() -> Any:
    request = cluster.elect(ALL[0])
    for name in ALL[1:]:
        request.topic_partitions += cluster.elect(name).topic_partitions
    return request


def _directories(*names: str) -> Any:
    topics = [describe_log_dirs.RequestTopic(topic=name, partitions=[0]) for name in names]
    return describe_log_dirs.Request(topics=topics or None)


ROWS = [
    Row(api_versions.API, "any",
        lambda w: api_versions.Request(client_software_name="x", client_software_version="1"), version=3),
    Row(describe_cluster.API, "with operations", lambda w: _described(operations=True), since=0),
    Row(describe_cluster.API, "without operations", lambda w: _described(operations=False)),
    Row(describe_log_dirs.API, "of topics", lambda w: _directories(*ALL), since=1),
    Row(describe_log_dirs.API, "all", lambda w: _directories()),
    Row(alter_replica_log_dirs.API, "unknown directory", lambda w: cluster.place("/no/such", TOPICS[0]), since=1),
    Row(elect_leaders.API, "preferred", lambda w: _elect(), since=0),
    Row(alter_partition_reassignments.API, "given up", lambda w: cluster.move(TOPICS[0], None), since=0),
    Row(list_partition_reassignments.API, "of a topic", lambda w: cluster.moving(TOPICS[0])),
    Row(describe_quorum.API, "of the metadata", lambda w: cluster.quorum("__cluster_metadata"), since=0),
    Row(unregister_broker.API, "unknown broker", lambda w: unregister_broker.Request(broker_id=NO_BROKER)),
    Row(update_features.API, "unknown feature", lambda w: cluster.feature("mine-feature", 1), since=1),
]  # fmt: skip
