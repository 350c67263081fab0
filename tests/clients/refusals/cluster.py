"""The cluster: brokers, replicas, directories, quotas, features."""

from __future__ import annotations

from typing import Any

from bridge.apis import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    api_versions,
    describe_client_quotas,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    elect_leaders,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)
from tests.clients.refusals.case import Case

PIN: list[str] = []


def elect(topic: str, partition: int = 0, kind: int = 0) -> Any:
    """An ElectLeaders for one partition."""
    topics = [elect_leaders.RequestTopic(topic=topic, partitions=[partition])]
    return elect_leaders.Request(election_type=kind, topic_partitions=topics)


def move(topic: str, replicas: list[int] | None, partition: int = 0, **fields: Any) -> Any:
    """An AlterPartitionReassignments of one partition."""
    partitions = [alter_partition_reassignments.RequestPartition(partition_index=partition, replicas=replicas)]
    topics = [alter_partition_reassignments.RequestTopic(name=topic, partitions=partitions)]
    return alter_partition_reassignments.Request(topics=topics, **fields)


def place(path: str, topic: str, partition: int = 0) -> Any:
    """An AlterReplicaLogDirs of one partition."""
    topics = [alter_replica_log_dirs.RequestTopic(name=topic, partitions=[partition])]
    return alter_replica_log_dirs.Request(dirs=[alter_replica_log_dirs.Directory(path=path, topics=topics)])


def limit(kind: str, name: str | None, key: str, value: float, *, remove: bool = False) -> Any:
    """An AlterClientQuotas of one entity."""
    entity = [describe_client_quotas.Entity(entity_type=kind, entity_name=name)]
    operations = [alter_client_quotas.Operation(key=key, value=value, remove=remove)]
    entries = [alter_client_quotas.RequestEntry(entity=entity, ops=operations)]
    return alter_client_quotas.Request(entries=entries, validate_only=True)


def limits(kind: str, match: str | None = None, how: int = 0, *, strict: bool = False) -> Any:
    """A DescribeClientQuotas."""
    component = describe_client_quotas.Component(entity_type=kind, match_type=how, match=match)
    return describe_client_quotas.Request(components=[component], strict=strict)


def feature(name: str, level: int, kind: int = 1) -> Any:
    """An UpdateFeatures of one feature."""
    update = update_features.Update(feature=name, max_version_level=level, upgrade_type=kind)
    return update_features.Request(feature_updates=[update], validate_only=True)


def quorum(topic: str, partition: int = 0) -> Any:
    """A DescribeQuorum."""
    partitions = [describe_quorum.RequestPartition(partition_index=partition)]
    return describe_quorum.Request(topics=[describe_quorum.RequestTopic(topic_name=topic, partitions=partitions)])


ELECT, MOVE, PLACE = elect_leaders.API, alter_partition_reassignments.API, alter_replica_log_dirs.API
LIMIT, LIMITS, FEATURE = alter_client_quotas.API, describe_client_quotas.API, update_features.API
MOVING = list_partition_reassignments.API

