"""What a Fetch finds in its partitions, when that is enough, and its answer."""

import time
import uuid
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Final

from bridge import codec
from bridge.cluster import ClusterSnapshot
from bridge.codec import message_sets
from bridge.codec.compression import KafkaCodec
from bridge.errors import KafkaError
from bridge.fetch.partitions import FetchPartition, PreferredReplica
from bridge.kafka import fetch_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_messages import READ_COMMITTED
from bridge.kafka.fetch_wire import Request, Response, ResponsePartition, ResponseTopic
from bridge.requests import leadership
from bridge.requests.api import Broker
from bridge.requests.encoded import EncodedBody
from bridge.requests.responses import Brief
from bridge.requests.session import Session
from bridge.runtime.futures import TURN, gathered, in_chunks, in_turns, loop_time
from bridge.runtime.threads import WorkerThreads
from bridge.storage import entries
from bridge.storage.error_mapping import fetch_error, translated
from bridge.storage.partition import PartitionLog
from bridge.storage.read.pending_reads import PendingReads
from bridge.telemetry.record_counts import sent

_MAX_BATCH_BYTES: Final = 1 << 27  # of one uncompressed batch
_WHOLE_MESSAGE_VERSION, _BATCHES_VERSION, _ZSTD_VERSION = 3, 4, 10
"""The first versions in which the first message is never cut, records are in batches, and may be compressed by zstd."""
_FEW: Final = 128
"""Partitions at which a Fetch may look in one turn of the event loop: each takes some microseconds."""
MAX_SHARED_BYTES: Final = 32 * 1024
"""The records in an answer that is kept for other clients that waited for the same records."""
_PAUSE_FACTOR: Final = 4
_COLD_SECONDS: Final = 2.0  # beyond `max_wait_ms`, for the first records that are not in memory


