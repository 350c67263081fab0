"""AddPartitionsToTxn: say which partitions a transaction writes to (KIP-98).

v3 is flexible; v4 takes several transactions and may only ask whether a partition is in one (KIP-890): brokers send it;
v5 may answer TRANSACTION_ABORTABLE.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since, until
from bridge.requests.api import Api, Broker, RequestLimit, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.rights import CLUSTER, TOPIC, TRANSACTIONAL_ID
from bridge.requests.routes import OfTransaction
from bridge.requests.session import Session
from bridge.requests.topics import known_topic
from bridge.requests.transactional import (
    Question,
    at_coordinator,
    connection_of,
    done,
    firsts_in,
    transactions_of,
)
from bridge.runtime.futures import gathered, gathered_for, in_turns
from bridge.security.acls import Operation, Resource
from bridge.storage.topics.topic import Topic
from bridge.transactions.coordinator import Coordinator
from bridge.transactions.transactions import Change, Partition

SEVERAL = 4
"""The version from which on brokers send it, for several transactions."""
_ABORTABLE_FROM = 5
_Errors = Mapping[tuple[str, int], int]


@message
class RequestTopic:
    """Partitions of a topic."""

    name: str
    partitions: list[Int32]


@message
class RequestTransaction:
    """A transaction and its partitions."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    verify_only: bool = False
    topics: list[RequestTopic]


@message
class Request:
    """Transactions: `transactions` from v4 on, one before."""

    transactions: Annotated[list[RequestTransaction], since(4)] = field(default_factory=list)
    v3_and_below_transactional_id: Annotated[str, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[list[RequestTopic], until(3)] = field(default_factory=list)


@message
class ResponsePartition:
    """One partition's result."""

    partition_index: Int32
    partition_error_code: Int16


@message
class ResponseTopic:
    """A topic's partitions."""

    name: str
    results_by_partition: list[ResponsePartition]


@message
class ResponseTransaction:
    """A transaction's partitions."""

    transactional_id: str
    topic_results: list[ResponseTopic]


@message
class Response:
    """How each went: `results_by_transaction` from v4 on, the topics of one before."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4)] = 0
    results_by_transaction: Annotated[list[ResponseTransaction], since(4)] = field(default_factory=list)
    results_by_topic_v3_and_below: Annotated[list[ResponseTopic], until(3)] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Name the partitions, all or none; what a node asks is answered for each transaction."""
    if session.api_version >= SEVERAL:
        results = await gathered(_of_node(one, broker, session) for one in request.transactions)
        return Response(results_by_transaction=results)
    topics = request.v3_and_below_topics
    found, errors = await _found(topics, broker)
    if not errors:
        coordinator = await transactions_of(broker, request.v3_and_below_transactional_id).coordinator()
        added = coordinator.add_partitions(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            await _partitions(topics, found),
            firsts_in([(found[topic.name], index) async for topic in in_turns(topics) for index in topic.partitions]),
            protocol=1,
            connection=connection_of(session),
        )
        await done(added, session.api_version)
    return Response(results_by_topic_v3_and_below=_results(topics, errors, _otherwise(errors)))


async def added_by_batches(
    broker: Broker, transactional_id: str, producer: tuple[int, int], written: Sequence[tuple[Topic, int]]
) -> None:
    """Batches of a producer (id, epoch) tell their transaction of these partitions themselves (KIP-890)."""
    names = [Partition(topic.name, topic.id.hex, index) for topic, index in written]

    async def here(coordinator: Coordinator) -> Change:
        return await coordinator.add_partitions(transactional_id, *producer, names, firsts_in(written), protocol=2)

    def elsewhere() -> Question:
        indexes: dict[str, list[int]] = {}
        for topic, index in written:
            indexes.setdefault(topic.name, []).append(index)
        topics = [RequestTopic(name=name, partitions=of_topic) for name, of_topic in indexes.items()]
        one = RequestTransaction(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], topics=topics
        )
        return Question(API, API.max_version, Request(transactions=[one]), _error_in)

    await at_coordinator(broker, transactional_id, here, elsewhere)


def _error_in(answer: Response) -> int:
    """What one transaction's partitions were refused for, if they were."""
    topics = (topic for one in answer.results_by_transaction for topic in one.topic_results)
    errors = {part.partition_error_code for topic in topics for part in topic.results_by_partition}
    return answer.error_code or next(iter(errors - {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}), ErrorCode.NONE)


