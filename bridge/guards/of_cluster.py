"""The guards of APIs about the cluster: configs, entries, users, quotas, placement, producers and transactions."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from bridge.apis import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_configs,
    describe_log_dirs,
    describe_transactions,
    elect_leaders,
    init_producer_id,
    list_partition_reassignments,
    write_txn_markers,
)
from bridge.guards.guard import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, Guard, Handle, Right, each, whole
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import with_defaults
from bridge.requests.authorization import ERRORS, Checks
from bridge.security.acls import CLUSTER as THE_CLUSTER
from bridge.security.acls import Operation, Resource
from bridge.storage.topics.resources import ResourceType as ConfigResource

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_OF_CONFIGS = {ConfigResource.TOPIC: TOPIC, ConfigResource.GROUP: GROUP}
"""All else is the cluster's."""


def _cluster_or(operation: Operation, refused: Callable[[Any], Any], instead: Right | None = None) -> Guard:
    """A right on the cluster, or another; `refused` makes the response where it is told for each element."""

    async def run(request: Any, checks: Checks, handle: Handle) -> Any:
        if instead is not None and await checks.allows(instead.operation, quietly=True):
            return await handle(request)
        return await handle(request) if await checks.allows(operation) else refused(request)

    return Guard((Right(operation, CLUSTER), *([instead] if instead is not None else ())), run)


def _configs(operation: Operation, told: str, refuse: Callable[[Any, int], Any]) -> Guard:
    """Each resource by its type."""

    async def run(request: Any, checks: Checks, handle: Handle) -> Any:
        by_resource: defaultdict[Resource, list[Any]] = defaultdict(list)
        for one in request.resources:
            kind = _OF_CONFIGS.get(one.resource_type, CLUSTER)
            by_resource[Resource(kind, one.resource_name) if kind is not CLUSTER else THE_CLUSTER].append(one)
        kept, refused = [], []
        for kind in (TOPIC, GROUP, CLUSTER):
            denied = await checks.denied(operation, kind, [one.name for one in by_resource if one.type is kind])
            for resource, resources in by_resource.items():
                if resource.type is kind:
                    is_denied = resource.name in denied
                    kept += [] if is_denied else resources
                    refused += [refuse(one, ERRORS[kind]) for one in resources] if is_denied else []
        request.resources = kept
        response = await handle(request)
        setattr(response, told, [*getattr(response, told), *refused])
        return response

    topic, group = (Right(operation, kind, "of its configs") for kind in (TOPIC, GROUP))
    return Guard((topic, group, Right(operation, CLUSTER, "of the others")), run)


def _not_described(one: describe_configs.RequestResource, code: int) -> describe_configs.Result:
    return describe_configs.Result(
        error_code=code,
        error_message=ErrorCode(code).text,
        resource_type=one.resource_type,
        resource_name=one.resource_name,
        configs=[],
    )


def _not_altered(one: alter_configs.Resource, code: int) -> alter_configs.Result:
    return alter_configs.Result(
        error_code=code,
        error_message=ErrorCode(code).text,
        resource_type=one.resource_type,
        resource_name=one.resource_name,
    )


async def _init_producer_id(request: init_producer_id.Request, checks: Checks, handle: Handle) -> Any:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not await checks.allows(Operation.WRITE, Resource(TRANSACTIONAL_ID, transactional_id)):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return init_producer_id.Response(error_code=error, producer_epoch=-1)
    elif not await _may_be_idempotent(checks):
        return init_producer_id.Response(error_code=_DENIED, producer_epoch=-1)
    return await handle(request)


async def _may_be_idempotent(checks: Checks) -> bool:
    """Who may write to any topic may do so with a producer id (KIP-679)."""
    return (
        await checks.allows(Operation.IDEMPOTENT_WRITE, quietly=True)
        or await checks.allows_any(Operation.WRITE, TOPIC)
        or await checks.allows(Operation.IDEMPOTENT_WRITE)  # tells of the denial
    )


async def _describe_cluster(request: Any, checks: Checks, handle: Handle) -> Any:
    response = await handle(request)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = await checks.cluster_operations()
    return response


