"""Fetch: read record batches of partitions from given offsets on, waiting for new ones.

v1 adds throttle_time_ms; v2 brings messages of magic 1 instead of 0; v3 a limit for the whole answer (KIP-74); v4
record batches of magic 2, the isolation level and aborted transactions; v5 log start offsets; v7 fetch sessions
(KIP-227; session id 0 in the answer declines them); v9 leader epochs; v10 allows zstd (KIP-110); v11 racks (KIP-392);
v12 is flexible, and names leaders to clients that ask the wrong node (KIP-951); v13 names topics by their ids
(KIP-516); v14 brings an error of tiered storage; v15 and v17 are about followers; v16 adds the leaders' addresses.
"""

import asyncio
import time
import uuid
from collections.abc import Hashable, Sequence

from bridge import codec, leadership, preferred_replicas
from bridge.api import MAX_WAITING_PARTITIONS, Api, Broker, RequestLimit, ServedBy, Session
from bridge.cluster import Cluster, ClusterSnapshot
from bridge.codec import message_sets
from bridge.codec.compression import KafkaCodec
from bridge.encoded import EncodedBody
from bridge.errors import KafkaError
from bridge.fetch_partitions import FetchPartition, PreferredReplica, opened_partitions
from bridge.futures import TURN, gathered, in_chunks, in_turns
from bridge.kafka import fetch_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_wire import Request, Response, ResponsePartition, ResponseTopic
from bridge.record_counts import sent
from bridge.storage import entries
from bridge.storage.error_mapping import translated
from bridge.storage.read.pending_reads import PendingReads
from bridge.worker_threads import WorkerThreads

_READ_COMMITTED = 1
_NO_SESSION_EPOCHS = (0, -1)  # a full fetch: it asks for a new session, or ends one (KIP-227)
_MAX_BATCH_BYTES = 1 << 27  # of one uncompressed batch
_WHOLE_MESSAGE_VERSION, _BATCHES_VERSION, _ZSTD_VERSION = 3, 4, 10
"""The first versions in which the first message is never cut, records are in batches, and may be compressed by zstd."""

_MAX_SHARED_BYTES = 32 * 1024
"""The records in an answer that is kept for other clients that waited for the same records."""
_THROTTLE_MS = 100  # throttle_time_ms, where too many Fetches wait
_LONG_LOOK_SECONDS, _PAUSE_FACTOR = 0.001, 4
"""After a look at its partitions that took longer, a Fetch pauses for this many times as long."""
_COLD_SECONDS = 2.0  # beyond `max_wait_ms`, for the first records that are not in memory