async def _of_node(one: RequestTransaction, broker: Broker, session: Session) -> ResponseTransaction:
    errors: _Errors = {}
    try:
        found, errors = await _found(one.topics, broker)
        otherwise: int = _otherwise(errors)
        if not errors:
            await _add_or_verify(one, found, broker, session.api_version)
    except KafkaError as error:
        otherwise = error.code
    return ResponseTransaction(
        transactional_id=one.transactional_id, topic_results=_results(one.topics, errors, otherwise)
    )


async def _add_or_verify(one: RequestTransaction, found: Mapping[str, Topic], broker: Broker, version: int) -> None:
    transactions = transactions_of(broker, one.transactional_id)
    partitions = await _partitions(one.topics, found)
    if not one.verify_only:
        coordinator = await transactions.coordinator()
        added = coordinator.add_partitions(
            one.transactional_id, one.producer_id, one.producer_epoch, partitions, {}, protocol=2
        )
        await done(added, version)
        return
    try:
        keys = [(partition.topic_id, partition.index) for partition in partitions]
        await transactions.stamp(one.transactional_id, one.producer_id, one.producer_epoch, keys)
    except KafkaError as error:
        if error.code == ErrorCode.INVALID_TXN_STATE and version >= _ABORTABLE_FROM:
            raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE) from None
        raise


async def _found(topics: Iterable[RequestTopic], broker: Broker) -> tuple[dict[str, Topic], dict[tuple[str, int], int]]:
    """The topics that are there; the errors of partitions that are not. INVALID_REQUEST for more than one may have."""
    if sum(len(topic.partitions) for topic in topics) > broker.settings.transactions.max_partitions:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "more partitions than a transaction may have")
    found = await gathered_for((topic.name for topic in topics), lambda name: known_topic(name, broker))
    errors = {
        (topic.name, index): int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        async for topic in in_turns(topics)
        for index in topic.partitions
        if (there := found[topic.name]) is None or not 0 <= index < there.partitions
    }
    return {name: topic for name, topic in found.items() if topic is not None}, errors


async def _partitions(topics: Iterable[RequestTopic], found: Mapping[str, Topic]) -> list[Partition]:
    return [
        Partition(topic.name, found[topic.name].id.hex, index)
        async for topic in in_turns(topics)
        for index in topic.partitions
    ]


def _otherwise(errors: _Errors) -> ErrorCode:
    """Of the partitions that nothing is wrong with."""
    return ErrorCode.OPERATION_NOT_ATTEMPTED if errors else ErrorCode.NONE


def _results(topics: Iterable[RequestTopic], errors: _Errors, otherwise: int) -> list[ResponseTopic]:
    return [
        ResponseTopic(
            name=topic.name,
            results_by_partition=[
                ResponsePartition(
                    partition_index=index, partition_error_code=errors.get((topic.name, index), otherwise)
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error of every partition, or of the request of a node."""
    if version >= SEVERAL:
        return Response(error_code=error)
    return Response(results_by_topic_v3_and_below=_results(request.v3_and_below_topics, {}, error))


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    if checks.session.api_version >= SEVERAL:
        await checks.require(Operation.CLUSTER_ACTION)
        return await rest(request)
    await checks.require(Operation.WRITE, Resource(TRANSACTIONAL_ID, request.v3_and_below_transactional_id))
    topics = request.v3_and_below_topics
    denied = await checks.denied(Operation.WRITE, TOPIC, {topic.name for topic in topics})
    if not denied:
        return await rest(request)
    allowed = [topic for topic in topics if topic.name not in denied]
    _, errors = await _found(allowed, checks.broker)
    refused = {
        (topic.name, index): int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for topic in topics
        if topic.name in denied
        for index in topic.partitions
    }
    results = _results(topics, {**errors, **refused}, ErrorCode.OPERATION_NOT_ATTEMPTED)
    return Response(results_by_topic_v3_and_below=results)


API = Api(
    key=24,
    name="AddPartitionsToTxn",
    min_version=0,
    max_version=5,
    flexible=3,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights(
        (
            Right(Operation.WRITE, TRANSACTIONAL_ID),
            Right(Operation.WRITE, TOPIC),
            Right(Operation.CLUSTER_ACTION, CLUSTER, "from v4 on"),
        ),
        _check_rights,
    ),
    error_response=error_response,
    route=OfTransaction("v3_and_below_transactional_id"),
    served_by=ServedBy.COORDINATOR,
    limits=(RequestLimit("partitions of a transaction", "transactions.max_partitions", ErrorCode.INVALID_REQUEST),),
)
