"""DescribeTopicPartitions: topics and their partitions, page by page (KIP-966)."""

from collections.abc import AsyncIterator, Collection
from typing import Any

from bridge.cluster import ClusterSnapshot
from bridge.cluster.membership.view import NO_NODE
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID, Int16, Int32, Uuid, message
from bridge.requests.api import Api, Broker, RequestLimit, Rest, Right, Rights
from bridge.requests.authorization import Checks
from bridge.requests.rights import TOPIC, joined, refused, tell_topic_operations
from bridge.requests.session import Session
from bridge.runtime.futures import gathered, in_chunks
from bridge.security.acls import Operation
from bridge.storage.names import check
from bridge.storage.topics.topic import Topic

NO_OPERATIONS = -(2**31)
MAX_PARTITIONS = 2000
"""The most in one answer, whatever the client asks for (Kafka's max.request.partition.size.limit)."""


@message
class RequestTopic:
    """A topic by name."""

    name: str


@message
class Cursor:
    """A topic, and its partition to begin with."""

    topic_name: str
    partition_index: Int32


@message
class Request:
    """The topics to describe, none for all, and where to begin."""

    topics: list[RequestTopic]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@message
class ResponsePartition:
    """A partition and its leader."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32]


@message
class ResponseTopic:
    """A topic and its partitions, or why there is none."""

    error_code: Int16
    name: str | None
    topic_id: Uuid
    is_internal: bool = False
    partitions: list[ResponsePartition]
    topic_authorized_operations: Int32 = NO_OPERATIONS


@message
class Response:
    """A page of topics, and where the next one begins."""

    throttle_time_ms: Int32 = 0
    topics: list[ResponseTopic]
    next_cursor: Cursor | None = None


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Describe topics in the order of their names until the page is full (`DescribeTopicPartitionsRequestHandler`)."""
    names = {topic.name for topic in request.topics} or set(await broker.topics.names())
    cursor = request.cursor
    if cursor is not None and (cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)):
        return Response(topics=[_refused(topic.name, ErrorCode.INVALID_REQUEST) for topic in request.topics])
    wanted = sorted(name for name in names if cursor is None or name >= cursor.topic_name)
    left = max(min(request.response_partition_limit, MAX_PARTITIONS), 1)
    page, next_cursor = await _page(request, wanted, left, broker)
    cluster = broker.cluster.snapshot  # the whole answer is of one view of the cluster
    reachable = {node.id for node in cluster.nodes_at(session.listener)}
    return Response(
        topics=[one if isinstance(one, ResponseTopic) else _describe(*one, cluster, reachable) for one in page],
        next_cursor=next_cursor,
    )


async def _page(
    request: Request, wanted: list[str], left: int, broker: Broker
) -> tuple[list[ResponseTopic | tuple[Topic, range]], Cursor | None]:
    """The topics and the partitions of each that fit on the page, and where the next one begins."""
    cursor = request.cursor
    page: list[ResponseTopic | tuple[Topic, range]] = []
    async for name, found in _found(wanted, broker):
        if left == 0:
            return page, Cursor(topic_name=name, partition_index=0)
        if isinstance(found, ErrorCode):
            if request.topics:
                page.append(_refused(name, found))
            elif found is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # a topic that was just deleted is left out
                raise KafkaError(found)
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        last = min(first + left, found.partitions)
        page.append((found, range(first, last)))
        if last < found.partitions:
            return page, Cursor(topic_name=name, partition_index=last)
        left -= max(last - first, 0)
    return page, None


async def _found(names: list[str], broker: Broker) -> AsyncIterator[tuple[str, Topic | ErrorCode]]:
    """The topics by name, found in chunks: most pages are full before the last."""
    async for some in in_chunks(names):
        for name, found in zip(some, await gathered(_find(name, broker) for name in some), strict=True):
            yield name, found


async def _find(name: str, broker: Broker) -> Topic | ErrorCode:
    try:
        check(name)
        return await broker.topics.get(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except KafkaError as error:
        return ErrorCode(error.code)


def _refused(name: str, code: int) -> ResponseTopic:
    return ResponseTopic(error_code=code, name=name, topic_id=ZERO_UUID, partitions=[])


def _describe(topic: Topic, indexes: range, cluster: ClusterSnapshot, reachable: Collection[int]) -> ResponseTopic:
    partitions = []
    for index in indexes:
        leader = cluster.named_leader(topic.name, index)
        replicas = [*leader.replicas, *cluster.followers(topic.name, index)]
        error = ErrorCode.LEADER_NOT_AVAILABLE if leader.node is None else ErrorCode.LISTENER_NOT_FOUND
        here = leader.node is not None and leader.node.id in reachable
        partitions.append(
            ResponsePartition(
                error_code=ErrorCode.NONE if here else error,
                partition_index=index,
                leader_id=leader.owner if here else NO_NODE,
                leader_epoch=leader.epoch,
                replica_nodes=replicas,
                isr_nodes=replicas,
                eligible_leader_replicas=[],  # not null, on which the Java client fails
                last_known_elr=[],
                offline_replicas=[] if here else leader.replicas,
            )
        )
    return ResponseTopic(error_code=ErrorCode.NONE, name=topic.name, topic_id=topic.id, partitions=partitions)


def error_response(request: Request, error: int, text: str, version: int) -> Response | None:
    """The error of every topic; None where all are asked for: no topics would be an answer."""
    return Response(topics=[_refused(topic.name, error) for topic in request.topics]) if request.topics else None


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    refusals = None
    if request.topics:
        refusals = await refused(request, checks, Operation.DESCRIBE, TOPIC, "topics", "name")
    else:
        await _name_all(request, checks)
    response = await rest(request) if request.topics else Response(topics=[])
    await tell_topic_operations(response.topics, checks)
    return joined(response, refusals)


async def _name_all(request: Request, checks: Checks) -> None:
    """All that the client may know of, as if it had asked for them."""
    names = set(await checks.broker.topics.names())
    names.difference_update(await checks.denied(Operation.DESCRIBE, TOPIC, names, lists=True))
    if request.cursor is not None and request.cursor.topic_name not in names:  # it was deleted since
        names = {name for name in names if name > request.cursor.topic_name}
        request.cursor = None
    request.topics = [RequestTopic(name=name) for name in names]


API = Api(
    key=75,
    name="DescribeTopicPartitions",
    min_version=0,
    max_version=0,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.DESCRIBE, TOPIC),), _check_rights, lambda request: True),
    error_response=error_response,
    read_only=True,
    limits=(RequestLimit("partitions of an answer", MAX_PARTITIONS, "a cursor to go on from"),),
)
