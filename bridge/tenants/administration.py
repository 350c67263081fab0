"""What clients of a namespace may ask: not what belongs to the whole cluster, as users, permissions and quotas do.

That is administered from the bridge's own namespace: one that could set the password of another tenant's user would be
that user. An API that is in neither list here is not served to tenants: a new one has to be looked at.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api, Broker, Session

TEXT: Final = "This belongs to the whole cluster: clients of a tenant can neither see nor change it."
_CODE: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


OF_THE_CLUSTER: Final = frozenset(
    {
        "AlterClientQuotas", "AlterUserScramCredentials", "CreateAcls", "DeleteAcls", "DescribeAcls",
        "DescribeClientQuotas", "DescribeUserScramCredentials",
    }
)  # fmt: skip
"""The APIs about what belongs to the whole cluster: refused."""

OF_A_NAMESPACE: Final = frozenset(
    {
        "AddOffsetsToTxn", "AddPartitionsToTxn", "AlterConfigs", "AlterPartitionReassignments", "AlterReplicaLogDirs",
        "ApiVersions", "ConsumerGroupDescribe", "ConsumerGroupHeartbeat", "CreateDelegationToken", "CreatePartitions",
        "CreateTopics", "DeleteGroups", "DeleteRecords", "DeleteTopics", "DescribeCluster", "DescribeConfigs",
        "DescribeDelegationToken", "DescribeGroups", "DescribeLogDirs", "DescribeProducers", "DescribeQuorum",
        "DescribeTopicPartitions", "DescribeTransactions", "ElectLeaders", "EndTxn", "ExpireDelegationToken", "Fetch",
        "FindCoordinator", "Heartbeat", "IncrementalAlterConfigs", "InitProducerId", "JoinGroup", "LeaveGroup",
        "ListConfigResources", "ListGroups", "ListOffsets", "ListPartitionReassignments", "ListTransactions",
        "Metadata", "OffsetCommit", "OffsetDelete", "OffsetFetch", "OffsetForLeaderEpoch", "Produce",
        "RenewDelegationToken", "SaslAuthenticate", "SaslHandshake", "SyncGroup", "TxnOffsetCommit",
        "UnregisterBroker", "UpdateFeatures", "WriteTxnMarkers",
    }
)  # fmt: skip
"""The APIs that are about a namespace's own topics and groups, or only show what nodes there are."""


def for_tenants(apis: Mapping[int, Api]) -> dict[int, Api]:
    """The APIs as clients of a namespace that is not the bridge's own are served them."""
    return {
        key: replace(api, handle=_refuse) if api.name in OF_THE_CLUSTER else api
        for key, api in apis.items()
        if api.name in OF_THE_CLUSTER or api.name in OF_A_NAMESPACE
    }


async def _refuse(request: Any, broker: Broker, session: Session) -> Any:
    raise KafkaError(_CODE, TEXT)
