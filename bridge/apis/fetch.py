"""Fetch: read record batches of partitions from given offsets on, waiting for new ones.

v1 adds throttle_time_ms; v2 brings messages of magic 1 instead of 0; v3 a limit for the whole answer (KIP-74); v4
record batches of magic 2, the isolation level and aborted transactions; v5 log start offsets; v7 fetch sessions
(KIP-227; session id 0 in the answer declines them); v9 leader epochs; v10 allows zstd (KIP-110); v11 racks (KIP-392);
v12 is flexible. v13 would name topics by their ids.
"""

import asyncio
import time
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from bridge import codec
from bridge.api import MAX_WAITING_PARTITIONS, Api, Broker, RequestLimit, Session
from bridge.cluster import check_epoch
from bridge.codec import message_sets
from bridge.codec.compression import KafkaCodec
from bridge.encoded import Encoded
from bridge.errors import KafkaError
from bridge.futures import TURN, gathered, in_chunks, in_turns
from bridge.kafka import fetch_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_wire import Request, RequestPartition, Response, ResponsePartition, ResponseTopic
from bridge.storage import entries
from bridge.storage.error_mapping import translated
from bridge.storage.partition import PartitionLog
from bridge.storage.read.pending_reads import PendingReads, ReadRequest
from bridge.worker_threads import WorkerThreads

_READ_COMMITTED = 1
_WITHOUT_SESSION = (0, -1)  # a full fetch: the first of a session that is wanted, or the end of any (KIP-227)
_MOST_BYTES = 1 << 27  # of one batch, uncompressed
_WHOLE_MESSAGE, _BATCHES, _ZSTD = 3, 4, 10
"""The versions from which on the first message is whole whatever its size, records come in batches, and may be zstd."""


_MOST_SHARED = 32 * 1024  # bytes of records in an answer that may be the same for others who waited for it
_PAUSE_MS = 100  # that a client is asked to make where too many are waiting
_LONG_LOOK, _RESTS = 0.001, 4  # seconds, and how often its own time a poll rests after a longer look
_COLD_SECONDS = 2.0  # beyond `max_wait_ms`, for the first records from where they are not in memory


@dataclass(slots=True)
class _Part:
    """One partition of a request and what was found for it."""

    topic: str
    wanted: RequestPartition
    log: PartitionLog | None = None
    error: KafkaError | None = None
    records: list[bytes] = field(default_factory=list)
    read: bool = False
    """Whether it was read where that takes time; what comes then comes to memory, while the log is followed."""

    @property
    def place(self) -> ReadRequest:
        """Where to read."""
        return ReadRequest(self.topic, self.wanted.partition, self.wanted.fetch_offset)


