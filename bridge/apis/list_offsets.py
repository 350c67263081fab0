"""ListOffsets: the offset of a partition's first or last record, or of the first one at or after a time.

v0 returns a list of offsets at which log segments begin; v1 one offset and its timestamp; v2 adds the isolation level
and throttle_time_ms; v4 leader epochs; v6 is flexible; v7 allows the timestamp -3, the record with the highest
timestamp (KIP-734), v8 -4, the first record on the broker's own disk (KIP-405), v9 -5, the last record in
remote storage (KIP-1005); v10 adds a timeout for remote storage (KIP-1075), of which there is none.
"""

import asyncio
from collections import Counter
from dataclasses import field
from typing import Annotated

from bridge.cluster import RECORD_EPOCH
from bridge.errors import KafkaError
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_messages import READ_COMMITTED
from bridge.kafka.message import Int8, Int16, Int32, Int64, message, since, until
from bridge.requests import leadership
from bridge.requests.api import Api, Broker, ServedBy
from bridge.requests.rights import each
from bridge.requests.session import Session
from bridge.runtime.futures import gathered, in_turns
from bridge.security.acls import Operation
from bridge.storage.partition import PartitionLog
from bridge.storage.read.time_lookup import TimeOffset

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
_SINCE = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""The first versions that have these."""
_NEVER = 1 << 15
_KNOWS_NOT_AVAILABLE = 5
"""The first version that has OFFSET_NOT_AVAILABLE; clients below it know another code to try again after (KIP-207)."""
_ENDS_SECONDS = 10.0
"""How long is waited for the ends of a log, of which Pulsar is asked little. A partition that hangs then gets an error,
so that the others in the request have their answer before the client gives all of it up and asks again."""


@message
class RequestPartition:
    """The point in time, or one of the special timestamps above."""

    partition_index: Int32
    current_leader_epoch: Annotated[Int32, since(4)] = -1
    timestamp: Int64
    max_num_offsets: Annotated[Int32, until(0)] = 1


@message
class RequestTopic:
    """One topic's partitions."""

    name: str
    partitions: list[RequestPartition]


@message
class Request:
    """Offsets asked for."""

    replica_id: Int32
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: list[RequestTopic]
    timeout_ms: Annotated[Int32, since(10)] = 0


@message
class ResponsePartition:
    """The offset found and its timestamp; -1 for none."""

    partition_index: Int32
    error_code: Int16
    old_style_offsets: Annotated[list[Int64], until(0)] = field(default_factory=list)
    timestamp: Annotated[Int64, since(1)] = -1
    offset: Annotated[Int64, since(1)] = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


@message
class ResponseTopic:
    """One topic's partitions."""

    name: str
    partitions: list[ResponsePartition]


@message
class Response:
    """Offsets found."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: list[ResponseTopic]


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Look up each partition's offset; times are searched for in Pulsar."""

    version, committed = session.api_version, request.isolation_level == READ_COMMITTED
    times = Counter[tuple[str, int]]()
    async for topic in in_turns(request.topics):
        async for one in in_turns(topic.partitions):
            times[topic.name, one.partition_index] += 1

    async def find(name: str, wanted: RequestPartition) -> ResponsePartition:
        index = wanted.partition_index
        if times[name, index] > 1:
            return ResponsePartition(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)
        searches = wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP
        try:
            async with asyncio.timeout(None if searches else _ENDS_SECONDS):
                return await (
                    _partition(name, wanted, version, broker, committed=committed)
                    if version
                    else _partition_v0(name, wanted, broker)
                )
        except TimeoutError:
            return ResponsePartition(partition_index=index, error_code=ErrorCode.REQUEST_TIMED_OUT)

    async def find_all(wanted: RequestTopic) -> ResponseTopic:
        found = (find(wanted.name, partition) for partition in wanted.partitions)
        return ResponseTopic(name=wanted.name, partitions=await gathered(found))

    return Response(topics=await gathered(map(find_all, request.topics)))


async def _partition(
    name: str, wanted: RequestPartition, version: int, broker: Broker, *, committed: bool
) -> ResponsePartition:
    index = wanted.partition_index
    try:
        if wanted.timestamp < 0 and _SINCE.get(wanted.timestamp, _NEVER) > version:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        log = await leadership.log_of(broker, name, index, wanted.current_leader_epoch)
        found = await _find(log, wanted.timestamp, committed=committed)
    except KafkaError as error:
        is_new = error.code == ErrorCode.OFFSET_NOT_AVAILABLE and version < _KNOWS_NOT_AVAILABLE
        code = ErrorCode.LEADER_NOT_AVAILABLE if is_new else error.code
        return ResponsePartition(partition_index=index, error_code=code)
    if found is None:
        return ResponsePartition(partition_index=index, error_code=ErrorCode.NONE)
    return ResponsePartition(
        partition_index=index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=RECORD_EPOCH,
    )


async def _find(log: PartitionLog, timestamp: int, *, committed: bool) -> TimeOffset | None:
    """`committed`: for a reader of committed records, who gets nothing at or above the last stable offset."""
    if timestamp == LATEST:
        return TimeOffset(await log.latest(committed=committed), -1)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):  # what Pulsar has offloaded is read like the rest
        return TimeOffset(await log.earliest(), -1)
    if timestamp == LATEST_TIERED:  # as a Kafka without remote storage
        return None
    found = await (log.newest() if timestamp == MAX_TIMESTAMP else log.at_time(timestamp))
    if found is not None and committed and found.offset >= await log.latest(committed=True):
        return None
    return found


async def _partition_v0(name: str, wanted: RequestPartition, broker: Broker) -> ResponsePartition:
    index = wanted.partition_index
    try:
        log = await leadership.log_of(broker, name, index)
        offsets = await _find_before(log, wanted.timestamp)
    except KafkaError as error:
        return ResponsePartition(partition_index=index, error_code=error.code)
    most = max(wanted.max_num_offsets, 0)
    return ResponsePartition(partition_index=index, error_code=ErrorCode.NONE, old_style_offsets=offsets[:most])


async def _find_before(log: PartitionLog, timestamp: int) -> list[int]:
    """The first offsets of the segments that were full at that time, and the log end, newest first.

    As `UnifiedLog.legacyFetchOffsetsBefore` for a log of two segments, of which the second begins with the first record
    at or after the time.
    """
    start = await log.earliest()
    if timestamp == EARLIEST:
        return [start]
    found = None if timestamp == LATEST else await log.at_time(timestamp)
    split = await log.latest() if found is None else found.offset
    if split > start:
        return [split, start]
    return [start] if found is None else []


API = Api(
    key=2,
    name="ListOffsets",
    min_version=0,
    max_version=10,
    flexible=6,
    handle=handle,
    request=Request,
    response=Response,
    rights=each(Operation.DESCRIBE),
    served_by=ServedBy.LEADER,
    read_only=True,
)
