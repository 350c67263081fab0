"""ShareFetch: acquire records of partitions as a member of a share group, and acknowledge those from before (KIP-932).

v1 is the first that is served: 0 was Kafka 4.0's early access. v2 renews locks (KIP-1222), and takes `max_records`
strictly where it is asked to (KIP-1206). Acknowledgements are stored first; the answer waits for records, `max_wait_ms`
at most. It has whole batches, and says which of their offsets the member has acquired.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from bridge.errors import KafkaError
from bridge.fetch.waiting import THROTTLE_MS
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from bridge.kafka.message import Int8, Int16, Int32, Int64, RecordBuffers, Uuid, message, since
from bridge.kafka.share_messages import AcknowledgementBatch
from bridge.requests import acknowledgements, share
from bridge.requests.api import MAX_WAITING_PARTITIONS, Api, Broker, RequestLimit, Right, Rights, ServedBy
from bridge.requests.leadership import LeaderHints
from bridge.requests.rights import GROUP, TOPIC
from bridge.requests.routes import OF_SHARE_GROUP
from bridge.requests.session import Session
from bridge.requests.share import Opened
from bridge.runtime.futures import FutureWaiter, loop_time
from bridge.security.acls import Operation
from bridge.shares.partition import MOST_RANGES, Found, LedPartition
from bridge.shares.partitions import Shares
from bridge.shares.sessions import CLOSES, MOST_PARTITIONS, MOST_SESSIONS, OPENS, Place, ShareSession
from bridge.storage.error_mapping import fetch_error
from bridge.storage.read.log_end import LogEnd
from bridge.telemetry.record_counts import sent

_READ_SECONDS: Final = 2.0
"""For the first records that are not in memory, of all partitions together."""
_MOST_WAIT_SECONDS: Final = 60.0
_UNKNOWN_TO_SHARE_CONSUMERS: Final = frozenset((ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE))
"""Which other consumers know (`ShareFetchCollector.handleInitializeErrors`): they end the program's poll."""
BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
"""Modes in which records are acquired: whole batches, or `max_records` at most (Kafka's `ShareAcquireMode`)."""


@message
class FetchPartition:
    """One partition to read, and what is said of its records."""

    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@message
class FetchTopic:
    """A topic's partitions."""

    topic_id: Uuid
    partitions: list[FetchPartition]


@message
class ForgottenTopic:
    """Partitions that the session is to read no more."""

    topic_id: Uuid
    partitions: list[Int32]


@message
class Request:
    """A member's next records; the session knows the partitions of before."""

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Annotated[Int8, since(2)] = BATCH_OPTIMIZED
    is_renew_ack: Annotated[bool, since(2)] = False
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


@message
class AcquiredRecords:
    """Offsets that the member has now, both within, and the how many-th delivery it is."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@message
class PartitionData:
    """What one partition holds, and whether its acknowledgements are stored."""

    partition_index: Int32
    error_code: Int16
    error_message: str | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    records: RecordBuffers = field(default=(), repr=False)
    acquired_records: list[AcquiredRecords] = field(default_factory=list)


@message
class ResponseTopic:
    """A topic's partitions."""

    topic_id: Uuid
    partitions: list[PartitionData]


