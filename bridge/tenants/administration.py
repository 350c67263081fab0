"""What clients of a namespace may ask: not what belongs to the whole cluster, as users, permissions and quotas do.

That is administered from the bridge's own namespace: one that could set the password of another tenant's user would be
that user. An API that is in neither list here is not served to tenants: a new one has to be looked at.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from bridge.apis import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_user_scram_credentials,
)
from bridge.kafka.error_codes import ErrorCode
from bridge.requests.api import Api, Broker, Session

TEXT: Final = "This belongs to the whole cluster: clients of a tenant can neither see nor change it."
_CODE: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _describe_acls(request: describe_acls.Request) -> describe_acls.Response:
    return describe_acls.Response(error_code=_CODE, error_message=TEXT)


def _create_acls(request: create_acls.Request) -> create_acls.Response:
    return create_acls.Response(
        results=[create_acls.Result(error_code=_CODE, error_message=TEXT)] * len(request.creations)
    )


def _delete_acls(request: delete_acls.Request) -> delete_acls.Response:
    one = delete_acls.Result(error_code=_CODE, error_message=TEXT, matching_acls=[])
    return delete_acls.Response(filter_results=[one] * len(request.filters))


def _describe_quotas(request: describe_client_quotas.Request) -> describe_client_quotas.Response:
    return describe_client_quotas.Response(error_code=_CODE, error_message=TEXT, entries=None)


def _alter_quotas(request: alter_client_quotas.Request) -> alter_client_quotas.Response:
    refused = alter_client_quotas.ResponseEntry
    entries = [refused(error_code=_CODE, error_message=TEXT, entity=one.entity) for one in request.entries]
    return alter_client_quotas.Response(entries=entries)


def _describe_users(request: describe_user_scram_credentials.Request) -> describe_user_scram_credentials.Response:
    return describe_user_scram_credentials.Response(error_code=_CODE, error_message=TEXT, results=[])


def _alter_users(request: alter_user_scram_credentials.Request) -> alter_user_scram_credentials.Response:
    names = dict.fromkeys([*(one.name for one in request.deletions), *(one.name for one in request.upsertions)])
    refused = alter_user_scram_credentials.Result
    return alter_user_scram_credentials.Response(
        results=[refused(user=name, error_code=_CODE, error_message=TEXT) for name in names]
    )


REFUSALS: Final[Mapping[int, Callable[[Any], Any]]] = {
    describe_acls.API.key: _describe_acls,
    create_acls.API.key: _create_acls,
    delete_acls.API.key: _delete_acls,
    describe_client_quotas.API.key: _describe_quotas,
    alter_client_quotas.API.key: _alter_quotas,
    describe_user_scram_credentials.API.key: _describe_users,
    alter_user_scram_credentials.API.key: _alter_users,
}
"""The answers to what belongs to the whole cluster, by the APIs' keys."""

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
        key: _refused(api) if key in REFUSALS else api
        for key, api in apis.items()
        if key in REFUSALS or api.name in OF_A_NAMESPACE
    }


def _refused(api: Api) -> Api:
    answer = REFUSALS[api.key]

    async def handle(request: Any, broker: Broker, session: Session) -> Any:
        return answer(request)

    return replace(api, handle=handle)
