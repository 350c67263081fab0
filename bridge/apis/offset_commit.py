"""OffsetCommit: a group's members, or a client of a group without members, commit how far they have read.

v1 has a commit_timestamp, which moved the expiry and is ignored here; v2 has retention_time_ms in its place, until v4;
v3 adds throttle_time_ms; v6 adds committed_leader_epoch (KIP-320); v7 adds group_instance_id (KIP-345); v8 is
flexible; v9 is for members of the new consumer protocol as well (KIP-848), who name their epoch; v10 names topics by
their ids, so that no client commits to a topic that took the place of another.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Annotated, Any, Protocol
from uuid import UUID

from bridge.errors import KafkaError
from bridge.groups.offsets import Committer
from bridge.groups.store.records import StoredOffset
from bridge.groups.store.visible import TopicPartition
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import ZERO_UUID, Int16, Int32, Int64, Uuid, message, since, until
from bridge.requests.api import Api, Broker, RequestLimit, Rest, Right, Rights, ServedBy
from bridge.requests.authorization import Checks
from bridge.requests.responses import DeferredResponse
from bridge.requests.rights import GROUP, TOPIC, joined, refusal, take_out
from bridge.requests.routes import OF_GROUP
from bridge.requests.session import Session
from bridge.requests.topics import has_many, topic_by_id
from bridge.runtime.futures import gathered_for, in_turns
from bridge.security.acls import Operation, Resource

BY_ID = 10
"""The version from which on topics are named by their ids alone."""
METADATA_LIMIT = RequestLimit(
    "characters (UTF-16) of an offset's metadata",
    "groups.max_offset_metadata_bytes",
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
)
_LATEST_MS = 2**63 - 1


class Identified(Protocol):
    """A topic of a request."""

    name: str
    topic_id: UUID


@message
class RequestPartition:
    """The offset after the last record consumed."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(6)] = -1
    commit_timestamp: Annotated[Int64, since(1), until(1)] = -1
    committed_metadata: str | None = None


@message
class RequestTopic:
    """A topic's partitions; `topic_id` from v10 on, `name` before."""

    name: Annotated[str, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[RequestPartition] = field(default_factory=list)


@message
class Request:
    """Offsets of one group."""

    group_id: str
    generation_id_or_member_epoch: Int32 = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(7)] = None
    retention_time_ms: Annotated[Int64, since(2), until(4)] = -1
    topics: list[RequestTopic] = field(default_factory=list)


@message
class ResponsePartition:
    """How one went."""

    partition_index: Int32
    error_code: Int16


@message
class ResponseTopic:
    """A topic's partitions; `topic_id` from v10 on, `name` before."""

    name: Annotated[str, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[ResponsePartition] = field(default_factory=list)


@message
class Response:
    """How each went."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: list[ResponseTopic] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response | DeferredResponse[Response]:
    """Have the offsets stored; the connection's next request need not wait for it."""
    generation = request.generation_id_or_member_epoch
    member = Committer(request.member_id, request.group_instance_id, generation, session.api_version)
    by_id = session.api_version >= BY_ID
    if by_id:
        await name_topics(request.topics, broker)
    many = has_many(request.topics)
    try:
        stored = await broker.offsets.commit(request.group_id, member, await _wanted(request, by_id))
        if not many:
            return DeferredResponse(stored, lambda errors: _answer(request, by_id, errors))
        errors, otherwise = await stored, ErrorCode.NONE
    except KafkaError as error:
        errors, otherwise = {}, ErrorCode(error.code)
    if many:
        return await broker.cpu_thread.run(_answer, request, by_id, errors, otherwise)
    return _answer(request, by_id, errors, otherwise)


async def name_topics(topics: Iterable[Identified], broker: Broker) -> None:
    """Fill in the names of topics that are named by their ids; one that is not known has none. KafkaError as
    `topic_by_id`."""
    found = {topic.topic_id: broker.topics.cached_by_id(topic.topic_id) async for topic in in_turns(topics)}
    unknown = [topic_id async for topic_id in in_turns(found) if found[topic_id] is None]
    found |= await gathered_for(unknown, lambda topic_id: topic_by_id(topic_id, broker))
    async for topic in in_turns(topics):
        known = found[topic.topic_id]
        topic.name = "" if known is None else known.name


def _answer(
    request: Request, by_id: bool, errors: Mapping[TopicPartition, ErrorCode], otherwise: int = ErrorCode.NONE
) -> Response:
    asked = [(topic.name, [one.partition_index for one in topic.partitions]) for topic in request.topics]
    topics = topic_responses(asked, errors, otherwise)
    for wanted, topic in zip(request.topics, topics, strict=True):
        topic.topic_id = wanted.topic_id
        if by_id and not wanted.name:
            for partition in topic.partitions:
                partition.error_code = ErrorCode.UNKNOWN_TOPIC_ID
    return Response(topics=topics)


async def _wanted(request: Request, by_id: bool) -> dict[TopicPartition, StoredOffset]:
    chosen = request.retention_time_ms
    # no later than what is stored can say: clients that mean forever choose the largest number
    expires_at = -1 if chosen < 0 else min(time.time_ns() // 1_000_000 + chosen, _LATEST_MS)
    return {
        (topic.name, one.partition_index): StoredOffset(
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata or "",
            expires_at_ms=expires_at,
        )
        async for topic in in_turns(request.topics)
        if topic.name or not by_id
        async for one in in_turns(topic.partitions)
    }


def topic_responses(
    asked: Iterable[tuple[str, list[int]]],
    errors: Mapping[TopicPartition, ErrorCode],
    otherwise: int = ErrorCode.NONE,
) -> list[ResponseTopic]:
    """The errors of topics and their partitions, in the order asked for."""
    return [
        ResponseTopic(
            name=name,
            partitions=[
                ResponsePartition(partition_index=index, error_code=errors.get((name, index), otherwise))
                for index in indexes
            ],
        )
        for name, indexes in asked
    ]


async def _check_rights(request: Request, checks: Checks, rest: Rest) -> Any:
    await checks.require(Operation.READ, Resource(GROUP, request.group_id))
    by_id = checks.session.api_version >= BY_ID
    if by_id:
        await name_topics(request.topics, checks.broker)
    taken = await take_out(request, checks, Operation.READ, TOPIC, "topics", "name", may_lack_name=by_id)
    refusals = await refusal(request, checks, TOPIC, "topics", taken)
    return refusals if taken and not request.topics else joined(await rest(request), refusals)


API = Api(
    key=8,
    name="OffsetCommit",
    min_version=1,
    max_version=10,
    flexible=8,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.READ, GROUP), Right(Operation.READ, TOPIC)), _check_rights),
    route=OF_GROUP,
    served_by=ServedBy.COORDINATOR,
    limits=(METADATA_LIMIT,),
)