def _no_markers(request: write_txn_markers.Request) -> write_txn_markers.Response:
    return write_txn_markers.Response(
        markers=[
            write_txn_markers.ResponseMarker(
                producer_id=marker.producer_id,
                topics=[
                    write_txn_markers.ResponseTopic(
                        name=topic.name,
                        partitions=[
                            write_txn_markers.ResponsePartition(partition_index=index, error_code=_DENIED)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _no_entries_made(request: create_acls.Request) -> create_acls.Response:
    result = create_acls.Result(error_code=_DENIED, error_message=_DENIED.text)
    return create_acls.Response(results=[result] * len(request.creations))


def _no_entries_deleted(request: delete_acls.Request) -> delete_acls.Response:
    result = with_defaults(delete_acls.Result, error_code=_DENIED, error_message=_DENIED.text)
    return delete_acls.Response(filter_results=[result] * len(request.filters))


def _no_moves(request: alter_replica_log_dirs.Request) -> alter_replica_log_dirs.Response:
    return alter_replica_log_dirs.Response(
        results=[
            alter_replica_log_dirs.ResponseTopic(
                topic_name=topic.name,
                partitions=[
                    alter_replica_log_dirs.ResponsePartition(partition_index=index, error_code=_DENIED)
                    for index in topic.partitions
                ],
            )
            for place in request.dirs
            for topic in place.topics
        ]
    )


def _no_elections(request: elect_leaders.Request) -> elect_leaders.Response:
    return elect_leaders.Response(
        error_code=_DENIED,
        replica_election_results=[
            elect_leaders.ResponseTopic(
                topic=topic.topic,
                partition_result=[
                    elect_leaders.ResponsePartition(partition_id=index, error_code=_DENIED, error_message=_DENIED.text)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _no_reassignments(request: alter_partition_reassignments.Request) -> alter_partition_reassignments.Response:
    return alter_partition_reassignments.Response(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=_DENIED,
        error_message=_DENIED.text,
        responses=[
            alter_partition_reassignments.ResponseTopic(
                name=topic.name,
                partitions=[
                    alter_partition_reassignments.ResponsePartition(
                        partition_index=one.partition_index, error_code=_DENIED, error_message=_DENIED.text
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _no_reassignments_told(request: list_partition_reassignments.Request) -> list_partition_reassignments.Response:
    return list_partition_reassignments.Response(
        error_code=_DENIED,
        error_message=_DENIED.text,
        topics=[
            list_partition_reassignments.ResponseTopic(
                name=topic.name,
                partitions=[
                    list_partition_reassignments.ResponsePartition(
                        partition_index=index, replicas=[], adding_replicas=[], removing_replicas=[]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


def _no_directories(request: Any) -> describe_log_dirs.Response:
    return describe_log_dirs.Response(error_code=_DENIED, results=[])


def _no_quotas_set(request: alter_client_quotas.Request) -> alter_client_quotas.Response:
    return alter_client_quotas.Response(
        entries=[
            alter_client_quotas.ResponseEntry(error_code=_DENIED, error_message=_DENIED.text, entity=one.entity)
            for one in request.entries
        ]
    )


def _no_users_changed(request: alter_user_scram_credentials.Request) -> alter_user_scram_credentials.Response:
    users = dict.fromkeys([*(one.name for one in request.deletions), *(one.name for one in request.upsertions)])
    return alter_user_scram_credentials.Response(
        results=[
            alter_user_scram_credentials.Result(user=user, error_code=_DENIED, error_message=_DENIED.text)
            for user in users
        ]
    )


def _no_transaction(transactional_id: str, code: int) -> describe_transactions.State:
    return with_defaults(describe_transactions.State, error_code=code, transactional_id=transactional_id)


_TRANSACTION = Guard((Right(Operation.WRITE, TRANSACTIONAL_ID, "refused to all: there are no transactions yet"),))
_TOKENS = Guard()  # refused to all
GUARDS = {
    17: Guard(),
    18: Guard(),
    22: Guard(
        (
            Right(Operation.IDEMPOTENT_WRITE, CLUSTER, "or WRITE on any topic"),
            Right(Operation.WRITE, TRANSACTIONAL_ID, "if there is one"),
        ),
        _init_producer_id,
    ),
    24: _TRANSACTION,
    25: _TRANSACTION,
    26: _TRANSACTION,
    27: _cluster_or(Operation.CLUSTER_ACTION, _no_markers, Right(Operation.ALTER, CLUSTER, "instead")),
    28: _TRANSACTION,
    29: whole(Operation.DESCRIBE),
    30: _cluster_or(Operation.ALTER, _no_entries_made),
    31: _cluster_or(Operation.ALTER, _no_entries_deleted),
    32: _configs(Operation.DESCRIBE_CONFIGS, "results", _not_described),
    33: _configs(Operation.ALTER_CONFIGS, "responses", _not_altered),
    34: _cluster_or(Operation.ALTER, _no_moves),
    35: _cluster_or(Operation.DESCRIBE, _no_directories),
    36: Guard(),
    38: _TOKENS,
    39: _TOKENS,
    40: _TOKENS,
    41: _TOKENS,
    43: _cluster_or(Operation.ALTER, _no_elections),
    44: _configs(Operation.ALTER_CONFIGS, "responses", _not_altered),
    45: _cluster_or(Operation.ALTER, _no_reassignments),
    46: _cluster_or(Operation.DESCRIBE, _no_reassignments_told),
    48: whole(Operation.DESCRIBE_CONFIGS),
    49: _cluster_or(Operation.ALTER_CONFIGS, _no_quotas_set),
    50: whole(Operation.DESCRIBE),
    51: _cluster_or(Operation.ALTER, _no_users_changed),
    55: whole(Operation.DESCRIBE),
    57: whole(Operation.ALTER),
    60: Guard(
        (Right(Operation.DESCRIBE, CLUSTER, "to be told what one may do with it"),),
        _describe_cluster,
        tells_operations=lambda request: bool(request.include_cluster_authorized_operations),
    ),
    64: whole(Operation.ALTER),
    65: each(
        Operation.DESCRIBE,
        _no_transaction,
        kind=TRANSACTIONAL_ID,
        asked="transactional_ids",
        name="",
        told="transaction_states",
    ),
    66: Guard((Right(Operation.DESCRIBE, TRANSACTIONAL_ID, "to be listed"),)),  # there are none
    74: whole(Operation.DESCRIBE_CONFIGS),
}
