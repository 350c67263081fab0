"""WriteTxnMarkers: end a transaction in the partitions that it has written to (KIP-98).

Brokers of Kafka send it to each other. Here there are no markers: it is for `kafka-transactions.sh abort` (KIP-664),
and has the coordinator abort the transaction as a whole. v1 is flexible; v2, which tells brokers the protocol, is not
served.
"""

from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import Any

from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message
from bridge.requests import leadership
from bridge.requests.api import Api, Broker, Right, ServedBy
from bridge.requests.audit import AuditedChange
from bridge.requests.rights import CLUSTER, cluster
from bridge.requests.session import Session
from bridge.requests.topics import known_topic
from bridge.requests.transactional import COORDINATOR_AWAY, Question, at_coordinator
from bridge.runtime.futures import gathered, gathered_for
from bridge.security.acls import Operation
from bridge.security.principal import NODE
from bridge.transactions.coordinator import Coordinator
from bridge.transactions.transactions import Change


@message
class RequestTopic:
    """Partitions of a topic."""

    name: str
    partition_indexes: list[Int32]


@message
class RequestMarker:
    """A producer, whether its transaction is committed, and where."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: bool
    topics: list[RequestTopic]
    coordinator_epoch: Int32


@message
class Request:
    """Transactions to end."""

    markers: list[RequestMarker]


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
class ResponseMarker:
    """A producer's partitions."""

    producer_id: Int64
    topics: list[ResponseTopic]


@message
class Response:
    """The results."""

    markers: list[ResponseMarker]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Abort what is open in these partitions; a node asks its coordinator."""
    ended = _ended_for_node if session.principal == NODE else _ended
    return Response(markers=await gathered(ended(one, broker) for one in request.markers))


async def _ended(marker: RequestMarker, broker: Broker) -> ResponseMarker:
    named = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    errors = await gathered_for(named, lambda one: _error_of(_check(*one, marker, broker)))
    led = [one for one, error in errors.items() if error == ErrorCode.NONE]
    if led:
        errors |= dict.fromkeys(led, await _error_of(_abort(marker, led, broker)))
    return _answer(marker, errors)


async def _ended_for_node(marker: RequestMarker, broker: Broker) -> ResponseMarker:
    error = await _error_of(_abort_here(marker, broker))
    return _answer(marker, {(topic.name, index): error for topic in marker.topics for index in topic.partition_indexes})


async def _check(topic: str, index: int, marker: RequestMarker, broker: Broker) -> None:
    await leadership.log_of(broker, topic, index)
    if marker.transaction_result:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "a coordinator alone commits")


async def _abort(marker: RequestMarker, partitions: Iterable[tuple[str, int]], broker: Broker) -> None:
    """Have the producer's transaction aborted, if it is open in one of these partitions."""
    found = await broker.transactions.find_open(marker.producer_id)
    if found is None:
        return
    transactional_id, record = found
    if marker.producer_epoch < record.epoch:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    topics = {name: await known_topic(name, broker) for name, _ in partitions}
    is_named = any((topic := topics[name]) and record.names(topic.id.hex, index) for name, index in partitions)
    if marker.producer_epoch > record.epoch or not is_named:
        return

    async def here(coordinator: Coordinator) -> Change:
        return await coordinator.abort(transactional_id, marker.producer_id, marker.producer_epoch)

    def elsewhere() -> Question:
        return Question(API, API.max_version, Request(markers=[marker]), _error_in)

    await at_coordinator(broker, transactional_id, here, elsewhere)


async def _abort_here(marker: RequestMarker, broker: Broker) -> None:
    """The same where another node has found that it is coordinated here."""
    found = await broker.transactions.find_open(marker.producer_id)
    if found is None:
        return
    coordinator = await broker.transactions.coordinator()
    await coordinator.abort(found[0], marker.producer_id, marker.producer_epoch)


async def _error_of(work: Coroutine[Any, Any, None]) -> ErrorCode:
    try:
        await work
    except KafkaError as error:
        return _known(error.code)
    return ErrorCode.NONE


def _known(error: int) -> ErrorCode:
    """What tools know in an answer: they ask again after this (`AbortTransactionHandler`)."""
    is_passing = error in COORDINATOR_AWAY or error == ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.BROKER_NOT_AVAILABLE if is_passing else ErrorCode(error)


def _error_in(answer: Response) -> int:
    parts = (part for marker in answer.markers for topic in marker.topics for part in topic.partitions)
    return next((part.error_code for part in parts if part.error_code), ErrorCode.NONE)


def _answer(marker: RequestMarker, errors: Mapping[tuple[str, int], ErrorCode]) -> ResponseMarker:
    topics = [
        ResponseTopic(
            name=topic.name,
            partitions=[
                ResponsePartition(partition_index=index, error_code=errors[topic.name, index])
                for index in topic.partition_indexes
            ],
        )
        for topic in marker.topics
    ]
    return ResponseMarker(producer_id=marker.producer_id, topics=topics)


def audit(request: Request, response: Response) -> Iterator[AuditedChange]:
    """The producers whose transactions are not open any more."""
    for asked, answered in zip(request.markers, response.markers, strict=True):
        codes = {part.error_code for topic in answered.topics for part in topic.partitions}
        code = next(iter(codes - {ErrorCode.NONE}), ErrorCode.NONE)
        name = f"{asked.producer_id}, epoch {asked.producer_epoch}"
        yield AuditedChange(code, "producer", name, "open transaction aborted")


API = Api(
    key=27,
    name="WriteTxnMarkers",
    min_version=1,
    max_version=1,
    flexible=1,
    handle=handle,
    request=Request,
    response=Response,
    rights=cluster(Operation.CLUSTER_ACTION, instead=Right(Operation.ALTER, CLUSTER, "instead"), of_a_namespace=True),
    audit=audit,
    served_by=ServedBy.LEADER,
)