@message
class Response:
    """Records of the partitions that have any."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ResponseTopic]
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


@dataclass(slots=True)
class _Partition:
    """What is to be told of one partition."""

    opened: Opened
    acknowledge_error: KafkaError | None = None
    error: KafkaError | None = None
    found: Found | None = None
    is_told: bool = False
    """Though there is nothing but that its acknowledgements are stored."""


async def handle(request: Request, broker: Broker, session: Session) -> Response:
    """Store what is acknowledged, then wait for records; what renews locks brings none, nor what ends the session."""
    group_id, member_id, epoch = request.group_id or "", request.member_id or "", request.share_session_epoch
    shares = share.shares_of(broker, group_id, member_id)
    _check(request)
    until = loop_time() + min(max(request.max_wait_ms, 0) / 1000, _MOST_WAIT_SECONDS)
    asked = share.said_of(request.topics)
    said = {place: batches for place, batches in asked.items() if batches}
    if epoch == OPENS and said:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a session that is opened has nothing to acknowledge")
    if epoch == OPENS and shares.sessions.is_full:  # it would ask again at once
        await asyncio.sleep(max(until - loop_time(), 0))
    found = share.session_of(shares, group_id, member_id, epoch, session)
    if epoch != CLOSES:
        forgotten = ((topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions)
        try:
            shares.sessions.read(found, asked, forgotten)
        except KafkaError:
            await asyncio.sleep(max(until - loop_time(), 0))
            raise
    fetches = epoch != CLOSES and not request.is_renew_ack
    reads = tuple(found.partitions) if fetches else ()
    waits = broker.waiting_fetches.acquire(len(reads))
    try:
        parts = await _opened(shares, found, (*reads, *said) if waits else said, broker, session)
        opened = {place: part.opened for place, part in parts.items()}
        results = await acknowledgements.acknowledged(member_id, said, opened, renews=request.is_renew_ack)
        for place, error in results.items():
            parts[place].acknowledge_error, parts[place].is_told = error, True
        if epoch == CLOSES:
            shares.sessions.close(found, counts=False)
        if fetches and waits:
            await _read(found, reads, parts, request, until, broker, session)
    finally:
        if waits:
            broker.waiting_fetches.release(len(reads))
    lock = round(shares.configs.number(group_id, "share.record.lock.duration.ms"))
    answer = _answer(parts, lock, share.hints_of(broker, session))
    answer.throttle_time_ms = 0 if waits else THROTTLE_MS
    return answer


def _check(request: Request) -> None:
    if request.share_acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the acquire mode is not known")
    wanted = request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records
    if request.is_renew_ack and any(wanted):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a request that renews locks fetches nothing")


async def _opened(
    shares: Shares, found: ShareSession, places: Iterable[Place], broker: Broker, session: Session
) -> dict[Place, _Partition]:
    opened = await share.opened(shares, found, places, broker, session)
    return {place: _Partition(one) for place, one in opened.items()}


async def _read(
    found: ShareSession,
    reads: Sequence[Place],
    parts: dict[Place, _Partition],
    request: Request,
    until: float,
    broker: Broker,
    session: Session,
) -> None:
    """Acquire records as soon as there are any, or leave it at `until`."""
    led: dict[Place, LedPartition] = {}
    for place in reads:
        part = parts[place]
        if isinstance(part.opened.led, KafkaError):
            part.error = part.opened.led
        else:
            led[place] = part.opened.led
    used = list(led.values())
    for one in used:
        one.users += 1
    try:
        while found.is_open and not any(_is_told(part.error) for part in parts.values()):
            waiter = FutureWaiter()
            with _woken_by(used, waiter):
                if await _look(found, led, parts, request, broker, session) or loop_time() >= until:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await waiter.future
    finally:
        for one in used:
            one.users -= 1
            one.close_unused()


@contextmanager
def _woken_by(used: Sequence[LedPartition], waiter: FutureWaiter) -> Iterator[None]:
    """Add the waiter before looking, so that nothing in between is missed."""
    places: list[LedPartition | LogEnd] = [*used, *(one.log.end for one in used)]
    for place in places:
        place.add_waiter(waiter)
    try:
        yield
    finally:
        for place in places:
            place.remove_waiter(waiter)


async def _look(
    found: ShareSession,
    led: dict[Place, LedPartition],
    parts: dict[Place, _Partition],
    request: Request,
    broker: Broker,
    session: Session,
) -> bool:
    """Acquire what is there; whether there is anything to tell. What had records is read last the next time."""
    left = min(request.max_bytes, broker.settings.kafka.max_fetch_bytes, session.remaining_response_bytes())
    most, is_strict = request.max_records, request.share_acquire_mode == RECORD_LIMIT
    until = loop_time() + _READ_SECONDS
    for place, one in list(led.items()):
        if left <= 0 or most <= 0:
            break
        part = parts[place]
        try:
            part.found = await one.acquire(
                found.member_id, most, max(left, 1), _READ_SECONDS, lambda: found.is_open, is_strict=is_strict,
                until=until,
            )  # fmt: skip
        except KafkaError as error:
            part.error = error.bare()
            del led[place]
            continue
        if part.found is not None:
            until = 0.0  # its locks run: what is slow is read for the next request
            left -= sum(map(len, part.found.records))
            most -= sum(acquired.last - acquired.first + 1 for acquired in part.found.acquired)
            if place in found.partitions:
                del found.partitions[place]
                found.partitions[place] = None
    return any(part.found is not None or _is_told(part.error) for part in parts.values())


def _is_told(error: KafkaError | None) -> bool:
    """Clients know no error for a coordinator that is away; they ask again after `max_wait_ms`."""
    return error is not None and error.code != ErrorCode.COORDINATOR_NOT_AVAILABLE


def _answer(parts: dict[Place, _Partition], lock_ms: int, hints: LeaderHints) -> Response:
    answers = defaultdict[Any, list[PartitionData]](list)
    for (topic_id, index), part in parts.items():
        if part.found is not None or part.is_told or _is_told(part.error):
            answers[topic_id].append(_partition(index, part, hints))
    topics = [ResponseTopic(topic_id=topic_id, partitions=found) for topic_id, found in answers.items()]
    return Response(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=lock_ms,
        responses=topics,
        node_endpoints=hints.endpoints,
    )


def _partition(index: int, part: _Partition, hints: LeaderHints) -> PartitionData:
    told = part.error if _is_told(part.error) else None
    code = ErrorCode.NONE if told is None else fetch_error(told.code)
    if code in _UNKNOWN_TO_SHARE_CONSUMERS:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    not_stored = part.acknowledge_error
    acknowledge_code = ErrorCode.NONE if not_stored is None else not_stored.code
    answer = PartitionData(
        partition_index=index,
        error_code=code,
        error_message=None if told is None else told.message or None,
        acknowledge_error_code=acknowledge_code,
        acknowledge_error_message=None if not_stored is None else not_stored.message or None,
        current_leader=share.leader_of(hints, part.opened.topic, index, code or acknowledge_code),
    )
    if part.found is not None:
        led = part.opened.led
        if isinstance(led, LedPartition):
            sent(part.found.records).count(led.log.traffic)
        answer.records = part.found.records
        answer.acquired_records = [
            AcquiredRecords(first_offset=one.first, last_offset=one.last, delivery_count=one.delivery)
            for one in part.found.acquired
        ]
    return answer


API = Api(
    key=78,
    name="ShareFetch",
    min_version=1,
    max_version=2,
    flexible=0,
    handle=handle,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.READ, GROUP), Right(Operation.READ, TOPIC)), share.check_group),
    served_by=ServedBy.LEADER,
    route=OF_SHARE_GROUP,
    long_poll=True,
    waits=True,
    limits=(
        RequestLimit("share sessions of a node and namespace", MOST_SESSIONS, ErrorCode.SHARE_SESSION_LIMIT_REACHED),
        RequestLimit("partitions of their sessions", MOST_PARTITIONS, ErrorCode.SHARE_SESSION_LIMIT_REACHED),
        RequestLimit("ranges of share partitions of a node and namespace", MOST_RANGES, "no new records are given"),
        RequestLimit("partitions that all clients wait for", MAX_WAITING_PARTITIONS, "nothing is read, throttled"),
        RequestLimit("batches of acknowledgements", share.MOST_RANGES, ErrorCode.INVALID_REQUEST),
    ),
)