class PendingFetch:
    """One Fetch until it has its answer; at `until` it is answered with what there is."""

    __slots__ = (
        "_broker", "_deadline", "_max_bytes", "_request", "_session", "_shared", "_under_way", "_version", "_view",
        "_waited", "parts", "pause_seconds", "until",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        broker: Broker,
        session: Session,
        parts: list[FetchPartition],
        deadline: float,
        view: ClusterSnapshot,
    ) -> None:
        """`view`: by which the partitions were opened."""
        self.parts = parts
        self.until = self._deadline = deadline
        self._view = view
        self.pause_seconds = 0.0
        """How long to wait between two looks: a Fetch does not look at many partitions whenever one grows."""
        self._request = request
        self._broker = broker
        self._shared = broker.shared_responses
        self._session = session
        self._version = session.api_version
        self._max_bytes = min(request.max_bytes, broker.settings.kafka.max_fetch_bytes)
        if session.fetch_bytes is not None:
            self._max_bytes, session.fetch_bytes = min(self._max_bytes, session.fetch_bytes), None
        self._waited = self._under_way = False

    @property
    def is_short(self) -> bool:
        """Whether `look` may be called: it holds the event loop while it looks at all partitions."""
        return len(self.parts) <= _FEW and self._version >= _BATCHES_VERSION

    def wait_no_more(self, now: float) -> None:
        """The next look has the answer, unless what it asks for is being read."""
        self.until = self._deadline = now

    def look(self, now: float, grown: Collection[object] | None = None) -> Response | EncodedBody | None:
        """The answer, or None if it is not due yet; `now`: loop time.

        `grown`: the ends of the logs that have grown since the last look, where no other can have anything new.
        """
        parts: Sequence[FetchPartition] = self.parts
        if self._broker.cluster.snapshot is not self._view:
            self._view, grown = self._broker.cluster.snapshot, None
            for part in parts:
                self._check_leader(part)
        max_bytes, key = self._limits()
        shared = self._find_shared(key)
        if shared is not None:
            return shared
        if grown is not None and not self._under_way and now < self.until:
            parts = [part for part in parts if part.log is not None and part.log.end in grown]
        began = time.perf_counter()
        under_way = _read(parts, max_bytes, self._first_timeout(now), self._session.pending_reads)
        self.pause_seconds = _PAUSE_FACTOR * (time.perf_counter() - began)
        if not self._is_due(under_way, max_bytes, now):
            return None
        if self._version < _ZSTD_VERSION:
            _refuse_zstd(self.parts)
        answer = self._answer(max_bytes)
        answer.add(self.parts)
        is_brief = all(part.error is None and part.log is not None for part in self.parts)
        return self._response(answer, key, _Found if is_brief else Response)

    async def look_in_turns(self, now: float) -> Response | EncodedBody | None:
        """As `look` at all, letting other requests run in between."""
        parts, cluster = self.parts, self._broker.cluster
        if cluster.snapshot is not self._view:
            self._view = cluster.snapshot
            async for part in in_turns(parts):
                self._check_leader(part)
        max_bytes, key = self._limits()
        shared = self._find_shared(key)
        if shared is not None:
            return shared
        began, under_way = time.perf_counter(), False
        async for chunk in in_chunks(parts):
            under_way |= _read(chunk, max_bytes, self._first_timeout(now), self._session.pending_reads)
        self.pause_seconds = _PAUSE_FACTOR * (time.perf_counter() - began)
        if not self._is_due(under_way, max_bytes, now):
            return None
        if self._version < _BATCHES_VERSION:
            threads = self._broker.topics.threads
            await gathered(_to_messages(part, self._version, max_bytes, threads) for part in parts)
        elif self._version < _ZSTD_VERSION:
            _refuse_zstd(parts)
        answer = self._answer(max_bytes)
        async for part in in_turns(parts):
            answer.add((part,))
        return self._response(answer, key, Response)

    def _check_leader(self, part: FetchPartition) -> None:
        """There is another view: of what this node leads no more, the client is told at once."""
        if part.log is None:
            return
        try:
            epoch = part.wanted.current_leader_epoch
            self._broker.cluster.check_leader(part.topic, part.wanted.partition, epoch, or_follower=part.or_follower)
        except KafkaError as error:
            part.error, part.log, part.records = error.bare(), None, []

    def _limits(self) -> tuple[int, Hashable | None]:
        """The most bytes of the answer, and by what others that waited may share it."""
        max_bytes = self._max_bytes
        if self._version >= _WHOLE_MESSAGE_VERSION:  # for older clients a cut message is one that is too large
            left = self._session.remaining_response_bytes() + self._session.pending_reads.reserved
            max_bytes = min(max_bytes, left)
        waited, self._waited = self._waited, True
        return max_bytes, _key(self._request, self.parts, max_bytes, self._version) if waited else None

    def _find_shared(self, key: Hashable | None) -> EncodedBody | None:
        if key is None:
            return None
        shared = self._shared.get(key, max(self._request.min_bytes, 1))
        log = self.parts[0].log
        if shared is not None and log is not None:
            shared.sent.count(log.traffic)
        return shared

    def _first_timeout(self, now: float) -> float:
        return max(self._deadline - now, _COLD_SECONDS)

    def _is_due(self, under_way: bool, max_bytes: int, now: float) -> bool:
        """Whether what was found is to be sent. `under_way`: whether more of it is being read."""
        self._under_way = under_way
        found = _found(self.parts)
        # without any room for answers a batch is sent all the same, but nothing is no answer: clients would ask again
        enough, self.until = min(self._request.min_bytes, self._max_bytes, max(max_bytes, 1)), self._deadline
        if under_way and not found:
            enough, self.until = max(enough, 1), self._deadline + _COLD_SECONDS
        return found >= enough or now >= self.until or _must_answer(self.parts)

    def _answer(self, max_bytes: int) -> "_Answer":
        hints = leadership.LeaderHints(self._broker.cluster, self._session.listener)
        return _Answer(self._request, max_bytes, hints)

    def _response(self, answer: "_Answer", key: Hashable | None, cls: type[Response]) -> Response | EncodedBody:
        response = answer.response(cls)
        if key is None or self.parts[0].error is not None:
            return response
        found = _found(self.parts)
        if not 0 < found <= MAX_SHARED_BYTES:
            return response
        return self._shared.put(key, found, fetch_wire.write(response, self._version), self.parts[0].sent)


class _Found(Response, Brief):
    """There are few partitions, and no errors."""


class _Answer:
    """The answer within so many bytes; its first batch is sent whatever its size (KIP-74)."""

    def __init__(self, request: Request, max_bytes: int, hints: leadership.LeaderHints) -> None:
        self._left = max_bytes
        self._nothing_yet = True
        self._isolation_level = request.isolation_level
        self._hints = hints
        self._of: dict[tuple[str, uuid.UUID], list[ResponsePartition]] = {
            (topic.topic, topic.topic_id): [] for topic in request.topics
        }

    def add(self, parts: Iterable[FetchPartition]) -> None:
        """Some partitions, in the order of the request."""
        for part in parts:
            records: list[bytes] = []
            for batch in part.records:
                if len(batch) > self._left and not (self._nothing_yet and not records):
                    break
                records.append(batch)
                self._left -= len(batch)
            self._nothing_yet = self._nothing_yet and not records
            self._of[part.topic, part.topic_id].append(_answer(part, records, self._isolation_level, self._hints))

    def response(self, cls: type[Response]) -> Response:
        """With all that was added, of this class."""
        topics = [ResponseTopic(topic=name, topic_id=id_, partitions=found) for (name, id_), found in self._of.items()]
        return cls(responses=topics, node_endpoints=self._hints.endpoints)