async def handle(request: Request, broker: Broker, session: Session) -> Response | Encoded:
    """Answer when there are `min_bytes`, an error, or `max_wait_ms` are over; waiting costs a future, not a poll."""
    if request.session_epoch not in _WITHOUT_SESSION:  # none was ever given out
        return Response(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    loop = asyncio.get_running_loop()
    parts = await _parts(request, broker)
    session.pending_reads.keep_only({part.place for part in parts})
    patient = broker.waiting_fetches.acquire(len(parts))
    wait = max(request.max_wait_ms, 0) / 1000 if patient else 0.0
    poll = _Poll(request, broker, session, parts, loop.time() + wait)
    try:
        answer = await _wait(poll, parts, session)
    finally:
        if patient:
            broker.waiting_fetches.release(len(parts))
    if not patient and isinstance(answer, Response):
        answer.throttle_time_ms = _PAUSE_MS
    return answer


async def _parts(request: Request, broker: Broker) -> list[_Part]:
    """The partitions asked for, of two the last one, as in Kafka (`FullFetchContext`); opened, or with an error."""
    wanted = {(topic.topic, one.partition): one for topic in request.topics for one in topic.partitions}
    parts: list[_Part] = []
    slow: list[_Part] = []
    async for chunk in in_chunks(list(wanted.items())):
        for (topic, _), one in chunk:
            part = _Part(topic, one)
            parts.append(part)
            if not _open_nowait(part, broker):
                slow.append(part)
    if slow:
        await gathered(_open(part, broker) for part in slow)
    return parts


async def _wait(poll: "_Poll", parts: list[_Part], session: Session) -> Response | Encoded:
    loop = asyncio.get_running_loop()
    while True:
        grown: asyncio.Future[None] = loop.create_future()
        logs = [part.log for part in parts if part.log is not None]
        # asked to be told before looking: nothing that comes in between is missed
        for log in logs:
            log.end.add_waiter(grown)
        session.pending_reads.set_waiter(grown)
        try:
            answer = await poll.look(loop.time())
            if answer is not None:
                return answer
            timer = loop.call_at(poll.until, _wake, grown)
            try:
                await grown
            finally:
                timer.cancel()
        finally:
            for log in logs:
                log.end.remove_waiter(grown)
        await poll.rest()


class _Poll:
    """One request until it has its answer; `until`: when it gets it whatever has been found."""

    def __init__(self, request: Request, broker: Broker, session: Session, parts: list[_Part], deadline: float) -> None:
        self.until = deadline
        self._request = request
        self._shared = broker.shared_answers
        self._threads = broker.topics.threads
        self._session = session
        self._parts = parts
        self._deadline = deadline
        self._version = session.api_version
        self._most = min(request.max_bytes, broker.settings.kafka.max_fetch_bytes)
        self._waited = False
        self._rest = 0.0

    async def rest(self) -> None:
        """Wait until it may look again: who asks for many partitions may not look at all whenever one of them grows."""
        if self._rest > _LONG_LOOK:
            await asyncio.sleep(self._rest)

    async def look(self, now: float) -> Response | Encoded | None:
        """The answer, if it is due."""
        request, parts, reads = self._request, self._parts, self._session.pending_reads
        max_bytes = self._most
        if self._version >= _WHOLE_MESSAGE:  # an old client takes a cut message for one that it can never have
            max_bytes = min(max_bytes, self._session.remaining_response_bytes() + reads.reserved)
        key = _key(request, parts, max_bytes, self._version) if self._waited else None
        shared = None if key is None else self._shared.get(key, max(request.min_bytes, 1))
        if shared is not None:
            return shared
        self._waited = True
        began, under_way = time.perf_counter(), False
        async for chunk in in_chunks(parts):
            under_way |= _read(chunk, max_bytes, max(self._deadline - now, _COLD_SECONDS), reads)
        self._rest = _RESTS * (time.perf_counter() - began)
        found = sum(len(batch) for part in parts for batch in part.records)
        enough, self.until = min(request.min_bytes, max_bytes), self._deadline
        if under_way and not found:
            enough, self.until = max(enough, 1), self._deadline + _COLD_SECONDS
        if found < enough and not _settled(parts) and now < self.until:
            return None
        if self._version < _BATCHES:
            await gathered(_to_messages(part, self._version, max_bytes, self._threads) for part in parts)
        elif self._version < _ZSTD:
            _refuse_zstd(parts)
        response = await _response(request, parts, max_bytes)
        if key is not None and 0 < found <= _MOST_SHARED and parts[0].error is None:
            return self._shared.put(key, found, fetch_wire.write(response, self._version))
        return response


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


def _key(request: Request, parts: list[_Part], max_bytes: int, version: int) -> Hashable | None:
    """All that the answer to a Fetch of one partition depends on; None for any other."""
    if len(parts) != 1 or version < _BATCHES:
        return None
    topic, wanted, log = parts[0].topic, parts[0].wanted, parts[0].log
    if log is None or wanted.fetch_offset >= log.end.offset:
        return None
    limit = min(wanted.partition_max_bytes, max_bytes)
    place = topic, wanted.partition, wanted.fetch_offset
    return log, log.end.offset, log.known_start, *place, limit, max_bytes, version, request.isolation_level


def _settled(parts: list[_Part]) -> bool:
    """Whether waiting is of no use: an error must be told at once, and without partitions nothing comes."""
    return not parts or any(part.error is not None for part in parts)


def _open_nowait(part: _Part, broker: Broker) -> bool:
    """Open a partition of a topic that is known already; False where it has to be asked for."""
    topic = broker.topics.cached(part.topic)
    if topic is None:
        return False
    try:
        part.log = broker.topics.log(topic, part.wanted.partition)
        check_epoch(part.wanted.current_leader_epoch)
    except KafkaError as error:
        part.error = error.bare()
    return True


async def _open(part: _Part, broker: Broker) -> None:
    try:
        part.log = await broker.topics.partition(part.topic, part.wanted.partition)
        check_epoch(part.wanted.current_leader_epoch)
    except KafkaError as error:
        part.error = error.bare()


def _read(parts: Sequence[_Part], max_bytes: int, patience: float, reads: PendingReads) -> bool:
    """Read every partition: those in memory at once, the others side by side; whether any read is under way."""
    under_way = False
    until = asyncio.get_running_loop().time() + TURN  # what takes longer is read as what is not in memory is
    for part in parts:
        log, place = part.log, part.place
        if log is None or part.error is not None:
            continue
        if place not in reads:
            limit = max(min(part.wanted.partition_max_bytes, max_bytes), 1)  # at least one batch (KIP-74)
            found = log.read_nowait(part.wanted.fetch_offset, limit, until)
            if found is not None:
                part.records = found
            if found is not None:
                continue
            if part.read and log.is_followed and not log.needs_conversion(part.wanted.fetch_offset):
                continue
            if not reads.can_start:
                under_way = True
                continue
            reads.start(place, log, limit, patience, max_bytes)
        under_way |= _take(part, reads)
    return under_way


def _take(part: _Part, reads: PendingReads) -> bool:
    """Take over what a read has found; True where it has not yet."""
    try:
        found = reads.take(part.place)
    except KafkaError as error:
        part.error = error.bare()
        return False
    if found is None:
        return True
    part.records = found
    part.read = True
    return False


async def _to_messages(part: _Part, version: int, max_bytes: int, threads: WorkerThreads) -> None:
    """Turn what was found into messages that the version knows, the last one cut where the limit is, as by Kafka."""
    limit = max(min(part.wanted.partition_max_bytes, max_bytes), 0)
    offset = part.wanted.fetch_offset
    try:
        while part.records and part.log is not None:
            with translated():
                data = await threads.run(_messages, part.records, version, offset, limit)
                if data:
                    if version >= _WHOLE_MESSAGE:
                        limit = max(limit, message_sets.size_of_first(data))
                    part.records = [data[:limit]]
                    return
                # nothing from the offset on is left in these batches (compaction): old clients do not see them pass
                last = codec.read_header(entries.split(memoryview(part.records[-1]))[-1])
            offset = last.base_offset + last.last_offset_delta + 1
            part.records = await part.log.read(offset, limit, 0.0)
    except KafkaError as error:
        part.error = error.bare()


def _refuse_zstd(parts: list[_Part]) -> None:
    """Topics whose own compression.type is zstd are not for clients of these versions (KIP-110).

    What producers have compressed so of their own accord they get, as from Kafka: they may know it all the same.
    """
    for part in parts:
        if part.log is not None and part.log.plan.codec is KafkaCodec.ZSTD:
            part.error = KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _messages(batches: list[bytes], version: int, offset: int, limit: int) -> bytes:
    magic = 0 if version < 2 else 1
    return message_sets.from_batches(b"".join(batches), magic, offset, max(limit, 1), _MOST_BYTES)


async def _response(request: Request, parts: list[_Part], max_bytes: int) -> Response:
    """The answer within `max_bytes`; the first batch found goes out whatever its size (KIP-74)."""
    left = max_bytes
    nothing_yet = True
    answers: dict[str, list[ResponsePartition]] = {topic.topic: [] for topic in request.topics}
    async for part in in_turns(parts):
        records: list[bytes] = []
        for batch in part.records:
            if len(batch) > left and not (nothing_yet and not records):
                break
            records.append(batch)
            left -= len(batch)
        nothing_yet = nothing_yet and not records
        answers[part.topic].append(_answer(part, records, request.isolation_level))
    return Response(responses=[ResponseTopic(topic=name, partitions=found) for name, found in answers.items()])


def _answer(part: _Part, records: Iterable[bytes], isolation_level: int) -> ResponsePartition:
    index = part.wanted.partition
    if part.error is not None or part.log is None:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if part.error is None else part.error.code
        return ResponsePartition(partition_index=index, error_code=code, high_watermark=-1)
    high_watermark = part.log.end.offset
    return ResponsePartition(
        partition_index=index,
        error_code=ErrorCode.NONE,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=part.log.known_start,
        aborted_transactions=[] if isolation_level == _READ_COMMITTED else None,
        records=list(records),
    )


API = Api(
    key=1,
    name="Fetch",
    min_version=0,
    max_version=12,
    flexible=12,
    handle=handle,
    request=Request,
    response=Response,
    read=fetch_wire.read,
    write=fetch_wire.write,
    read_only=True,
    long_poll=True,
    waits=True,
    limits=(
        RequestLimit("bytes of an answer", "kafka.max_fetch_bytes", "fewer records"),
        RequestLimit("partitions that all clients wait for", MAX_WAITING_PARTITIONS, "answered at once, throttled"),
    ),
)
