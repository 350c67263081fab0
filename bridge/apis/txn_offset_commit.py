"""TxnOffsetCommit: commit a group's offsets in a transaction (KIP-98).

v2 adds committed_leader_epoch; v3 is flexible and names the member (KIP-447); v4 may answer TRANSACTION_ABORTABLE, and
v5 adds the group to the transaction (both KIP-890).
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from bridge.apis.add_offsets_to_txn import added_by_offsets
from bridge.apis.offset_commit import METADATA_LIMIT
from bridge.errors import KafkaError, Unanswered
from bridge.groups.offsets import Committer
from bridge.groups.store.records import StoredOffset
from bridge.groups.store.visible import TopicPartition
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since
from bridge.requests.api import Api, Broker, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.responses import DeferredResponse
from bridge.requests.rights import GROUP, TOPIC, TRANSACTIONAL_ID, joined, refused
from bridge.requests.routes import OfTransactionalGroup
from bridge.requests.session import Session
from bridge.requests.topics import known_topic
from bridge.requests.transactional import connection_of, transactions_of
from bridge.runtime.futures import gathered_for, in_turns
from bridge.security.acls import Operation, Resource

ADDS = 5
"""The version from which on it adds the group to the transaction."""
_ABORTABLE_FROM = 4
_LOADING_FROM = 2
"""The versions from which on clients know TRANSACTION_ABORTABLE and COORDINATOR_LOAD_IN_PROGRESS."""


@message
class RequestPartition:
    """The offset after the last record consumed."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(2)] = -1
    committed_metadata: str | None


@message
class RequestTopic:
    """A topic's partitions."""

    name: str
    partitions: list[RequestPartition]


@message
class Request:
    """Offsets of one group, committed by a transaction of this producer."""

    transactional_id: str
    group_id: str
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[Int32, since(3)] = -1
    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    topics: list[RequestTopic]


@message
class ResponsePartition:
    """One partition's result."""

    partition_index: Int32
    error_code: Int16


@message
class ResponseTopic:
    """A topic's partitions."""

    name: str
    partitions: list[ResponsePartition]


@message
class Response:
    """The results."""

    throttle_time_ms: Int32 = 0
    topics: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response | DeferredResponse[Response]:
    """Have the offsets stored; they count from when the transaction is committed on."""
    version = session.api_version
    try:
        stored = await _stored(request, broker, session)
    except Unanswered:
        raise
    except KafkaError as error:
        return _answer(request, await _unknown(request, broker), version, error.code)
    return DeferredResponse(stored, lambda errors: _answer(request, errors, version))


async def _stored(
    request: Request, broker: Broker, session: Session
) -> "asyncio.Future[dict[TopicPartition, ErrorCode]]":
    transactional_id, group = request.transactional_id, request.group_id
    transactions = transactions_of(broker, transactional_id)
    producer = request.producer_id, request.producer_epoch
    if not group:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    adds = session.api_version >= ADDS
    connection = None if adds else connection_of(session)

    try:
        transaction = await transactions.stamp_group(transactional_id, *producer, group)
    except KafkaError as error:
        if error.code != ErrorCode.INVALID_TXN_STATE or not adds:
            raise
        await added_by_offsets(broker, transactional_id, producer, group)
        transaction = await transactions.stamp_group(transactional_id, *producer, group)
    member = Committer(request.member_id, request.group_instance_id, request.generation_id)
    return await broker.offsets.commit_in_transaction(
        group,
        member,
        transaction,
        await _wanted(request),
        partial(transactions.refusal, transactional_id, transaction, group, connection),
    )


async def _wanted(request: Request) -> dict[TopicPartition, StoredOffset]:
    return {
        (topic.name, one.partition_index): StoredOffset(
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata or "",
        )
        async for topic in in_turns(request.topics)
        for one in topic.partitions
    }


async def _unknown(request: Request, broker: Broker) -> dict[TopicPartition, ErrorCode]:
    """The errors of partitions that are not there: they are told whatever is wrong with the transaction; none while
    Pulsar does not say."""
    names = (topic.name for topic in request.topics)
    try:
        found = await gathered_for(names, lambda name: known_topic(name, broker))
    except KafkaError:
        return {}
    return {
        (topic.name, one.partition_index): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        async for topic in in_turns(request.topics)
        for one in topic.partitions
        if (there := found[topic.name]) is None or not 0 <= one.partition_index < there.partitions
    }


def _answer(
    request: Request, errors: Mapping[TopicPartition, int], version: int, otherwise: int = ErrorCode.NONE
) -> Response:
    return Response(
        topics=[
            ResponseTopic(
                name=topic.name,
                partitions=[
                    ResponsePartition(
                        partition_index=one.partition_index,
                        error_code=_known(errors.get((topic.name, one.partition_index), otherwise), version),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _known(error: int, version: int) -> ErrorCode:
    """An error as this version knows it."""
    if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error == ErrorCode.INVALID_TXN_STATE and version >= _ABORTABLE_FROM:
        return ErrorCode.TRANSACTION_ABORTABLE
    # no version is told PRODUCER_FENCED, as on Kafka
    return ErrorCode.INVALID_PRODUCER_EPOCH if error == ErrorCode.PRODUCER_FENCED else ErrorCode(error)


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    await checks.require(Operation.WRITE, Resource(TRANSACTIONAL_ID, request.transactional_id))
    await checks.require(Operation.READ, Resource(GROUP, request.group_id))
    refusals = await refused(request, checks, Operation.READ, TOPIC, "topics", "name")
    return refusals if refusals is not None and not request.topics else joined(await rest(request), refusals)


API = Api(
    key=28,
    name="TxnOffsetCommit",
    min_version=0,
    max_version=5,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (Right(Operation.WRITE, TRANSACTIONAL_ID), Right(Operation.READ, GROUP), Right(Operation.READ, TOPIC)),
        _check_rights,
    ),
    route=OfTransactionalGroup(),
    served_by=ServedBy.COORDINATOR,
    limits=(METADATA_LIMIT,),
)
