"""The advertised table, compared with a written one, and the form of every API file."""

import inspect
from typing import Any, get_type_hints

import pytest

from bridge.api import Api
from bridge.apis import load

TABLE = {
    0: ("Produce", 0, 9),
    1: ("Fetch", 0, 12),
    2: ("ListOffsets", 0, 7),
    3: ("Metadata", 0, 12),
    8: ("OffsetCommit", 1, 9),
    9: ("OffsetFetch", 1, 9),
    10: ("FindCoordinator", 0, 4),
    11: ("JoinGroup", 0, 9),
    12: ("Heartbeat", 0, 4),
    13: ("LeaveGroup", 0, 5),
    14: ("SyncGroup", 0, 5),
    15: ("DescribeGroups", 0, 5),
    16: ("ListGroups", 0, 5),
    18: ("ApiVersions", 0, 3),
    19: ("CreateTopics", 2, 7),
    20: ("DeleteTopics", 1, 6),
    21: ("DeleteRecords", 0, 2),
    22: ("InitProducerId", 0, 4),
    23: ("OffsetForLeaderEpoch", 2, 4),
    29: ("DescribeAcls", 1, 3),
    32: ("DescribeConfigs", 1, 4),
    33: ("AlterConfigs", 0, 2),
    35: ("DescribeLogDirs", 1, 4),
    37: ("CreatePartitions", 0, 3),
    42: ("DeleteGroups", 0, 2),
    44: ("IncrementalAlterConfigs", 0, 1),
    46: ("ListPartitionReassignments", 0, 0),
    47: ("OffsetDelete", 0, 0),
    60: ("DescribeCluster", 0, 1),
    68: ("ConsumerGroupHeartbeat", 0, 1),
    69: ("ConsumerGroupDescribe", 0, 1),
}


def test_the_table_is_the_one_that_clients_were_tested_with() -> None:
    assert {key: (api.name, api.min_version, api.max_version) for key, api in load().items()} == TABLE
    assert list(load()) == sorted(TABLE)


@pytest.mark.parametrize("api", load().values(), ids=lambda api: api.name)
def test_a_handler_takes_the_request_and_gives_the_response(api: Api) -> None:
    assert inspect.iscoroutinefunction(api.handle)
    parameters: list[Any] = list(inspect.signature(api.handle).parameters.values())
    assert parameters[0].annotation is api.request
    assert api.response.__name__ in str(inspect.signature(api.handle).return_annotation)
    assert get_type_hints(api.request)
