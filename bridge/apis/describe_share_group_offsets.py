"""DescribeShareGroupOffsets: where share groups begin to read each partition (KIP-932), and how far behind they are.

The lag is there from v1 on (KIP-1226).
"""

import asyncio
from collections import defaultdict
from contextlib import suppress
from copy import copy
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

from bridge.apis.offset_fetch import MOST_REPEATED, groups_in_order
from bridge.errors import BridgeError, KafkaError
from bridge.kafka.error_codes import ErrorCode, text_of
from bridge.kafka.message import Int16, Int32, Int64, Uuid, message, since
from bridge.kafka.schema import ZERO_UUID
from bridge.requests import leadership
from bridge.requests.api import Api, Broker, RequestLimit, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.rights import GROUP, TOPIC, joined, refused, take_out
from bridge.requests.routes import OfGroups
from bridge.requests.session import Session
from bridge.requests.topics import known_topic
from bridge.runtime.futures import gathered, gathered_for, in_turns
from bridge.security.acls import Operation

_TELLS_LAG: Final = 1
_NOT_KNOWN: Final = -1
_ENDS_SECONDS: Final = 5.0
"""For Pulsar's answers where the partitions of a group end."""


@message
class Topic:
    """Partitions of a topic."""

    topic_name: str
    partitions: list[Int32]


@message
class RequestGroup:
    """A group, and of what; null: all that it has."""

    group_id: str
    topics: list[Topic] | None


@message
class Request:
    """Groups by name."""

    groups: list[RequestGroup]


@message
class ResponsePartition:
    """Where a partition begins for the group, −1: not decided yet; how many records are not done, −1: not known."""

    partition_index: Int32
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, since(1)] = _NOT_KNOWN
    error_code: Int16
    error_message: str | None = None


@message
class ResponseTopic:
    """The partitions of a topic."""

    topic_name: str
    topic_id: Uuid = ZERO_UUID
    partitions: list[ResponsePartition]


@message
class Group:
    """A group, or why it is not described."""

    group_id: str
    topics: list[ResponseTopic]
    error_code: Int16
    error_message: str | None = None


@message
class Response:
    """The groups."""

    throttle_time_ms: Int32 = 0
    groups: list[Group]


_Begun: TypeAlias = defaultdict[tuple[str, int], list[tuple[ResponsePartition, int]]]
"""By topic and partition: all that is told of it, and how many records beyond that start are done."""


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Tell where each partition begins; a group that is not there has begun nowhere, as in Kafka."""
    begun = _Begun(list)
    groups = await groups_in_order(request.groups, lambda one: _describe(one, broker, begun))
    if session.api_version >= _TELLS_LAG:
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDS_SECONDS):
                await gathered(_add_lags(*place, told, broker) for place, told in begun.items())
    return Response(groups=groups)


async def _describe(asked: RequestGroup, broker: Broker, begun: _Begun) -> Group:
    try:
        topics = await _all(asked.group_id, broker) if asked.topics is None else await _some(asked.topics, broker)
        summaries = await broker.groups.share_summaries(
            asked.group_id, [(topic.topic_id, one.partition_index) for topic in topics for one in topic.partitions]
        )
    except KafkaError as error:
        return _refused(asked.group_id, error.code, error.message)
    async for topic in in_turns(topics):
        for one in topic.partitions:
            summary = summaries[topic.topic_id, one.partition_index]
            if summary is not None:
                one.start_offset, one.leader_epoch = summary.start, max(summary.leader_epoch, 0)
                if summary.start >= 0:
                    begun[topic.topic_name, one.partition_index].append((one, summary.done))
    return Group(group_id=asked.group_id, topics=topics, error_code=ErrorCode.NONE)


async def _add_lags(topic: str, partition: int, told: list[tuple[ResponsePartition, int]], broker: Broker) -> None:
    """The lags stay unknown where the partition's end is."""
    with suppress(BridgeError):
        end = await _end(topic, partition, broker)
        async for one, done in in_turns(told):
            one.lag = max(end - one.start_offset - done, 0)


async def _end(topic: str, partition: int, broker: Broker) -> int:
    """Where the partition ends, whoever leads it."""
    try:
        log = await leadership.log_of(broker, topic, partition)
    except KafkaError:
        found = None if broker.closed_logs is None else await broker.closed_logs.end(topic, partition)
        if found is None:
            raise
        return found.offset
    return await log.latest()


async def _all(group_id: str, broker: Broker) -> list[ResponseTopic]:
    """All that a group has, of topics that are there."""
    numbers: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(await broker.groups.share_partitions(group_id)):
        numbers.setdefault(topic_id, []).append(number)
    found = await gathered_for(list(numbers), broker.topics.by_id)
    return [_topic(topic.name, topic_id, numbers[topic_id]) for topic_id, topic in found.items() if topic is not None]


async def _some(asked: list[Topic], broker: Broker) -> list[ResponseTopic]:
    found = await gathered_for([topic.topic_name for topic in asked], lambda name: known_topic(name, broker))
    ids = {name: topic.id for name, topic in found.items() if topic is not None}
    return [_topic(one.topic_name, ids.get(one.topic_name, ZERO_UUID), one.partitions) for one in asked]


def _topic(name: str, topic_id: UUID, partitions: list[int], error: ErrorCode = ErrorCode.NONE) -> ResponseTopic:
    return ResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        partitions=[
            ResponsePartition(
                partition_index=one, start_offset=-1, error_code=error, error_message=text_of(error) if error else None
            )
            for one in partitions
        ],
    )


def error_response(request: Request, error: int, text: str, version: int) -> Response:
    """The error of every group."""
    return Response(groups=[_refused(one.group_id, error, text or text_of(error)) for one in request.groups])


def _refused(group_id: str, error: int, text: str) -> Group:
    return Group(group_id=group_id, topics=[], error_code=error, error_message=text or None)


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    refusals = await refused(request, checks, Operation.DESCRIBE, GROUP, "groups", "group_id")
    request.groups = [copy(group) for group in request.groups]
    hidden = [
        None
        if group.topics is None
        else await take_out(group, checks, Operation.DESCRIBE, TOPIC, "topics", "topic_name")
        for group in request.groups
    ]
    response: Response = await rest(request)
    for group, taken in zip(response.groups, hidden, strict=True):
        if taken is None:
            names = [topic.topic_name for topic in group.topics]
            denied = await checks.denied(Operation.DESCRIBE, TOPIC, names, lists=True)
            group.topics = [topic for topic in group.topics if topic.topic_name not in denied]
        else:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            group.topics += [_topic(one.topic_name, ZERO_UUID, one.partitions, error) for one in taken]
    return joined(response, refusals)


API = Api(
    key=90,
    name="DescribeShareGroupOffsets",
    min_version=0,
    max_version=1,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.DESCRIBE, GROUP), Right(Operation.DESCRIBE, TOPIC)), _check_rights),
    error_response=error_response,
    route=OfGroups("groups", "groups"),
    served_by=ServedBy.COORDINATOR,
    read_only=True,
    limits=(RequestLimit("offsets of groups that are named again", MOST_REPEATED, ErrorCode.INVALID_REQUEST),),
)
