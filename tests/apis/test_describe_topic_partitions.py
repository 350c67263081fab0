"""DescribeTopicPartitions: topics and partitions, page by page."""

from typing import Any

import pytest

from bridge.apis import create_topics, describe_topic_partitions
from bridge.apis.describe_topic_partitions import Cursor, RequestTopic
from bridge.kafka.error_codes import ErrorCode
from tests.apis.wire import ask, unique
from tests.support.bridges import BridgeThread


def page(bridge: BridgeThread, *names: str, limit: int = 2000, cursor: Cursor | None = None) -> Any:
    topics = [RequestTopic(name=name) for name in names]
    request = describe_topic_partitions.Request(topics=topics, response_partition_limit=limit, cursor=cursor)
    return ask(bridge, describe_topic_partitions.API, request)


def listed(answer: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [one.partition_index for one in topic.partitions]) for topic in answer.topics]


@pytest.fixture(scope="module")
def topics(bridge: BridgeThread) -> tuple[str, str, str]:
    """Three topics of 1, 3 and 2 partitions, in the order of their names."""
    prefix = unique("pages")
    names = (f"{prefix}-a", f"{prefix}-b", f"{prefix}-c")
    wanted = [
        create_topics.RequestTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
        for name, count in zip(names, (1, 3, 2), strict=True)
    ]
    made = ask(bridge, create_topics.API, create_topics.Request(topics=wanted)).topics
    assert [one.error_code for one in made] == [0, 0, 0]
    return names


def test_a_partition_has_its_leader_for_its_only_replica(bridge: BridgeThread, topics: tuple[str, str, str]) -> None:
    (topic,) = page(bridge, topics[0]).topics
    (partition,) = topic.partitions
    node = bridge.node_id
    assert (topic.error_code, topic.is_internal, topic.topic_id.int != 0) == (0, False, True)
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (node, [node], [node])
    assert (partition.eligible_leader_replicas, partition.last_known_elr, partition.offline_replicas) == ([], [], [])


def test_pages_follow_one_another_and_miss_nothing(bridge: BridgeThread, topics: tuple[str, str, str]) -> None:
    a, b, c = topics
    for limit, pages in (
        (100, [[(a, [0]), (b, [0, 1, 2]), (c, [0, 1])]]),
        (4, [[(a, [0]), (b, [0, 1, 2])], [(c, [0, 1])]]),
        (2, [[(a, [0]), (b, [0])], [(b, [1, 2])], [(c, [0, 1])]]),
        (0, [[(a, [0])], [(b, [0])], [(b, [1])], [(b, [2])], [(c, [0])], [(c, [1])]]),
    ):
        cursor, found = None, []
        while True:
            answer = page(bridge, c, a, b, limit=limit, cursor=cursor)  # told in the order of the names
            found.append(listed(answer))
            cursor = answer.next_cursor
            if cursor is None:
                break
        assert found == pages


def test_the_next_page_may_begin_with_a_topic_that_does_not_exist(
    bridge: BridgeThread, topics: tuple[str, str, str]
) -> None:
    missing = topics[0] + "-none"
    answer = page(bridge, topics[0], missing, limit=1)
    assert (listed(answer), answer.next_cursor) == ([(topics[0], [0])], Cursor(topic_name=missing, partition_index=0))
    (topic,) = page(bridge, topics[0], missing, cursor=answer.next_cursor).topics
    assert (topic.name, topic.error_code) == (missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_without_names_all_topics_are_described(bridge: BridgeThread, topics: tuple[str, str, str]) -> None:
    everything = listed(page(bridge))
    assert [name for name, _ in everything] == sorted(name for name, _ in everything)
    assert {(topics[0], (0,)), (topics[1], (0, 1, 2))} <= {(name, tuple(found)) for name, found in everything}
    rest = listed(page(bridge, cursor=Cursor(topic_name=topics[1], partition_index=1)))
    assert rest[0] == (topics[1], [1, 2])
    assert [name for name, _ in rest] == [name for name, _ in everything if name >= topics[1]]
