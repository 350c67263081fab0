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


def elect(topic: str, partition: int = 0, kind: int = 0) -> Any:
    """An ElectLeaders for one partition."""
    topics = [elect_leaders.RequestTopic(topic=topic, partitions=[partition])]
    return elect_leaders.Request(election_type=kind, topic_partitions=topics)


def move(topic: str, replicas: list[int] | None, partition: int = 0, **fields: Any) -> Any:
    """An AlterPartitionReassignments of one partition."""
    partitions = [alter_partition_reassignments.RequestPartition(partition_index=partition, replicas=replicas)]
    topics = [alter_partition_reassignments.RequestTopic(name=topic, partitions=partitions)]
    return alter_partition_reassignments.Request(topics=topics, **fields)


def moving(topic: str) -> Any:
    """A ListPartitionReassignments of one partition."""
    topics = [list_partition_reassignments.RequestTopic(name=topic, partition_indexes=[0])]
    return list_partition_reassignments.Request(topics=topics)


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


def both(*named: tuple[str, str | None]) -> Any:
    """An AlterClientQuotas of an entity of two types."""
    request = limit("user", "x", "request_percentage", 1)
    request.entries[0].entity = [describe_client_quotas.Entity(entity_type=k, entity_name=n) for k, n in named]
    return request