def _key(request: Request, parts: list[FetchPartition], max_bytes: int, version: int) -> Hashable | None:
    """All that the answer to a Fetch of one partition depends on; None if the answer cannot be shared."""
    if len(parts) != 1 or version < _BATCHES_VERSION:
        return None
    topic, wanted, log = parts[0].topic, parts[0].wanted, parts[0].log
    if log is None or wanted.fetch_offset >= log.end.offset:
        return None
    limits = min(wanted.partition_max_bytes, max_bytes), max_bytes
    return shared_key(log, topic, wanted.partition, wanted.fetch_offset, limits, version, request.isolation_level)


def shared_key(
    log: PartitionLog, topic: str, index: int, offset: int, limits: tuple[int, int], version: int, isolation_level: int
) -> Hashable:
    """All that the records found at an offset, and the answer of one partition with them, depend on.

    `limits`: the most bytes of the partition, and of the answer.
    """
    ends = log.end.offset, log.last_stable, log.known_start
    return log, log.left_out, *ends, topic, index, offset, *limits, version, isolation_level


def _found(parts: Iterable[FetchPartition]) -> int:
    """Bytes of records."""
    return sum([len(batch) for part in parts for batch in part.records])


def _must_answer(parts: list[FetchPartition]) -> bool:
    """Whether to answer at once: there are no partitions, an error, or one to be read elsewhere.

    What does not pass by itself waits with the rest: consumers would ask for it again at once, forever.
    """
    return not parts or any(part.preferred is not None or _is_told_at_once(part.error) for part in parts)


def _is_told_at_once(error: KafkaError | None) -> bool:
    return error is not None and fetch_error(error.code) != ErrorCode.UNKNOWN_SERVER_ERROR


def _read(parts: Sequence[FetchPartition], max_bytes: int, first_timeout: float, reads: PendingReads) -> bool:
    """Read every partition, those not in memory concurrently; whether any read is under way."""
    under_way, is_reading = False, len(reads) > 0
    until = loop_time() + TURN  # what takes longer is read like what is not in memory
    for part in parts:
        log = part.log
        if log is None or part.error is not None:
            continue
        if is_reading and part.position in reads:
            if _take(part, reads):
                under_way = True
                continue
            if part.records or part.error is not None:
                continue
            # at the end when it was read; what has come since is in memory, and has woken its waiter already
        limit = max(min(part.wanted.partition_max_bytes, max_bytes), 1)  # at least one batch (KIP-74)
        found = log.read_nowait(part.wanted.fetch_offset, limit, until, committed=part.committed)
        if found is not None:
            part.records = found
            continue
        offset = part.wanted.fetch_offset
        # what a decision has made readable need not be in memory
        is_held = not part.committed or offset >= log.last_stable
        if part.read and log.is_followed and is_held and not log.needs_conversion(offset):
            continue
        under_way = True
        if reads.can_start:
            reads.start(part.position, log, limit, first_timeout, max_bytes)
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


def _answer(
    part: FetchPartition, records: list[bytes], isolation_level: int, hints: leadership.LeaderHints
) -> ResponsePartition:
    index = part.wanted.partition
    if part.preferred is not None:
        return _sent_away(index, part.preferred)
    if part.error is not None or part.log is None:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if part.error is None else fetch_error(part.error.code)
        leader = hints.leader(part.topic, index, code)
        return ResponsePartition(partition_index=index, error_code=code, high_watermark=-1, current_leader=leader)
    if records:
        part.sent = sent(records)
        part.sent.count(part.log.traffic)
    return stored(index, part.log, records, isolation_level)


def stored(index: int, log: PartitionLog, records: list[bytes], isolation_level: int) -> ResponsePartition:
    """What a partition without an error is answered with."""
    return ResponsePartition(
        partition_index=index,
        error_code=ErrorCode.NONE,
        high_watermark=log.end.offset,
        last_stable_offset=log.last_stable,
        log_start_offset=log.known_start,
        aborted_transactions=[] if isolation_level == READ_COMMITTED else None,
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
