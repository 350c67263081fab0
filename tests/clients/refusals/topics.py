"""Topics: created, deleted, enlarged, asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from bridge.apis import create_partitions, create_topics, delete_topics, describe_topic_partitions, metadata
from tests.apis.wire import unique
from tests.clients.refusals.case import Case, World

NOWHERE = UUID(int=12345)


def create(*names: str, validate_only: bool = False, timeout_ms: int = 30_000, **fields: Any) -> Any:
    """A CreateTopics of these topics, all alike."""
    values = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [], **fields}
    topics = [create_topics.RequestTopic(name=name, **values) for name in names]
    return create_topics.Request(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def assigned(*replicas: Sequence[int], first: int = 0) -> dict[str, Any]:
    """Partitions on these brokers."""
    assignments = [
        create_topics.Assignment(partition_index=index, broker_ids=list(nodes))
        for index, nodes in enumerate(replicas, first)
    ]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}


def configs(**values: str | None) -> dict[str, Any]:
    """Configs, with _ for the dots."""
    return {
        "configs": [
            create_topics.RequestConfig(name=name.replace("_", "."), value=text) for name, text in values.items()
        ]
    }


def delete(*names: str, ids: Sequence[UUID] = ()) -> Any:
    """A DeleteTopics by name and by id."""
    wanted = [delete_topics.RequestTopic(name=name) for name in names]
    wanted += [delete_topics.RequestTopic(topic_id=topic_id) for topic_id in ids]
    return delete_topics.Request(topics=wanted, timeout_ms=30_000)


def grow(*topics: tuple[str, int], to: Sequence[Sequence[int]] | None = None, **fields: Any) -> Any:
    """A CreatePartitions of (topic, count); the new ones on these brokers."""
    assignments = None if to is None else [create_partitions.Assignment(broker_ids=list(nodes)) for nodes in to]
    wanted = [create_partitions.RequestTopic(name=name, count=count, assignments=assignments) for name, count in topics]
    return create_partitions.Request(topics=wanted, **{"timeout_ms": 30_000, "validate_only": False, **fields})


def ask_for(*names: str | None, ids: Sequence[UUID] = (), create: bool = False) -> Any:
    """A Metadata of these topics."""
    wanted = [metadata.RequestTopic(name=name) for name in names]
    wanted += [metadata.RequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return metadata.Request(topics=wanted, allow_auto_topic_creation=create)


def page(*names: str, at: tuple[str, int] | None = None, limit: int = 100) -> Any:
    """A DescribeTopicPartitions."""
    cursor = None if at is None else describe_topic_partitions.Cursor(topic_name=at[0], partition_index=at[1])
    topics = [describe_topic_partitions.RequestTopic(name=name) for name in names]
    return describe_topic_partitions.Request(topics=topics, response_partition_limit=limit, cursor=cursor)


def named(world: World, name: str) -> str:
    """A new name that the pinned texts call {new}."""
    world.made["new"] = unique(name)
    return world.made["new"]


def spare(world: World) -> tuple[str, UUID]:
    """A new topic that may go, called {new}; its name and id."""
    name = named(world, "spare")
    (made,) = world.ask(create_topics.API, create(name)).topics
    assert made.error_code == 0, made.error_message
    return name, made.topic_id


def both(world: World) -> Any:
    """A DeleteTopics that names a topic by its name and by its id."""
    name, topic_id = spare(world)
    return delete(name, ids=[topic_id])


CREATE = create_topics.API
DELETE = delete_topics.API
GROW = create_partitions.API
METADATA = metadata.API
PAGE = describe_topic_partitions.API

CASES = [
    Case("exists", CREATE, lambda w: create(w.topic), "TOPIC_ALREADY_EXISTS: Topic '{topic}' already exists."),
    Case("exists, in the oldest version", CREATE, lambda w: create(w.topic),
         "TOPIC_ALREADY_EXISTS: Topic '{topic}' already exists.", version=2),
    Case("exists, validated", CREATE, lambda w: create(w.topic, validate_only=True),
         "TOPIC_ALREADY_EXISTS: Topic '{topic}' already exists."),
    Case("no name", CREATE, lambda w: create(""),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: the empty string is not allowed"),
    Case("name is a dot", CREATE, lambda w: create("."),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: '.' is not allowed"),
    Case("name is two dots", CREATE, lambda w: create(".."),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: '..' is not allowed"),
    Case("name with a slash", CREATE, lambda w: create("a/b"),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a/b' contains one or more characters other than ASCII "
         "alphanumerics, '.', '_' and '-'"),
    Case("name with a space", CREATE, lambda w: create("a b"),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a b' contains one or more characters other than ASCII "
         "alphanumerics, '.', '_' and '-'"),
    Case("name with a letter beyond ASCII", CREATE, lambda w: create("bücher"),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'bücher' contains one or more characters other than "
         "ASCII alphanumerics, '.', '_' and '-'"),
    Case("name with a line break", CREATE, lambda w: create("a\nb"),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a\nb' contains one or more characters other than ASCII "
         "alphanumerics, '.', '_' and '-'"),
    Case("name of 250 characters", CREATE, lambda w: create("x" * 250),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: the length of '{long}' is longer than the max allowed "
         "length 249"),
    Case("name too long, validated", CREATE, lambda w: create("x" * 250, validate_only=True),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: the length of '{long}' is longer than the max allowed "
         "length 249"),
    Case("name differs by a dot", CREATE, lambda w: create(w.topic.replace("_", ".")),
         "INVALID_TOPIC_EXCEPTION: Topic '{dotted}' collides with existing topic: {topic}"),
    Case("name differs by a dot, validated", CREATE, lambda w: create(w.topic.replace("_", "."), validate_only=True),
         "INVALID_TOPIC_EXCEPTION: Topic '{dotted}' collides with existing topic: {topic}"),
    Case("names differ by a dot", CREATE, lambda w: create("one.name", "one_name", validate_only=True), "NONE"),
    Case("partitions 0", CREATE, lambda w: create(named(w, "t"), num_partitions=0),
         "INVALID_PARTITIONS: Number of partitions was set to an invalid non-positive value."),
    Case("partitions -2", CREATE, lambda w: create(named(w, "t"), num_partitions=-2),
         "INVALID_PARTITIONS: Number of partitions was set to an invalid non-positive value."),
    Case("partitions -1", CREATE, lambda w: create(named(w, "t"), num_partitions=-1, validate_only=True), "NONE"),
    Case("replication factor 0", CREATE, lambda w: create(named(w, "t"), replication_factor=0),
         "INVALID_REPLICATION_FACTOR: Replication factor must be larger than 0, or -1 to use the default value."),
    Case("replication factor -2", CREATE, lambda w: create(named(w, "t"), replication_factor=-2),
         "INVALID_REPLICATION_FACTOR: Replication factor must be larger than 0, or -1 to use the default value."),
    Case("replication factor 3", CREATE, lambda w: create(named(w, "t"), replication_factor=3, validate_only=True),
         "INVALID_REPLICATION_FACTOR: Unable to replicate the partition 3 time(s): The target replication factor "
         "of 3 cannot be reached because only 1 broker(s) are registered.", ours="NONE",
         why="copies are Pulsar's business"),
    Case("partitions and assignments", CREATE, lambda w: create(named(w, "t"), **{**assigned([w.node]),
         "num_partitions": 1}),
         "INVALID_REQUEST: A manual partition assignment was specified, but numPartitions was not set to -1."),
    Case("replicas and assignments", CREATE, lambda w: create(named(w, "t"), **{**assigned([w.node]),
         "replication_factor": 1}),
         "INVALID_REQUEST: A manual partition assignment was specified, but replication factor was not set to -1."),
    Case("assignments begin with 1", CREATE, lambda w: create(named(w, "t"), **assigned([w.node], first=1)),
         "INVALID_REPLICA_ASSIGNMENT: partitions should be a consecutive 0-based integer sequence"),
    Case("assignments name a partition twice", CREATE, lambda w: create(named(w, "t"), num_partitions=-1,
         replication_factor=-1, assignments=assigned([w.node])["assignments"] * 2),
         "INVALID_REPLICA_ASSIGNMENT: Found multiple manual partition assignments for partition 0"),
    Case("no replicas assigned", CREATE, lambda w: create(named(w, "t"), **assigned([])),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes an empty replica list."),
    Case("unknown broker assigned", CREATE, lambda w: create(named(w, "t"), **assigned([77])),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 77, but no such broker is "
         "registered."),
    Case("negative broker assigned", CREATE, lambda w: create(named(w, "t"), **assigned([-1])),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker -1, but no such broker is "
         "registered."),
    Case("broker assigned twice", CREATE, lambda w: create(named(w, "t"), **assigned([w.node, w.node])),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes the broker {node} more than once."),
    Case("assignments of different sizes", CREATE, lambda w: create(named(w, "t"), **assigned([w.node], [])),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes an empty replica list."),
    Case("named twice", CREATE, lambda w: create(*[named(w, "t")] * 2), "INVALID_REQUEST: Duplicate topic name."),
    Case("named twice, and exists", CREATE, lambda w: create(*[w.topic] * 2), "INVALID_REQUEST: Duplicate topic name."),
    Case("unknown config", CREATE, lambda w: create(named(w, "t"), **configs(no_such="1")),
         "INVALID_CONFIG: Unknown topic config name: no.such"),
    Case("config without a value", CREATE, lambda w: create(named(w, "t"), **configs(retention_ms=None)),
         "INVALID_CONFIG: Null value not supported for topic configs: retention.ms"),
    Case("config is no number", CREATE, lambda w: create(named(w, "t"), **configs(retention_ms="soon")),
         "INVALID_CONFIG: Invalid value soon for configuration retention.ms: Not a number of type LONG"),
    Case("config is empty", CREATE, lambda w: create(named(w, "t"), **configs(retention_ms="")),
         "INVALID_CONFIG: Invalid value  for configuration retention.ms: Not a number of type LONG"),
    Case("config is too small", CREATE, lambda w: create(named(w, "t"), **configs(retention_ms="-2")),
         "INVALID_CONFIG: Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    Case("config is no codec", CREATE, lambda w: create(named(w, "t"), **configs(compression_type="rar")),
         "INVALID_CONFIG: Invalid value rar for configuration compression.type: String must be one of: "
         "uncompressed, zstd, lz4, snappy, gzip, producer"),
    Case("config is no policy", CREATE, lambda w: create(named(w, "t"), **configs(cleanup_policy="burn")),
         "INVALID_CONFIG: Invalid value burn for configuration cleanup.policy: String must be one of: compact, "
         "delete"),
    Case("config is no boolean", CREATE, lambda w: create(named(w, "t"), **configs(preallocate="perhaps")),
         "INVALID_CONFIG: Invalid value perhaps for configuration preallocate: Expected value to be either true or "
         "false"),
    Case("unknown config, validated", CREATE, lambda w: create(named(w, "t"), validate_only=True,
         **configs(no_such="1")), "INVALID_CONFIG: Unknown topic config name: no.such"),
    Case("wrong name and unknown config", CREATE, lambda w: create("a b", **configs(no_such="1")),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a b' contains one or more characters other than ASCII "
         "alphanumerics, '.', '_' and '-'"),
    Case("exists and partitions 0", CREATE, lambda w: create(w.topic, num_partitions=0),
         "TOPIC_ALREADY_EXISTS: Topic '{topic}' already exists."),
    Case("unknown config and partitions 0", CREATE, lambda w: create(named(w, "t"), num_partitions=0,
         **configs(no_such="1")), "INVALID_CONFIG: Unknown topic config name: no.such"),
    Case("partitions 0 and replication factor 0", CREATE, lambda w: create(named(w, "t"), num_partitions=0,
         replication_factor=0),
         "INVALID_REPLICATION_FACTOR: Replication factor must be larger than 0, or -1 to use the default value."),
    Case("too many partitions", CREATE, lambda w: create(named(w, "t"), num_partitions=10_001, validate_only=True),
         "POLICY_VIOLATION: Excessively large number of partitions per request."),
    Case("timeout 0", CREATE, lambda w: create(named(w, "t"), timeout_ms=0), "REQUEST_TIMED_OUT",
         ours="REQUEST_TIMED_OUT: Pulsar has not created the topic in time",
         why="Kafka says no more than the code"),
    Case("one wrong name of two", CREATE, lambda w: create(named(w, "t"), "a b", validate_only=True),
         "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a b' contains one or more characters other than ASCII "
         "alphanumerics, '.', '_' and '-'"),
    Case("no topics", CREATE, lambda w: create(), "NONE"),
    Case("validated", CREATE, lambda w: create(named(w, "t"), validate_only=True), "NONE"),
    Case("internal", CREATE, lambda w: create("__consumer_offsets", validate_only=True),
         "TOPIC_ALREADY_EXISTS: Topic '__consumer_offsets' already exists.",
         ours="INVALID_REQUEST: Creation of internal topic __consumer_offsets is prohibited.",
         why="it exists on every Kafka, and never here"),
    Case("internal, of transactions", CREATE, lambda w: create("__transaction_state", validate_only=True),
         "TOPIC_ALREADY_EXISTS: Topic '__transaction_state' already exists.",
         ours="INVALID_REQUEST: Creation of internal topic __transaction_state is prohibited.",
         why="it exists on every Kafka, and never here"),
    Case("metadata of the cluster", CREATE, lambda w: create("__cluster_metadata", validate_only=True),
         "INVALID_REQUEST: Creation of internal topic __cluster_metadata is prohibited."),
    #
    Case("unknown", DELETE, lambda w: delete(w.missing),
         "UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition."),
    Case("unknown, without texts", DELETE, lambda w: delete_topics.Request(topic_names=[w.missing], timeout_ms=30_000),
         "UNKNOWN_TOPIC_OR_PARTITION", version=4),
    Case("unknown id", DELETE, lambda w: delete(ids=[NOWHERE]),
         "UNKNOWN_TOPIC_ID: This server does not host this topic ID."),
    Case("no id", DELETE, lambda w: delete(ids=[UUID(int=0)]),
         "INVALID_REQUEST: Neither topic name nor id were specified."),
    Case("name and id", DELETE, lambda w: delete_topics.Request(topics=[delete_topics.RequestTopic(name=w.topic,
         topic_id=w.topic_id)], timeout_ms=30_000),
         "INVALID_REQUEST: You may not specify both topic name and topic id."),
    Case("named twice", DELETE, lambda w: delete(w.missing, w.missing), "INVALID_REQUEST: Duplicate topic name."),
    Case("exists, named twice", DELETE, lambda w: delete(*[spare(w)[0]] * 2), "INVALID_REQUEST: Duplicate topic name."),
    Case("named by name and by id", DELETE, both,
         "INVALID_REQUEST: The provided topic name maps to an ID that was already supplied."),
    Case("id named twice", DELETE, lambda w: delete(ids=[spare(w)[1]] * 2), "INVALID_REQUEST: Duplicate topic id."),
    Case("wrong name", DELETE, lambda w: delete("a b"),
         "UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition."),
    Case("no name", DELETE, lambda w: delete(""),
         "UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition."),
    Case("internal", DELETE, lambda w: delete("__cluster_metadata"),
         "UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition."),
    #
    Case("unknown", GROW, lambda w: grow((w.missing, 5)), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("wrong name", GROW, lambda w: grow(("a b", 5)), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("fewer", GROW, lambda w: grow((w.topic, 1)),
         "INVALID_PARTITIONS: The topic {topic} currently has 2 partition(s); 1 would not be an increase."),
    Case("as many", GROW, lambda w: grow((w.topic, 2)), "INVALID_PARTITIONS: Topic already has 2 partition(s)."),
    Case("none", GROW, lambda w: grow((w.topic, 0)),
         "INVALID_PARTITIONS: The topic {topic} currently has 2 partition(s); 0 would not be an increase."),
    Case("negative", GROW, lambda w: grow((w.topic, -1)),
         "INVALID_PARTITIONS: The topic {topic} currently has 2 partition(s); -1 would not be an increase."),
    Case("named twice", GROW, lambda w: grow((w.topic, 3), (w.topic, 3)), "INVALID_REQUEST: Duplicate topic name."),
    Case("too few assignments", GROW, lambda w: grow((w.topic, 4), to=[[w.node]]),
         "INVALID_REPLICA_ASSIGNMENT: Attempted to add 2 additional partition(s), but only 1 assignment(s) were "
         "specified."),
    Case("too many assignments", GROW, lambda w: grow((w.topic, 3), to=[[w.node], [w.node]]),
         "INVALID_REPLICA_ASSIGNMENT: Attempted to add 1 additional partition(s), but only 2 assignment(s) were "
         "specified."),
    Case("no replicas", GROW, lambda w: grow((w.topic, 3), to=[[]]),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes an empty replica list."),
    Case("unknown broker", GROW, lambda w: grow((w.topic, 3), to=[[77]]),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 77, but no such broker is "
         "registered."),
    Case("negative broker", GROW, lambda w: grow((w.topic, 3), to=[[-1]]),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker -1, but no such broker is "
         "registered."),
    Case("broker twice", GROW, lambda w: grow((w.topic, 3), to=[[w.node, w.node]]),
         "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes the broker {node} more than once."),
    Case("fewer, validated", GROW, lambda w: grow((w.topic, 1), validate_only=True),
         "INVALID_PARTITIONS: The topic {topic} currently has 2 partition(s); 1 would not be an increase."),
    Case("too many", GROW, lambda w: grow((w.topic, 20_000), validate_only=True), "UNKNOWN_SERVER_ERROR",
         ours="POLICY_VIOLATION: Excessively large number of partitions per request.", why="Kafka fails on it"),
    Case("timeout 0", GROW, lambda w: grow((spare(w)[0], 2), timeout_ms=0), "REQUEST_TIMED_OUT",
         ours="REQUEST_TIMED_OUT: Pulsar has not created the partitions in time",
         why="Kafka says no more than the code"),
    Case("more, validated", GROW, lambda w: grow((w.topic, 3), validate_only=True), "NONE"),
    #
    Case("unknown", METADATA, lambda w: ask_for(w.missing), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("wrong name", METADATA, lambda w: ask_for("a b"), "INVALID_TOPIC_EXCEPTION"),
    Case("wrong name, to be created", METADATA, lambda w: ask_for("a b", create=True), "INVALID_TOPIC_EXCEPTION"),
    Case("name too long", METADATA, lambda w: ask_for("x" * 250, create=True), "INVALID_TOPIC_EXCEPTION"),
    Case("name is a dot", METADATA, lambda w: ask_for(".", create=True), "INVALID_TOPIC_EXCEPTION"),
    Case("no name", METADATA, lambda w: ask_for("", create=True), "INVALID_TOPIC_EXCEPTION"),
    Case("unknown id", METADATA, lambda w: ask_for(ids=[NOWHERE]), "UNKNOWN_TOPIC_ID", version=12),
    Case("name and unknown id", METADATA, lambda w: metadata.Request(topics=[metadata.RequestTopic(name=w.topic,
         topic_id=NOWHERE)]), "UNKNOWN_TOPIC_ID", version=12),
    Case("neither name nor id", METADATA, lambda w: ask_for(None), "UNKNOWN_SERVER_ERROR", version=12,
         ours="INVALID_TOPIC_EXCEPTION", why="Kafka fails on it"),
    Case("differs by a dot, to be created", METADATA, lambda w: ask_for(w.topic.replace("_", "."), create=True),
         "UNKNOWN_TOPIC_OR_PARTITION", ours="INVALID_TOPIC_EXCEPTION",
         why="nothing is created in the background: the client is told at once"),
    Case("internal, to be created", METADATA, lambda w: ask_for("__cluster_metadata", create=True),
         "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("name, which v10 takes alone", METADATA, lambda w: metadata.Request(topics=[metadata.RequestTopic(name=w.topic,
         topic_id=w.topic_id)]), "INVALID_REQUEST", version=10),
    #
    Case("unknown", PAGE, lambda w: page(w.missing), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("internal", PAGE, lambda w: page("__cluster_metadata"), "UNKNOWN_TOPIC_OR_PARTITION"),
    Case("wrong name", PAGE, lambda w: page("a b"), "INVALID_TOPIC_EXCEPTION"),
    Case("cursor at another topic", PAGE, lambda w: page(w.topic, at=("another", 0)), "INVALID_REQUEST"),
    Case("cursor at a negative partition", PAGE, lambda w: page(w.topic, at=(w.topic, -1)), "INVALID_REQUEST"),
    Case("cursor beyond the partitions", PAGE, lambda w: page(w.topic, at=(w.topic, 9)), "NONE"),
    Case("limit 0", PAGE, lambda w: page(w.topic, limit=0), "NONE"),
    Case("limit -1", PAGE, lambda w: page(w.topic, limit=-1), "NONE"),
]  # fmt: skip
