"""OffsetCommit: a group's members, or somebody without any, say how far they have read.

v1 has a commit_timestamp, which moved the expiry and is ignored here; v2 has retention_time_ms in its place, until v4;
v3 adds throttle_time_ms; v6 adds committed_leader_epoch (KIP-320); v7 adds group_instance_id (KIP-345); v8 is
flexible; v9 is for members of the new consumer protocol as well (KIP-848), who name their epoch.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Annotated

from bridge.api import Api, Broker, Later, Session
from bridge.errors import KafkaError
from bridge.groups.offsets import Member, Where
from bridge.groups.records import StoredOffset
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.message import Int16, Int32, Int64, message, since, until


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
    """A topic's partitions."""

    name: str
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
    """A topic's partitions."""

    name: str
    partitions: list[ResponsePartition] = field(default_factory=list)


@message
class Response:
    """How each went."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: list[ResponseTopic] = field(default_factory=list)


async def handle(request: Request, broker: Broker, session: Session) -> Response | Later[Response]:
    """Have the offsets stored; the connection's next request need not wait for it."""
    generation = request.generation_id_or_member_epoch
    member = Member(request.member_id, request.group_instance_id, generation, session.api_version)
    try:
        stored = await broker.offsets.commit(request.group_id, member, _wanted(request))
    except KafkaError as error:
        return Response(topics=told(_asked(request), {}, ErrorCode(error.code)))
    return Later(stored, lambda errors: Response(topics=told(_asked(request), errors)))


def _asked(request: Request) -> list[tuple[str, list[int]]]:
    return [(topic.name, [one.partition_index for one in topic.partitions]) for topic in request.topics]


def _wanted(request: Request) -> dict[Where, StoredOffset]:
    chosen = request.retention_time_ms
    expires_at = -1 if chosen < 0 else time.time_ns() // 1_000_000 + chosen
    return {
        (topic.name, one.partition_index): StoredOffset(
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata or "",
            expires_at_ms=expires_at,
        )
        for topic in request.topics
        for one in topic.partitions
    }


def told(
    asked: Iterable[tuple[str, list[int]]], errors: Mapping[Where, ErrorCode], otherwise: ErrorCode = ErrorCode.NONE
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


API = Api(
    key=8,
    name="OffsetCommit",
    min_version=1,
    max_version=9,
    flexible=8,
    handle=handle,
    request=Request,
    response=Response,
)
