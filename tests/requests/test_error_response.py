"""The answer to an error of the whole request, as it follows from the messages."""

from __future__ import annotations

from typing import Any

import pytest

from bridge import apis
from bridge.apis import (
    delete_groups,
    describe_topic_partitions,
    elect_leaders,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from bridge.kafka import fetch_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import with_defaults
from bridge.requests.api import Api
from bridge.requests.responses import error_codes

APIS: dict[str, Api] = {api.name: api for api in apis.load().values()}
LATE, DENIED = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def told(api: Api, request: Any, version: int, error: int = LATE, text: str = "") -> Any:
    return api.failure(request, error, text, version)


def offsets(*partitions: int) -> list_offsets.Request:
    wanted = [list_offsets.RequestPartition(partition_index=index, timestamp=7) for index in partitions]
    return list_offsets.Request(replica_id=-1, topics=[list_offsets.RequestTopic(name="t", partitions=wanted)])


def test_each_part_has_the_error_and_what_it_is_about_and_nothing_else() -> None:
    (topic,) = told(list_offsets.API, offsets(0, 3), 10).topics
    assert (topic.name, [(one.partition_index, one.error_code) for one in topic.partitions]) == ("t", [(0, 7), (3, 7)])
    assert {one.timestamp for one in topic.partitions} == {-1}


def test_elements_that_are_only_a_name_are_told_by_it() -> None:
    answer = told(delete_groups.API, delete_groups.Request(groups_names=["a", "b"]), 2)
    assert [(one.group_id, one.error_code) for one in answer.results] == [("a", 7), ("b", 7)]


def test_the_error_is_told_as_high_as_the_version_has_a_place_for_it() -> None:
    topics = [offset_fetch.Topic(name="t", partition_indexes=[0, 1])]
    one = offset_fetch.Request(group_id="g", topics=topics)
    several = offset_fetch.Request(groups=[offset_fetch.RequestGroup(group_id="g", topics=topics)])
    for request, version, count in ((one, 1, 2), (one, 2, 1), (several, 8, 1)):
        assert list(error_codes(told(offset_fetch.API, request, version))) == [LATE] * count
    assert {part.committed_offset for part in told(offset_fetch.API, one, 1).topics[0].partitions} == {-1}


def test_topics_that_are_named_by_their_ids_are_told_by_them() -> None:
    topic = offset_commit.RequestTopic(name="t", partitions=[])
    assert told(offset_commit.API, offset_commit.Request(group_id="g", topics=[topic]), 10).topics == [
        offset_commit.ResponseTopic(name="", topic_id=topic.topic_id, partitions=[])
    ]


def test_an_error_without_a_text_has_that_of_its_code_in_the_parts() -> None:
    request = with_defaults(APIS["CreateAcls"].request, creations=[None])
    for said, text in (("why", "why"), ("", "Cluster authorization failed.")):
        (result,) = told(APIS["CreateAcls"], request, 3, DENIED, said).results
        assert (result.error_code, result.error_message) == (DENIED, text)


def test_an_answer_that_has_both_tells_it_in_both() -> None:
    topics = [elect_leaders.RequestTopic(topic="t", partitions=[1])]
    request = elect_leaders.Request(topic_partitions=topics)
    assert list(error_codes(told(elect_leaders.API, request, 2, DENIED))) == [DENIED, DENIED]
    assert list(error_codes(told(elect_leaders.API, request, 0, DENIED))) == [DENIED]


def test_a_request_for_all_is_not_answered_with_nothing() -> None:
    describe, elect = APIS["DescribeTopicPartitions"], elect_leaders.API
    wanted = [with_defaults(describe_topic_partitions.RequestTopic, name="t")]
    assert list(error_codes(told(describe, describe_topic_partitions.Request(topics=wanted), 0))) == [LATE]
    assert told(describe, describe_topic_partitions.Request(topics=[]), 0) is None
    everything = elect_leaders.Request(topic_partitions=None)
    assert [told(elect, everything, version) is None for version in (0, 1)] == [True, False]
    assert told(APIS["DescribeLogDirs"], with_defaults(APIS["DescribeLogDirs"].request), 2) is None


def test_a_request_for_nothing_is_refused_with_nothing() -> None:
    assert told(delete_groups.API, delete_groups.Request(groups_names=[]), 2) == delete_groups.Response(results=[])


@pytest.mark.parametrize("api", [metadata.API, produce.API], ids=lambda api: str(api.name))
def test_no_answer_is_made_where_clients_would_take_it_for_another(api: Api) -> None:
    """A Produce with acks=0 has none."""
    for version in range(api.min_version, api.max_version + 1):
        assert told(api, with_defaults(api.request), version) is None


def test_no_answer_is_made_up_where_the_parts_have_other_names() -> None:
    """Fetch before v7 has no place at the top, and calls a partition's number otherwise in its answers."""
    partition = with_defaults(fetch_wire.RequestPartition, partition=3)
    topic = with_defaults(fetch_wire.RequestTopic, topic="t", partitions=[partition])
    assert told(APIS["Fetch"], with_defaults(fetch_wire.Request, topics=[topic]), 6) is None