async def handle(request: Request, broker: Broker, session: Session) -> Response | EncodedBody:
    """Answer when there are `min_bytes`, an error, or `max_wait_ms` are over; waiting costs one future."""
    if request.session_epoch not in _NO_SESSION_EPOCHS:  # no session was ever created
        return Response(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    loop = asyncio.get_running_loop()
    view = broker.cluster.snapshot
    parts = await opened_partitions(request, session.api_version, broker, session)
    if request.rack_id and view.has_racks:
        await preferred_replicas.prefer(request.rack_id, parts, broker)
    session.pending_reads.keep_only({part.position for part in parts})
    may_wait = broker.waiting_fetches.acquire(len(parts))
    wait = max(request.max_wait_ms, 0) / 1000 if may_wait else 0.0
    fetch = _PendingFetch(request, broker, session, parts, loop.time() + wait, view)
    try:
        answer = await _wait(fetch, parts, broker.cluster, session)
    finally:
        if may_wait:
            broker.waiting_fetches.release(len(parts))
    if not may_wait and isinstance(answer, Response):
        answer.throttle_time_ms = _THROTTLE_MS
    return answer


async def _wait(
    fetch: "_PendingFetch", parts: list[FetchPartition], cluster: Cluster, session: Session
) -> Response | EncodedBody:
    loop = asyncio.get_running_loop()
    while True:
        grown: asyncio.Future[None] = loop.create_future()
        logs = [part.log for part in parts if part.log is not None]
        # the waiter is added before looking, so that no record in between is missed
        for log in logs:
            log.end.add_waiter(grown)
        session.pending_reads.set_waiter(grown)
        cluster.add_waiter(grown)
        try:
            if cluster.snapshot is not fetch.view:
                await fetch.check_leaders(cluster)
            answer = await fetch.try_answer(loop.time())
            if answer is not None:
                return answer
            timer = loop.call_at(fetch.until, _wake, grown)
            try:
                await grown
            finally:
                timer.cancel()
        finally:
            cluster.remove_waiter(grown)
            for log in logs:
                log.end.remove_waiter(grown)
        await fetch.pause()


class _PendingFetch:
    """One request until it has its answer; `until`: when it is answered with what there is."""

    def __init__(
        self,
        request: Request,
        broker: Broker,
        session: Session,
        parts: list[FetchPartition],
        deadline: float,
        view: ClusterSnapshot,
    ) -> None:
        self.until = deadline
        self.view = view
        """The view by which this node leads the partitions."""
        self._request = request
        self._shared = broker.shared_responses
        self._threads = broker.topics.threads
        self._session = session
        self._parts = parts
        self._deadline = deadline
        self._version = session.api_version
        self._cluster = broker.cluster
        self._max_bytes = min(request.max_bytes, broker.settings.kafka.max_fetch_bytes)
        if session.fetch_bytes is not None:
            self._max_bytes, session.fetch_bytes = min(self._max_bytes, session.fetch_bytes), None
        self._waited = False
        self._pause_seconds = 0.0

    async def check_leaders(self, cluster: Cluster) -> None:
        """There is another view: of what this node leads no more, the client is told at once."""
        self.view = cluster.snapshot
        async for part in in_turns(self._parts):
            if part.log is None:
                continue
            try:
                epoch = part.wanted.current_leader_epoch
                cluster.check_leader(part.topic, part.wanted.partition, epoch, or_follower=part.or_follower)
            except KafkaError as error:
                part.error, part.log, part.records = error.bare(), None, []

    async def pause(self) -> None:
        """Wait before the next look: a Fetch of many partitions does not look at all of them whenever one grows."""
        if self._pause_seconds > _LONG_LOOK_SECONDS:
            await asyncio.sleep(self._pause_seconds)

    async def try_answer(self, now: float) -> Response | EncodedBody | None:
        """The answer, or None if it is not due yet."""
        request, parts, reads = self._request, self._parts, self._session.pending_reads
        max_bytes = self._max_bytes
        if self._version >= _WHOLE_MESSAGE_VERSION:  # for older clients a cut message is one that is too large
            max_bytes = min(max_bytes, self._session.remaining_response_bytes() + reads.reserved)
        key = _key(request, parts, max_bytes, self._version) if self._waited else None
        shared = None if key is None else self._shared.get(key, max(request.min_bytes, 1))
        if shared is not None:
            return _counted(parts[0], shared)
        self._waited = True
        began, under_way = time.perf_counter(), False
        async for chunk in in_chunks(parts):
            under_way |= _read(chunk, max_bytes, max(self._deadline - now, _COLD_SECONDS), reads)
        self._pause_seconds = _PAUSE_FACTOR * (time.perf_counter() - began)
        found = sum(len(batch) for part in parts for batch in part.records)
        enough, self.until = min(request.min_bytes, max_bytes), self._deadline
        if under_way and not found:
            enough, self.until = max(enough, 1), self._deadline + _COLD_SECONDS
        if found < enough and not _must_answer(parts) and now < self.until:
            return None
        if self._version < _BATCHES_VERSION:
            await gathered(_to_messages(part, self._version, max_bytes, self._threads) for part in parts)
        elif self._version < _ZSTD_VERSION:
            _refuse_zstd(parts)
        response = await _response(
            request, parts, max_bytes, leadership.LeaderHints(self._cluster, self._session.listener)
        )
        if key is not None and 0 < found <= _MAX_SHARED_BYTES and parts[0].error is None:
            return self._shared.put(key, found, fetch_wire.write(response, self._version), parts[0].sent)
        return response


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


def _key(request: Request, parts: list[FetchPartition], max_bytes: int, version: int) -> Hashable | None:
    """All that the answer to a Fetch of one partition depends on; None if the answer cannot be shared."""
    if len(parts) != 1 or version < _BATCHES_VERSION:
        return None
    topic, wanted, log = parts[0].topic, parts[0].wanted, parts[0].log
    if log is None or wanted.fetch_offset >= log.end.offset:
        return None
    limit = min(wanted.partition_max_bytes, max_bytes)
    place = topic, wanted.partition, wanted.fetch_offset
    return log, log.end.offset, log.known_start, *place, limit, max_bytes, version, request.isolation_level


def _must_answer(parts: list[FetchPartition]) -> bool:
    """Whether to answer at once: there are no partitions, an error, or one to be read elsewhere."""
    return not parts or any(part.error is not None or part.preferred is not None for part in parts)


def _read(parts: Sequence[FetchPartition], max_bytes: int, first_timeout: float, reads: PendingReads) -> bool:
    """Read every partition, those not in memory concurrently; whether any read is under way."""
    under_way = False
    until = asyncio.get_running_loop().time() + TURN  # what takes longer is read like what is not in memory
    for part in parts:
        log, position = part.log, part.position
        if log is None or part.error is not None:
            continue
        if position not in reads:
            limit = max(min(part.wanted.partition_max_bytes, max_bytes), 1)  # at least one batch (KIP-74)
            found = log.read_nowait(part.wanted.fetch_offset, limit, until)
            if found is not None:
                part.records = found
                continue
            if part.read and log.is_followed and not log.needs_conversion(part.wanted.fetch_offset):
                continue
            if not reads.can_start:
                under_way = True
                continue
            reads.start(position, log, limit, first_timeout, max_bytes)
        under_way |= _take(part, reads)
    return under_way


def _take(part: FetchPartition, reads: PendingReads) -> bool:
    """Take the result of a read; True if it is still under way."""
    try:
        found = reads.take(part.position)
    except KafkaError as error:
        part.error = error.bare()
        return False
    if found is None:
        return True
    part.records = found
    part.read = True
    return False


async def _to_messages(part: FetchPartition, version: int, max_bytes: int, threads: WorkerThreads) -> None:
    """Convert what was found to messages of the version's magic, the last one cut at the limit, as Kafka does."""
    limit = max(min(part.wanted.partition_max_bytes, max_bytes), 0)
    offset = part.wanted.fetch_offset
    try:
        while part.records and part.log is not None:
            with translated():
                data = await threads.run(_messages, part.records, version, offset, limit)
                if data:
                    if version >= _WHOLE_MESSAGE_VERSION:
                        limit = max(limit, message_sets.size_of_first(data))
                    part.records = [data[:limit]]
                    return
                # these batches have no record from the offset on (compaction): old clients cannot skip them
                last = codec.read_header(entries.split(memoryview(part.records[-1]))[-1])
            offset = last.base_offset + last.last_offset_delta + 1
            part.records = await part.log.read(offset, limit, 0.0)
    except KafkaError as error:
        part.error = error.bare()


def _refuse_zstd(parts: list[FetchPartition]) -> None:
    """Refuse topics whose own compression.type is zstd to clients of these versions (KIP-110).

    Batches that producers have compressed by zstd are sent, as Kafka does: the client may support it all the same.
    """
    for part in parts:
        if part.log is not None and part.log.plan.codec is KafkaCodec.ZSTD:
            part.error = KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _messages(batches: list[bytes], version: int, offset: int, limit: int) -> bytes:
    magic = 0 if version < 2 else 1
    return message_sets.from_batches(b"".join(batches), magic, offset, max(limit, 1), _MAX_BATCH_BYTES)


async def _response(
    request: Request, parts: list[FetchPartition], max_bytes: int, hints: leadership.LeaderHints
) -> Response:
    """The answer within `max_bytes`; the first batch is sent whatever its size (KIP-74)."""
    left = max_bytes
    nothing_yet = True
    answers: dict[tuple[str, uuid.UUID], list[ResponsePartition]] = {
        (topic.topic, topic.topic_id): [] for topic in request.topics
    }
    async for part in in_turns(parts):
        records: list[bytes] = []
        for batch in part.records:
            if len(batch) > left and not (nothing_yet and not records):
                break
            records.append(batch)
            left -= len(batch)
        nothing_yet = nothing_yet and not records
        answers[part.topic, part.topic_id].append(_answer(part, records, request.isolation_level, hints))
    topics = [
        ResponseTopic(topic=name, topic_id=topic_id, partitions=found) for (name, topic_id), found in answers.items()
    ]
    return Response(responses=topics, node_endpoints=hints.endpoints)


def _counted(part: FetchPartition, shared: EncodedBody) -> EncodedBody:
    if part.log is not None:
        shared.sent.count(part.log.traffic)
    return shared


def _answer(
    part: FetchPartition, records: list[bytes], isolation_level: int, hints: leadership.LeaderHints
) -> ResponsePartition:
    index = part.wanted.partition
    if part.preferred is not None:
        return _sent_away(index, part.preferred)
    if part.error is not None or part.log is None:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if part.error is None else part.error.code
        leader = hints.leader(part.topic, index, code)
        return ResponsePartition(partition_index=index, error_code=code, high_watermark=-1, current_leader=leader)
    high_watermark = part.log.end.offset
    if records:
        part.sent = sent(records)
        part.sent.count(part.log.traffic)
    return ResponsePartition(
        partition_index=index,
        error_code=ErrorCode.NONE,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=part.log.known_start,
        aborted_transactions=[] if isolation_level == _READ_COMMITTED else None,
        records=records,
    )


def _sent_away(index: int, preferred: PreferredReplica) -> ResponsePartition:
    """As Kafka's `ReplicaManager.readFromLog` answers: no records, and the offsets as they are here."""
    return ResponsePartition(
        partition_index=index,
        error_code=ErrorCode.NONE,
        high_watermark=preferred.high_watermark,
        last_stable_offset=preferred.high_watermark,
        log_start_offset=preferred.log_start,
        preferred_read_replica=preferred.node,
    )


API = Api(
    key=1,
    name="Fetch",
    min_version=0,
    max_version=17,
    flexible=12,
    handle=handle,
    request=Request,
    response=Response,
    served_by=ServedBy.LEADER,
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
