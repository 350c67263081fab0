"""Topics: created, deleted, enlarged, asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from bridge.apis import create_partitions, create_topics, delete_topics, describe_topic_partitions, metadata
from tests.apis.wire import unique
from tests.clients.refusals.case import Case, World

NOWHERE = UUID(int=12345)
PIN: list[str] = []


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
    Case("exists", CREATE, lambda w: create(w.topic), PIN),
    Case("exists, in the oldest version", CREATE, lambda w: create(w.topic), PIN, version=2),
    Case("exists, validated", CREATE, lambda w: create(w.topic, validate_only=True), PIN),
    Case("no name", CREATE, lambda w: create(""), PIN),
    Case("name is a dot", CREATE, lambda w: create("."), PIN),
    Case("name is two dots", CREATE, lambda w: create(".."), PIN),
    Case("name with a slash", CREATE, lambda w: create("a/b"), PIN),
    Case("name with a space", CREATE, lambda w: create("a b"), PIN),
    Case("name with a letter beyond ASCII", CREATE, lambda w: create("bücher"), PIN),
    Case("name with a line break", CREATE, lambda w: create("a\nb"), PIN),
    Case("name of 250 characters", CREATE, lambda w: create("x" * 250), PIN),
    Case("name too long, validated", CREATE, lambda w: create("x" * 250, validate_only=True), PIN),
    Case("name differs by a dot", CREATE, lambda w: create(w.topic.replace("_", ".")), PIN),
    Case("name differs by a dot, validated", CREATE, lambda w: create(w.topic.replace("_", "."), validate_only=True), PIN),
    Case("names differ by a dot", CREATE, lambda w: create("one.name", "one_name", validate_only=True), PIN),
    Case("partitions 0", CREATE, lambda w: create(named(w, "t"), num_partitions=0), PIN),
    Case("partitions -2", CREATE, lambda w: create(named(w, "t"), num_partitions=-2), PIN),
    Case("partitions -1", CREATE, lambda w: create(named(w, "t"), num_partitions=-1, validate_only=True), PIN),
    Case("replication factor 0", CREATE, lambda w: create(named(w, "t"), replication_factor=0), PIN),
    Case("replication factor -2", CREATE, lambda w: create(named(w, "t"), replication_factor=-2), PIN),
    Case("replication factor 3", CREATE, lambda w: create(named(w, "t"), replication_factor=3, validate_only=True), PIN),
    Case("partitions and assignments", CREATE,
         lambda w: create(named(w, "t"), **{**assigned([w.node]), "num_partitions": 1}), PIN),
    Case("replicas and assignments", CREATE,
         lambda w: create(named(w, "t"), **{**assigned([w.node]), "replication_factor": 1}), PIN),
    Case("assignments begin with 1", CREATE, lambda w: create(named(w, "t"), **assigned([w.node], first=1)), PIN),
    Case("assignments name a partition twice", CREATE,
         lambda w: create(named(w, "t"), num_partitions=-1, replication_factor=-1,
                          assignments=assigned([w.node])["assignments"] * 2), PIN),
    Case("no replicas assigned", CREATE, lambda w: create(named(w, "t"), **assigned([])), PIN),
    Case("unknown broker assigned", CREATE, lambda w: create(named(w, "t"), **assigned([77])), PIN),
    Case("negative broker assigned", CREATE, lambda w: create(named(w, "t"), **assigned([-1])), PIN),
    Case("broker assigned twice", CREATE, lambda w: create(named(w, "t"), **assigned([w.node, w.node])), PIN),
    Case("assignments of different sizes", CREATE,
         lambda w: create(named(w, "t"), **assigned([w.node], [])), PIN),
    Case("named twice", CREATE, lambda w: create(*[named(w, "t")] * 2), PIN),
    Case("named twice, and exists", CREATE, lambda w: create(*[w.topic] * 2), PIN),
    Case("unknown config", CREATE, lambda w: create(named(w, "t"), **configs(no_such="1")), PIN),
    Case("config without a value", CREATE, lambda w: create(named(w, "t"), **configs(retention_ms=None)), PIN),
    Case("config is no number", CREATE, lambda w: create(named(w, "t"), **configs(retention_ms="soon")), PIN),
    Case("config is empty", CREATE, lambda w: create(named(w, "t"), **configs(retention_ms="")), PIN),
    Case("config is too small", CREATE, lambda w: create(named(w, "t"), **configs(retention_ms="-2")), PIN),
    Case("config is no codec", CREATE, lambda w: create(named(w, "t"), **configs(compression_type="rar")), PIN),
    Case("config is no policy", CREATE, lambda w: create(named(w, "t"), **configs(cleanup_policy="burn")), PIN),
    Case("config is no boolean", CREATE, lambda w: create(named(w, "t"), **configs(preallocate="perhaps")), PIN),
    Case("unknown config, validated", CREATE,
         lambda w: create(named(w, "t"), validate_only=True, **configs(no_such="1")), PIN),
    Case("wrong name and unknown config", CREATE, lambda w: create("a b", **configs(no_such="1")), PIN),
    Case("exists and partitions 0", CREATE, lambda w: create(w.topic, num_partitions=0), PIN),
    Case("unknown config and partitions 0", CREATE,
         lambda w: create(named(w, "t"), num_partitions=0, **configs(no_such="1")), PIN),
    Case("partitions 0 and replication factor 0", CREATE,
         lambda w: create(named(w, "t"), num_partitions=0, replication_factor=0), PIN),
    Case("too many partitions", CREATE, lambda w: create(named(w, "t"), num_partitions=10_001, validate_only=True), PIN),
    Case("timeout 0", CREATE, lambda w: create(named(w, "t"), timeout_ms=0), PIN),
    Case("one wrong name of two", CREATE, lambda w: create(named(w, "t"), "a b", validate_only=True), PIN),
    Case("no topics", CREATE, lambda w: create(), PIN),
    Case("validated", CREATE, lambda w: create(named(w, "t"), validate_only=True), PIN),
    Case("internal", CREATE, lambda w: create("__consumer_offsets", validate_only=True), PIN),
    Case("internal, of transactions", CREATE, lambda w: create("__transaction_state", validate_only=True), PIN),
    Case("metadata of the cluster", CREATE, lambda w: create("__cluster_metadata", validate_only=True), PIN),
    #
    Case("unknown", DELETE, lambda w: delete(w.missing), PIN),
    Case("unknown, without texts", DELETE,
         lambda w: delete_topics.Request(topic_names=[w.missing], timeout_ms=30_000), PIN, version=4),
    Case("unknown id", DELETE, lambda w: delete(ids=[NOWHERE]), PIN),
    Case("no id", DELETE, lambda w: delete(ids=[UUID(int=0)]), PIN),
    Case("name and id", DELETE, lambda w: delete_topics.Request(
        topics=[delete_topics.RequestTopic(name=w.topic, topic_id=w.topic_id)], timeout_ms=30_000), PIN),
    Case("named twice", DELETE, lambda w: delete(w.missing, w.missing), PIN),
    Case("exists, named twice", DELETE, lambda w: delete(*[spare(w)[0]] * 2), PIN),
    Case("named by name and by id", DELETE, both, PIN),
    Case("id named twice", DELETE, lambda w: delete(ids=[spare(w)[1]] * 2), PIN),
    Case("wrong name", DELETE, lambda w: delete("a b"), PIN),
    Case("no name", DELETE, lambda w: delete(""), PIN),
    Case("internal", DELETE, lambda w: delete("__cluster_metadata"), PIN),
    #
    Case("unknown", GROW, lambda w: grow((w.missing, 5)), PIN),
    Case("wrong name", GROW, lambda w: grow(("a b", 5)), PIN),
    Case("fewer", GROW, lambda w: grow((w.topic, 1)), PIN),
    Case("as many", GROW, lambda w: grow((w.topic, 2)), PIN),
    Case("none", GROW, lambda w: grow((w.topic, 0)), PIN),
    Case("negative", GROW, lambda w: grow((w.topic, -1)), PIN),
    Case("named twice", GROW, lambda w: grow((w.topic, 3), (w.topic, 3)), PIN),
    Case("too few assignments", GROW, lambda w: grow((w.topic, 4), to=[[w.node]]), PIN),
    Case("too many assignments", GROW, lambda w: grow((w.topic, 3), to=[[w.node], [w.node]]), PIN),
    Case("no replicas", GROW, lambda w: grow((w.topic, 3), to=[[]]), PIN),
    Case("unknown broker", GROW, lambda w: grow((w.topic, 3), to=[[77]]), PIN),
    Case("negative broker", GROW, lambda w: grow((w.topic, 3), to=[[-1]]), PIN),
    Case("broker twice", GROW, lambda w: grow((w.topic, 3), to=[[w.node, w.node]]), PIN),
    Case("fewer, validated", GROW, lambda w: grow((w.topic, 1), validate_only=True), PIN),
    Case("too many", GROW, lambda w: grow((w.topic, 20_000), validate_only=True), PIN),
    Case("timeout 0", GROW, lambda w: grow((spare(w)[0], 2), timeout_ms=0), PIN),
    Case("more, validated", GROW, lambda w: grow((w.topic, 3), validate_only=True), PIN),
    #
    Case("unknown", METADATA, lambda w: ask_for(w.missing), PIN),
    Case("wrong name", METADATA, lambda w: ask_for("a b"), PIN),
    Case("wrong name, to be created", METADATA, lambda w: ask_for("a b", create=True), PIN),
    Case("name too long", METADATA, lambda w: ask_for("x" * 250, create=True), PIN),
    Case("name is a dot", METADATA, lambda w: ask_for(".", create=True), PIN),
    Case("no name", METADATA, lambda w: ask_for("", create=True), PIN),
    Case("unknown id", METADATA, lambda w: ask_for(ids=[NOWHERE]), PIN, version=12),
    Case("name and unknown id", METADATA, lambda w: metadata.Request(
        topics=[metadata.RequestTopic(name=w.topic, topic_id=NOWHERE)]), PIN, version=12),
    Case("neither name nor id", METADATA, lambda w: ask_for(None), PIN, version=12),
    Case("differs by a dot, to be created", METADATA, lambda w: ask_for(w.topic.replace("_", "."), create=True), PIN),
    Case("internal, to be created", METADATA, lambda w: ask_for("__cluster_metadata", create=True), PIN),
    Case("name, which v10 takes alone", METADATA, lambda w: metadata.Request(
        topics=[metadata.RequestTopic(name=w.topic, topic_id=w.topic_id)]), PIN, version=10),
    #
    Case("unknown", PAGE, lambda w: page(w.missing), PIN),
    Case("internal", PAGE, lambda w: page("__cluster_metadata"), PIN),
    Case("wrong name", PAGE, lambda w: page("a b"), PIN),
    Case("cursor at another topic", PAGE, lambda w: page(w.topic, at=("another", 0)), PIN),
    Case("cursor at a negative partition", PAGE, lambda w: page(w.topic, at=(w.topic, -1)), PIN),
    Case("cursor beyond the partitions", PAGE, lambda w: page(w.topic, at=(w.topic, 9)), PIN),
    Case("limit 0", PAGE, lambda w: page(w.topic, limit=0), PIN),
    Case("limit -1", PAGE, lambda w: page(w.topic, limit=-1), PIN),
]  # fmt: skip
