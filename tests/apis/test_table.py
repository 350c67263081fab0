"""The advertised table, compared with a written one, and the form of every API file."""

import inspect
from typing import Any, get_type_hints

import pytest

from bridge.apis import load
from bridge.requests.api import Api, ServedBy
from tests.kafka import judge

TABLE = {
    0: ("Produce", 0, 12),
    1: ("Fetch", 0, 17),
    2: ("ListOffsets", 0, 10),
    3: ("Metadata", 0, 13),
    8: ("OffsetCommit", 1, 10),
    9: ("OffsetFetch", 1, 10),
    10: ("FindCoordinator", 0, 6),
    11: ("JoinGroup", 0, 9),
    12: ("Heartbeat", 0, 4),
    13: ("LeaveGroup", 0, 5),
    14: ("SyncGroup", 0, 5),
    15: ("DescribeGroups", 0, 6),
    16: ("ListGroups", 0, 5),
    17: ("SaslHandshake", 0, 1),
    18: ("ApiVersions", 0, 4),
    19: ("CreateTopics", 2, 7),
    20: ("DeleteTopics", 1, 6),
    21: ("DeleteRecords", 0, 2),
    22: ("InitProducerId", 0, 5),
    23: ("OffsetForLeaderEpoch", 2, 4),
    24: ("AddPartitionsToTxn", 0, 5),
    25: ("AddOffsetsToTxn", 0, 4),
    26: ("EndTxn", 0, 5),
    27: ("WriteTxnMarkers", 1, 1),
    28: ("TxnOffsetCommit", 0, 5),
    29: ("DescribeAcls", 1, 3),
    30: ("CreateAcls", 1, 3),
    31: ("DeleteAcls", 1, 3),
    32: ("DescribeConfigs", 1, 4),
    33: ("AlterConfigs", 0, 2),
    34: ("AlterReplicaLogDirs", 1, 2),
    35: ("DescribeLogDirs", 1, 4),
    36: ("SaslAuthenticate", 0, 2),
    37: ("CreatePartitions", 0, 3),
    38: ("CreateDelegationToken", 1, 3),
    39: ("RenewDelegationToken", 1, 2),
    40: ("ExpireDelegationToken", 1, 2),
    41: ("DescribeDelegationToken", 1, 3),
    42: ("DeleteGroups", 0, 2),
    43: ("ElectLeaders", 0, 2),
    44: ("IncrementalAlterConfigs", 0, 1),
    45: ("AlterPartitionReassignments", 0, 1),
    46: ("ListPartitionReassignments", 0, 0),
    47: ("OffsetDelete", 0, 0),
    48: ("DescribeClientQuotas", 0, 1),
    49: ("AlterClientQuotas", 0, 1),
    50: ("DescribeUserScramCredentials", 0, 0),
    51: ("AlterUserScramCredentials", 0, 0),
    55: ("DescribeQuorum", 0, 2),
    57: ("UpdateFeatures", 0, 2),
    60: ("DescribeCluster", 0, 2),
    61: ("DescribeProducers", 0, 0),
    64: ("UnregisterBroker", 0, 0),
    65: ("DescribeTransactions", 0, 0),
    66: ("ListTransactions", 0, 2),
    68: ("ConsumerGroupHeartbeat", 0, 1),
    69: ("ConsumerGroupDescribe", 0, 1),
    74: ("ListConfigResources", 0, 1),
    75: ("DescribeTopicPartitions", 0, 0),
    76: ("ShareGroupHeartbeat", 1, 1),
    77: ("ShareGroupDescribe", 1, 1),
    78: ("ShareFetch", 1, 1),
    79: ("ShareAcknowledge", 1, 1),
    88: ("StreamsGroupHeartbeat", 0, 0),
    89: ("StreamsGroupDescribe", 0, 0),
    90: ("DescribeShareGroupOffsets", 0, 0),
    91: ("AlterShareGroupOffsets", 0, 0),
    92: ("DeleteShareGroupOffsets", 0, 0),
}


def test_the_table_is_the_one_that_clients_were_tested_with() -> None:
    assert {key: (api.name, api.min_version, api.max_version) for key, api in load().items()} == TABLE
    assert list(load()) == sorted(TABLE)


SERVED_BY = {
    ServedBy.LEADER: {
        "Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords", "DescribeProducers",
        "WriteTxnMarkers", "ShareFetch", "ShareAcknowledge",
    },
    ServedBy.COORDINATOR: {
        "OffsetCommit", "OffsetFetch", "OffsetDelete", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup",
        "DescribeGroups", "DeleteGroups", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe",
        "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "DescribeTransactions",
        "ShareGroupHeartbeat", "ShareGroupDescribe", "DescribeShareGroupOffsets", "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets", "StreamsGroupHeartbeat", "StreamsGroupDescribe",
    },
    # of configs those of brokers
    ServedBy.ITSELF: {
        "ListGroups", "DescribeLogDirs", "AlterReplicaLogDirs", "DescribeConfigs", "AlterConfigs",
        "IncrementalAlterConfigs", "ListTransactions",
    },
}  # fmt: skip
"""Kafka's, but for what its controller answers."""


def test_who_serves_what() -> None:
    apis = load().values()
    told = {which: {api.name for api in apis if api.served_by is which} for which in SERVED_BY}
    assert told == SERVED_BY
    assert {api.served_by for api in apis} - SERVED_BY.keys() == {ServedBy.ANY}


NOT_SERVED = {
    # between brokers of share groups
    "InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
    # a broker without a plug-in for them does not offer them either
    "GetTelemetrySubscriptions", "PushTelemetry",
    # controllers' own
    "AddRaftVoter", "RemoveRaftVoter",
}  # fmt: skip
OLDER = {"Produce": 12, "Fetch": 17, "InitProducerId": 5}
"""What is served up to a version before Kafka's last; that of InitProducerId is not stable in Kafka 4.1."""


def test_tools_that_guess_a_version_from_the_table_see_kafka_4_1_but_for_what_is_said_here() -> None:
    kafka = judge.served_by_brokers()
    ours = {api.name: api.max_version for api in load().values()}
    assert kafka.keys() - ours.keys() == NOT_SERVED
    assert {name: ours[name] for name in ours if ours[name] < kafka[name]} == OLDER


@pytest.mark.parametrize("api", load().values(), ids=lambda api: api.name)
def test_a_handler_takes_the_request_and_gives_the_response(api: Api) -> None:
    assert inspect.iscoroutinefunction(api.handle)
    parameters: list[Any] = list(inspect.signature(api.handle).parameters.values())
    assert parameters[0].annotation is api.request
    assert api.response.__name__ in str(inspect.signature(api.handle).return_annotation)
    assert get_type_hints(api.request)