CASES = [
    Case("preferred replica leads", ELECT, lambda w: elect(w.topic), PIN),
    Case("preferred replica leads, v0", ELECT, lambda w: elect(w.topic), PIN, version=0),
    Case("unclean", ELECT, lambda w: elect(w.topic, kind=1), PIN),
    Case("unknown topic", ELECT, lambda w: elect(w.missing), PIN),
    Case("wrong topic name", ELECT, lambda w: elect("a b"), PIN),
    Case("unknown partition", ELECT, lambda w: elect(w.topic, 9), PIN),
    Case("election type 9", ELECT, lambda w: elect(w.topic, kind=9), PIN),
    Case("everywhere", ELECT, lambda w: elect_leaders.Request(topic_partitions=None), PIN),
    #
    Case("where it is", MOVE, lambda w: move(w.topic, [w.node]), PIN),
    Case("to an unknown broker", MOVE, lambda w: move(w.topic, [77]), PIN),
    Case("to another broker as well", MOVE, lambda w: move(w.topic, [w.node, 77]), PIN),
    Case("to a negative broker", MOVE, lambda w: move(w.topic, [-1]), PIN),
    Case("to a broker twice", MOVE, lambda w: move(w.topic, [w.node] * 2), PIN),
    Case("nowhere", MOVE, lambda w: move(w.topic, []), PIN),
    Case("gives up what is not moving", MOVE, lambda w: move(w.topic, None), PIN),
    Case("unknown topic", MOVE, lambda w: move(w.missing, [w.node]), PIN),
    Case("wrong topic name", MOVE, lambda w: move("a b", [w.node]), PIN),
    Case("unknown partition", MOVE, lambda w: move(w.topic, [w.node], 9), PIN),
    Case("unknown partition, given up", MOVE, lambda w: move(w.topic, None, 9), PIN),
    Case("other number of replicas, not allowed", MOVE,
         lambda w: move(w.topic, [w.node, 77], allow_replication_factor_change=False), PIN),
    #
    Case("unknown topic", MOVING, lambda w: list_partition_reassignments.Request(
        topics=[list_partition_reassignments.RequestTopic(name=w.missing, partition_indexes=[0])]), PIN),
    #
    Case("unknown directory", PLACE, lambda w: place("/no/such", w.topic), PIN),
    Case("relative directory", PLACE, lambda w: place("here", w.topic), PIN),
    Case("where it is", PLACE, lambda w: place(w.directory, w.topic), PIN),
    Case("unknown topic", PLACE, lambda w: place(w.directory, w.missing), PIN),
    Case("unknown partition", PLACE, lambda w: place(w.directory, w.topic, 9), PIN),
    Case("unknown directory and topic", PLACE, lambda w: place("/no/such", w.missing), PIN),
    Case("wrong topic name", PLACE, lambda w: place(w.directory, "a b"), PIN),
    #
    Case("unknown topic", describe_log_dirs.API, lambda w: describe_log_dirs.Request(
        topics=[describe_log_dirs.RequestTopic(topic=w.missing, partitions=[0])]), PIN),
    #
    Case("for a user", LIMIT, lambda w: limit("user", "x", "producer_byte_rate", 1000), PIN),
    Case("unknown key", LIMIT, lambda w: limit("user", "x", "no_such", 1), PIN),
    Case("unknown entity", LIMIT, lambda w: limit("planet", "x", "producer_byte_rate", 1), PIN),
    Case("negative", LIMIT, lambda w: limit("user", "x", "producer_byte_rate", -1), PIN),
    Case("address that is none", LIMIT, lambda w: limit("ip", "x y", "connection_creation_rate", 1), PIN),
    Case("removed", LIMIT, lambda w: limit("user", "nobody", "producer_byte_rate", 0, remove=True), PIN),
    Case("unknown key, removed", LIMIT, lambda w: limit("user", "nobody", "no_such", 0, remove=True), PIN),
    Case("no entity", LIMIT, lambda w: alter_client_quotas.Request(
        entries=[alter_client_quotas.RequestEntry(entity=[], ops=[])], validate_only=True), PIN),
    Case("user without a name", LIMIT, lambda w: limit("user", "", "producer_byte_rate", 1), PIN),
    #
    Case("of a user", LIMITS, lambda w: limits("user", "nobody"), PIN),
    Case("unknown entity", LIMITS, lambda w: limits("planet", "x"), PIN),
    Case("no entity", LIMITS, lambda w: limits("", "x"), PIN),
    Case("match type 9", LIMITS, lambda w: limits("user", "x", 9), PIN),
    Case("exact without a name", LIMITS, lambda w: limits("user", None, 0), PIN),
    Case("default with a name", LIMITS, lambda w: limits("user", "x", 1), PIN),
    Case("type named twice", LIMITS, lambda w: describe_client_quotas.Request(
        components=limits("user", "x").components * 2, strict=False), PIN),
    Case("ip and user", LIMITS, lambda w: describe_client_quotas.Request(
        components=limits("ip", "1.2.3.4").components + limits("user", "x").components, strict=False), PIN),
    #
    Case("unknown feature", FEATURE, lambda w: feature("no.such", 1), PIN),
    Case("unknown feature, v1", FEATURE, lambda w: feature("no.such", 1), PIN, version=1),
    Case("unknown feature, v0", FEATURE, lambda w: update_features.Request(
        feature_updates=[update_features.Update(feature="no.such", max_version_level=1)]), PIN, version=0),
    Case("unknown feature, downgraded", FEATURE, lambda w: feature("no.such", 1, 2), PIN),
    Case("unknown feature, deleted", FEATURE, lambda w: feature("no.such", 0, 2), PIN),
    Case("negative level", FEATURE, lambda w: feature("no.such", -1), PIN),
    Case("upgrade type 9", FEATURE, lambda w: feature("no.such", 1, 9), PIN),
    Case("no feature", FEATURE, lambda w: update_features.Request(feature_updates=[]), PIN),
    Case("no feature name", FEATURE, lambda w: feature("", 1), PIN),
    Case("metadata.version", FEATURE, lambda w: feature("metadata.version", 99), PIN),
    #
    Case("controllers", describe_cluster.API, lambda w: describe_cluster.Request(
        include_cluster_authorized_operations=False, endpoint_type=2), PIN),
    Case("endpoint type 9", describe_cluster.API, lambda w: describe_cluster.Request(
        include_cluster_authorized_operations=False, endpoint_type=9), PIN),
    Case("unknown broker", unregister_broker.API, lambda w: unregister_broker.Request(broker_id=77), PIN),
    Case("negative broker", unregister_broker.API, lambda w: unregister_broker.Request(broker_id=-1), PIN),
    Case("metadata", describe_quorum.API, lambda w: quorum("__cluster_metadata"), PIN),
    Case("another topic", describe_quorum.API, lambda w: quorum(w.topic), PIN),
    Case("another topic, v1", describe_quorum.API, lambda w: quorum(w.topic), PIN, version=1),
    Case("software without a name", api_versions.API, lambda w: api_versions.Request(), PIN),
    Case("software with an odd name", api_versions.API, lambda w: api_versions.Request(
        client_software_name="a b", client_software_version="!"), PIN),
]  # fmt: skip
