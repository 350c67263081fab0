"""What the bad requests are about: a topic, two groups and their members, created on a server."""

from __future__ import annotations

from bridge.apis import (
    consumer_group_heartbeat,
    create_topics,
    describe_cluster,
    describe_log_dirs,
    find_coordinator,
    init_producer_id,
    join_group,
    produce,
    sync_group,
)
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask_at, unique
from tests.clients.model import attempts
from tests.clients.refusals import batches, consumer_groups, groups, records, topics
from tests.clients.refusals.case import World


def world(address: str) -> World:
    """Make it."""
    cluster = ask_at(
        address, describe_cluster.API, describe_cluster.Request(include_cluster_authorized_operations=False)
    )
    places = ask_at(address, describe_log_dirs.API, describe_log_dirs.Request(topics=None))
    topic = unique("bad") + "_requests"
    (made,) = ask_at(address, create_topics.API, topics.create(topic, num_partitions=2)).topics
    assert made.error_code == 0, made.error_message
    found = World(
        address=address, topic=topic, topic_id=made.topic_id, missing=unique("missing"), group=unique("classic"),
        member="", generation=0, consumers=unique("consumers"), consumer="", node=cluster.brokers[0].broker_id,
        directory=places.results[0].log_dir,
    )  # fmt: skip
    for partition in (0, 1):
        _write(found, partition)
    _coordinated(found)
    _join(found)
    _join_new(found)
    return found


def _write(found: World, partition: int) -> None:
    for _ in attempts("a leader"):
        answer = found.ask(produce.API, records.write(found.topic, batches.plain(), partition))
        (one,) = answer.responses[0].partition_responses
        if one.error_code == ErrorCode.NONE:
            break
        assert ErrorCode(one.error_code).retriable, one


def _coordinated(found: World) -> None:
    """Wait for what Kafka sets up when it is first asked for: coordinators, and transactions' state."""
    for kind in (0, 1):
        for _ in attempts("a coordinator"):
            asked = find_coordinator.Request(coordinator_keys=[found.group], key_type=kind)
            if found.ask(find_coordinator.API, asked, 4).coordinators[0].error_code == ErrorCode.NONE:
                break
    wanted = init_producer_id.Request(transactional_id=None, transaction_timeout_ms=0)
    for _ in attempts("producer ids"):
        if found.ask(init_producer_id.API, wanted, 4).error_code == ErrorCode.NONE:
            break


def _join(found: World) -> None:
    """The static member of the classic group; its session is longer than the tests."""
    request = groups.join(found.group, group_instance_id="static", session_timeout_ms=1_800_000)
    for _ in attempts("the classic group"):
        joined = found.ask(join_group.API, request)
        if joined.error_code == ErrorCode.NONE:
            break
        assert ErrorCode(joined.error_code).retriable, joined
    found.member, found.generation = joined.member_id, joined.generation_id
    assignment = [sync_group.Assignment(member_id=found.member, assignment=b"")]
    synced = found.ask(
        sync_group.API,
        groups.sync(found.group, found.member, found.generation, group_instance_id="static", assignments=assignment),
    )
    assert synced.error_code == ErrorCode.NONE


def _join_new(found: World) -> None:
    """The member of the group of the new protocol."""
    found.consumer = unique("consumer")
    request = consumer_groups.beat(found.consumers, found.consumer, subscribed_topic_names=[found.topic])
    for _ in attempts("the group of the new protocol"):
        answer = found.ask(consumer_group_heartbeat.API, request)
        if answer.error_code == ErrorCode.NONE:
            break
        assert ErrorCode(answer.error_code).retriable, answer