def limit_twice(entries: int) -> Any:
    """An AlterClientQuotas with the same quota twice: in one entry, or in two."""
    request = limit("user", "x", "producer_byte_rate", 1)
    request.entries *= entries
    request.entries[0].ops *= 3 - entries
    return request


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
    Case("preferred replica leads", ELECT, lambda w: elect(w.topic),
         "ELECTION_NOT_NEEDED: Leader election not needed for topic partition."),
    Case("preferred replica leads, v0", ELECT, lambda w: elect(w.topic),
         "ELECTION_NOT_NEEDED: Leader election not needed for topic partition.", version=0),
    Case("unclean", ELECT, lambda w: elect(w.topic, kind=1),
         "ELECTION_NOT_NEEDED: Leader election not needed for topic partition."),
    Case("unknown topic", ELECT, lambda w: elect(w.missing), "UNKNOWN_TOPIC_OR_PARTITION: No such topic as {missing}"),
    Case("wrong topic name", ELECT, lambda w: elect("a b"), "UNKNOWN_TOPIC_OR_PARTITION: No such topic as a b"),
    Case("unknown partition", ELECT, lambda w: elect(w.topic, 9),
         "UNKNOWN_TOPIC_OR_PARTITION: No such partition as {topic}-9"),
    Case("election type 9", ELECT, lambda w: elect(w.topic, kind=9),
         "INVALID_REQUEST | INVALID_REQUEST: Unknown election type 9"),
    Case("everywhere", ELECT, lambda w: elect_leaders.Request(topic_partitions=None), "NONE"),
    #
    Case("where it is", MOVE, lambda w: move(w.topic, [w.node]), "NONE"),
    Case("to an unknown broker", MOVE, lambda w: move(w.topic, [77]),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 77, but no such broker is "
         "registered."),
    Case("to another broker as well", MOVE, lambda w: move(w.topic, [w.node, 77]),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 77, but no such broker is "
         "registered."),
    Case("to a negative broker", MOVE, lambda w: move(w.topic, [-1]),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker -1, but no such broker is "
         "registered."),
    Case("to a broker twice", MOVE, lambda w: move(w.topic, [w.node] * 2),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes the broker {node} more than once."),
    Case("nowhere", MOVE, lambda w: move(w.topic, []),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes an empty replica list."),
    Case("gives up what is not moving", MOVE, lambda w: move(w.topic, None), "NO_REASSIGNMENT_IN_PROGRESS"),
    Case("unknown topic", MOVE, lambda w: move(w.missing, [w.node]),
         "UNKNOWN_TOPIC_OR_PARTITION: Unable to find a topic named {missing}."),
    Case("wrong topic name", MOVE, lambda w: move("a b", [w.node]),
         "UNKNOWN_TOPIC_OR_PARTITION: Unable to find a topic named a b."),
    Case("unknown partition", MOVE, lambda w: move(w.topic, [w.node], 9),
         "UNKNOWN_TOPIC_OR_PARTITION: Unable to find partition {topic}:9."),
    Case("unknown partition, given up", MOVE, lambda w: move(w.topic, None, 9),
         "UNKNOWN_TOPIC_OR_PARTITION: Unable to find partition {topic}:9."),
    Case("other number of replicas, not allowed", MOVE, lambda w: move(w.topic, [w.node, 77],
         allow_replication_factor_change=False),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 77, but no such broker is "
         "registered."),
    #
    Case("unknown topic", MOVING, lambda w: moving(w.missing), "NONE"),
    #
    Case("unknown directory", PLACE, lambda w: place("/no/such", w.topic), "LOG_DIR_NOT_FOUND"),
    Case("relative directory", PLACE, lambda w: place("here", w.topic), "LOG_DIR_NOT_FOUND"),
    Case("where it is", PLACE, lambda w: place(w.directory, w.topic), "NONE"),
    Case("unknown topic", PLACE, lambda w: place(w.directory, w.missing), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("unknown partition", PLACE, lambda w: place(w.directory, w.topic, 9), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("unknown directory and topic", PLACE, lambda w: place("/no/such", w.missing), "LOG_DIR_NOT_FOUND"),
    Case("wrong topic name", PLACE, lambda w: place(w.directory, "a b"), "UNKNOWN_TOPIC_OR_PARTITION"),
    #
    Case("unknown topic", describe_log_dirs.API,
         lambda w: describe_log_dirs.Request(topics=[describe_log_dirs.RequestTopic(topic=w.missing, partitions=[0])]),
         "NONE"),
    #
    Case("for a user", LIMIT, lambda w: limit("user", "x", "producer_byte_rate", 1000), "NONE"),
    Case("unknown key", LIMIT, lambda w: limit("user", "x", "no_such", 1),
         "INVALID_REQUEST: Invalid configuration key no_such"),
    Case("unknown entity", LIMIT, lambda w: limit("planet", "x", "producer_byte_rate", 1),
         "INVALID_REQUEST: Unhandled client quota entity type: planet"),
    Case("negative", LIMIT, lambda w: limit("user", "x", "producer_byte_rate", -1),
         "INVALID_REQUEST: Quota producer_byte_rate must be greater than 0"),
    Case("address that is none", LIMIT, lambda w: limit("ip", "x y", "connection_creation_rate", 1),
         "INVALID_REQUEST: x y is not a valid IP or resolvable host."),
    Case("no number", LIMIT, lambda w: limit("user", "x", "producer_byte_rate", float("nan")), "NONE",
         ours="INVALID_REQUEST: Quota producer_byte_rate must be greater than 0",
         why="nothing can be compared with it"),
    Case("fraction of a byte", LIMIT, lambda w: limit("client-id", "x", "consumer_byte_rate", 1.5),
         "INVALID_REQUEST: consumer_byte_rate cannot be a fractional value."),
    Case("fraction of a percent", LIMIT, lambda w: limit("client-id", None, "request_percentage", 0.5), "NONE"),
    Case("too many bytes", LIMIT, lambda w: limit("client-id", "x", "consumer_byte_rate", 1e30),
         "INVALID_REQUEST: Proposed value for consumer_byte_rate is too large for a LONG."),
    Case("too many connections", LIMIT, lambda w: limit("ip", "10.0.0.1", "connection_creation_rate", 2.0**31),
         "INVALID_REQUEST: Proposed value for connection_creation_rate is too large for an INT."),
    Case("address's key for a user", LIMIT, lambda w: limit("user", "x", "connection_creation_rate", 1),
         "INVALID_REQUEST: Invalid configuration key connection_creation_rate"),
    Case("user's key for an address", LIMIT, lambda w: limit("ip", None, "producer_byte_rate", 1),
         "INVALID_REQUEST: Invalid configuration key producer_byte_rate"),
    Case("address of a user", LIMIT, lambda w: both(("ip", "10.0.0.1"), ("user", "x")),
         "INVALID_REQUEST: Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"),
    Case("user and client id", LIMIT, lambda w: both(("client-id", "x"), ("user", None)), "NONE"),
    Case("user twice", LIMIT, lambda w: both(("user", "x"), ("user", "y")), "NONE",
         ours="INVALID_REQUEST: Invalid client quota entity, duplicate entity entry user",
         why="it does not say which of them is meant"),
    Case("key twice", LIMIT, lambda w: limit_twice(entries=1),
         "INVALID_REQUEST: Ignoring duplicate entity ClientQuotaEntity(entries={user=x})"),
    Case("entity twice", LIMIT, lambda w: limit_twice(entries=2),
         "INVALID_REQUEST: Ignoring duplicate entity ClientQuotaEntity(entries={user=x})"),
    Case("removed", LIMIT, lambda w: limit("user", "unknown", "producer_byte_rate", 0, remove=True), "NONE"),
    Case("unknown key, removed", LIMIT, lambda w: limit("user", "unknown", "no_such", 0, remove=True), "NONE"),
    Case("no entity", LIMIT, lambda w: alter_client_quotas.Request(entries=[alter_client_quotas.RequestEntry(entity=[],
         ops=[])], validate_only=True), "INVALID_REQUEST: Invalid empty client quota entity"),
    Case("user without a name", LIMIT, lambda w: limit("user", "", "producer_byte_rate", 1),
         "INVALID_REQUEST: Empty user not supported"),
    #
    Case("of a user", LIMITS, lambda w: limits("user", "unknown"), "NONE"),
    Case("unknown entity", LIMITS, lambda w: limits("planet", "x"),
         "UNSUPPORTED_VERSION: Unsupported entity type planet"),
    Case("no entity", LIMITS, lambda w: limits("", "x"), "INVALID_REQUEST: Invalid empty entity type."),
    Case("match type 9", LIMITS, lambda w: limits("user", "x", 9), "INVALID_REQUEST: Unknown match type 9"),
    Case("exact without a name", LIMITS, lambda w: limits("user", None, 0),
         "INVALID_REQUEST: Request specified MATCH_TYPE_EXACT, but set match string to null."),
    Case("default with a name", LIMITS, lambda w: limits("user", "x", 1),
         "INVALID_REQUEST: Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
    Case("type named twice", LIMITS, lambda w: describe_client_quotas.Request(components=limits("user",
         "x").components * 2, strict=False),
         "INVALID_REQUEST: Entity type user cannot appear more than once in the filter."),
    Case("ip and user", LIMITS, lambda w: describe_client_quotas.Request(components=limits("ip",
         "1.2.3.4").components + limits("user", "x").components, strict=False),
         "INVALID_REQUEST: Invalid entity filter component combination. IP filter component should not be used "
         "with user or clientId filter component."),
    #
    Case("unknown feature", FEATURE, lambda w: feature("no.such", 1),
         "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version 1 for feature no.such. Local controller {node} does not support this feature."),
    Case("unknown feature, v1", FEATURE, lambda w: feature("no.such", 1),
         "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version 1 for feature no.such. Local controller {node} does not support this feature.",
         version=1),
    Case("unknown feature, v0", FEATURE,
         lambda w: update_features.Request(feature_updates=[update_features.Update(feature="no.such",
         max_version_level=1)]),
         "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version 1 for feature no.such. Local controller {node} does not support this feature.",
         version=0),
    Case("unknown feature, downgraded", FEATURE, lambda w: feature("no.such", 1, 2),
         "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version 1 for feature no.such. Local controller {node} does not support this feature."),
    Case("unknown feature, deleted", FEATURE, lambda w: feature("no.such", 0, 2),
         "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version 0 for feature no.such. Feature no.such not found."),
    Case("negative level", FEATURE, lambda w: feature("no.such", -1),
         "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version -1 for feature no.such. A feature version cannot be less than 0."),
    Case("upgrade type 9", FEATURE, lambda w: feature("no.such", 1, 9),
         "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version 1 for feature no.such. The controller does not support the given upgrade type."),
    Case("no feature", FEATURE, lambda w: update_features.Request(feature_updates=[]), "NONE"),
    Case("no feature name", FEATURE, lambda w: feature("", 1),
         "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version 1 for feature . Local controller {node} does not support this feature."),
    Case("transaction.version 3", FEATURE, lambda w: feature("transaction.version", 3),
         "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version 3 for feature transaction.version. Local controller {node} only supports versions "
         "0-2"),
    Case("metadata.version", FEATURE, lambda w: feature("metadata.version", 99),
         "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version 99 for feature metadata.version. Local controller {node} only supports versions "
         "7-27",
         ours="INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "
         "Invalid update version 99 for feature metadata.version. Local controller {node} does not support this "
         "feature.", why="this feature is not known either"),
    #
    Case("controllers", describe_cluster.API,
         lambda w: describe_cluster.Request(include_cluster_authorized_operations=False, endpoint_type=2),
         "MISMATCHED_ENDPOINT_TYPE: The request was sent to an endpoint of type BROKER, but we wanted an endpoint "
         "of type CONTROLLER"),
    Case("endpoint type 9", describe_cluster.API,
         lambda w: describe_cluster.Request(include_cluster_authorized_operations=False, endpoint_type=9),
         "UNSUPPORTED_ENDPOINT_TYPE: Unsupported endpoint type 9"),
    Case("unknown broker", unregister_broker.API, lambda w: unregister_broker.Request(broker_id=77),
         "BROKER_ID_NOT_REGISTERED: Broker ID 77 is not currently registered"),
    Case("negative broker", unregister_broker.API, lambda w: unregister_broker.Request(broker_id=-1),
         "BROKER_ID_NOT_REGISTERED: Broker ID -1 is not currently registered"),
    Case("metadata", describe_quorum.API, lambda w: quorum("__cluster_metadata"), "NONE",
         ours="UNSUPPORTED_VERSION: There is no KRaft quorum here: Pulsar holds the metadata.",
         why="Pulsar holds the metadata"),
    Case("another topic", describe_quorum.API, lambda w: quorum(w.topic),
         "UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition."),
    Case("another topic, v1", describe_quorum.API, lambda w: quorum(w.topic), "UNKNOWN_TOPIC_OR_PARTITION", version=1),
    Case("software without a name", api_versions.API, lambda w: api_versions.Request(), "INVALID_REQUEST", ours="NONE",
         why="some clients give themselves other names, and nothing hangs on it"),
    Case("software with an odd name", api_versions.API, lambda w: api_versions.Request(client_software_name="a b",
         client_software_version="!"), "INVALID_REQUEST", ours="NONE",
         why="some clients give themselves other names, and nothing hangs on it"),
]  # fmt: skip
