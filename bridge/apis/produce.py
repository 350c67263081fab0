"""Produce: append record batches to partitions.

v1 adds throttle_time_ms; v2 the log append time; v3 the transactional id and record batches of magic 2; v5 the log
start offset; v7 allows zstd (KIP-110); v8 adds error texts (KIP-467); v9 is flexible. v0 to v2 carry message sets of
magic 0 and 1, which become record batches; without these versions librdkafka stops compressing (KAFKA-18659).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from bridge.api import Api, Broker, DeferredResponse, RequestLimit, Session
from bridge.codec import HEADER_SIZE, NO_PRODUCER, message_sets
from bridge.codec.compression import CODEC_MASK, KafkaCodec
from bridge.errors import KafkaError
from bridge.futures import TURN, gathered, give_way, in_turns
from bridge.kafka import produce_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import Buffer
from bridge.kafka.produce_wire import Request, RequestPartition, Response, ResponsePartition, ResponseTopic
from bridge.storage import entries, names
from bridge.storage.append import preparation
from bridge.storage.append.conversion_memory import MAX_EXCESS_BYTES
from bridge.storage.append.preparation import MAX_ENTRIES, Plan, PreparedEntry
from bridge.storage.append.writers import ProducerSequence
from bridge.storage.error_mapping import translated
from bridge.storage.partition import PartitionLog

MAX_REQUEST_BYTES = 2**31 - 1
"""Records are not decoded here, so only `kafka.max_request_bytes` limits a request."""

_ACKS = (-1, 0, 1)
_BATCHES, _ZSTD = 3, 7
"""The versions from which on record batches are demanded, and zstd is allowed in them."""
_RETRIED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which an idempotent producer sends the same batch again."""
_ATTRIBUTES_AT = 22  # the low byte's place in a batch v2
_SIZED_AT = 12  # the bytes up to the end of its length, which counts those after


@dataclass(slots=True)
class _Place:
    """One partition of a request: its batches' places in the log, or why they have none."""

    topic: str
    data: RequestPartition
    log: PartitionLog | None = None
    prepared: list[PreparedEntry] = field(default_factory=list)
    excess: int = 0
    """Bytes that count because the entries are so much larger than what came; also before they are taken."""
    offsets: list[asyncio.Future[int]] = field(default_factory=list)
    error: KafkaError | None = None


async def handle(request: Request, broker: Broker, session: Session) -> DeferredResponse[Response | None]:
    """Give every batch its place in its partition; answer when Pulsar holds them all (acks 1 as well as all)."""
    topics = [(topic.name, [_Place(topic.name, one) for one in topic.partition_data]) for topic in request.topic_data]
    places = [place for _, places in topics for place in places]
    # All logs are made ready first; then the batches take their places. The connection's next request begins
    # afterwards, so that the order of requests is the order of records.
    deadline = (session.received_at or asyncio.get_running_loop().time()) + _patience(request, broker)
    now = time.time_ns() // 1_000_000
    slow = await _prepare_at_once(places, session, _refuse(request), now, broker)
    if slow:
        await _Preparation(places, slow, session, deadline, now, broker).run()
    async for place in in_turns(places):
        _append(place, broker)
    return DeferredResponse(_Answer(request, topics, deadline).future)


def _patience(request: Request, broker: Broker) -> float:
    """The seconds that the request may take; with 0 a Kafka does not wait for its followers, which are not here."""
    if request.timeout_ms > 0:
        return request.timeout_ms / 1000
    return broker.settings.pulsar.operation_timeout_seconds


def _refuse(request: Request) -> KafkaError | None:
    """Why nothing of the request can be done."""
    if request.transactional_id is not None:
        return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not offered")
    if request.acks not in _ACKS:
        return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    return None


async def _prepare_at_once(
    places: list[_Place], session: Session, refused: KafkaError | None, now: int, broker: Broker
) -> list[_Place]:
    """Make ready what can be without waiting; the others. One turn is enough for what has to be decompressed."""
    clock = asyncio.get_running_loop().time
    until = clock() + TURN
    slow = []
    first_turn = True
    for place in places:
        if not _prepare_nowait(place, session, refused, now, broker, first_turn):
            slow.append(place)
        if clock() > until:
            await give_way()
            until = clock() + TURN
            first_turn = False
    return slow


def _prepare_nowait(
    place: _Place, session: Session, refused: KafkaError | None, now: int, broker: Broker, may_open: bool
) -> bool:
    """All that may fail before the batches take their places; False where something has to be waited for."""
    version = session.api_version
    try:
        if refused is not None:
            raise refused
        known = broker.topics.cached(place.topic)
        if known is None:
            return False
        place.log = broker.topics.log(known, place.data.index)
        records = _records(place, version)
        if _is_message_set(records):
            return False
        batches = entries.split(records)
        if not may_open and any(map(preparation.is_compressed, batches)):
            return False
        with translated():
            prepared = [
                one
                for batch in batches
                for one in _seal(batch, version, place.log, now, preparation.prepare_entries_nowait)
            ]
        grown = preparation.excess_bytes(prepared, len(records))
        if grown:
            place.excess = grown
            if not broker.topics.conversion_memory.try_acquire(place.excess):
                return False
            prepared = preparation.with_reservations(prepared, len(records), broker.topics.conversion_memory)
        place.prepared = prepared
        return place.log.is_ready(_producers(place), session)
    except preparation.NeedsThread:
        return False
    except KafkaError as error:
        place.error = error.bare()
        return True


class _Preparation:
    """The same for the partitions whose logs are not at hand, or whose records take long.

    Entries that are much larger than what came need room, which others have until Pulsar has theirs. So that no two
    requests wait for each other, one that finds none gives back what it has, and waits for all that it needs at once.
    """

    def __init__(
        self, places: list[_Place], slow: list[_Place], session: Session, deadline: float, now: int, broker: Broker
    ) -> None:
        self._places = places
        self._slow = slow
        self._session = session
        self._version = session.api_version
        self._deadline = deadline
        self._now = now
        self._topics = broker.topics
        self._has_room = False

    async def run(self) -> None:
        """Afterwards each place can be appended, or has its error."""
        await self._all(self._find, self._slow)
        await self._all(self._seal, [place for place in self._slow if not place.prepared])
        grown = [place for place in self._places if place.excess and place.error is None]
        if not all(place.prepared for place in grown):
            await self._seal_again(grown)
        await self._all(self._make_ready, self._slow)

    async def _all(self, step: Callable[[_Place], Awaitable[None]], places: list[_Place]) -> None:
        await gathered(self._try(step, place) for place in places if place.error is None)

    async def _try(self, step: Callable[[_Place], Awaitable[None]], place: _Place) -> None:
        try:
            await step(place)
        except TimeoutError:
            place.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Pulsar takes no more for this partition at present")
        except KafkaError as error:
            place.error = error.bare()

    async def _find(self, place: _Place) -> None:
        if place.topic in names.INTERNAL:  # as Kafka's ReplicaManager: they are the brokers' own
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        async with asyncio.timeout_at(self._deadline):
            place.log = await self._topics.partition(place.topic, place.data.index)

    async def _seal(self, place: _Place) -> None:
        log, records, before = _opened(place), _records(place, self._version), place.excess
        async with asyncio.timeout_at(self._deadline):
            prepared = await self._topics.threads.run(_seal_all, records, self._version, log, self._now)
        place.excess = preparation.excess_bytes(prepared, len(records))
        if self._has_room:
            self._topics.conversion_memory.release(
                before - place.excess
            )  # the topic's configs may have changed meanwhile
        elif sum(one.excess for one in self._places) > MAX_EXCESS_BYTES:
            place.excess = 0
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "the request's records take too much by compression.type")
        elif not self._topics.conversion_memory.try_acquire(place.excess):
            return
        place.prepared = preparation.with_reservations(prepared, len(records), self._topics.conversion_memory)

    async def _seal_again(self, places: list[_Place]) -> None:
        """Those that need room; what was made of them without it is gone."""
        for place in places:
            _free(place)
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._topics.conversion_memory.acquire(sum(place.excess for place in places))
        except TimeoutError:
            for place in places:
                place.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Pulsar does not take what came before")
            return
        self._has_room = True
        await self._all(self._seal, places)
        for place in places:
            if not place.prepared:
                self._topics.conversion_memory.release(place.excess)

    async def _make_ready(self, place: _Place) -> None:
        await _opened(place).prepare(_producers(place), self._session, self._deadline)


def _records(place: _Place, version: int) -> memoryview:
    """The records of one partition, in a format that the version has (`ProduceRequest.validateRecords`)."""
    records = place.data.records
    if records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no records for this partition")
    if version >= _BATCHES and _is_message_set(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Produce v{version} takes record batches of magic 2 only")
    first = _size_of_first(records) if version >= _BATCHES else len(records)
    if len(records) < first:
        text = f"{len(records)} bytes are no whole batch"
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    if first >= HEADER_SIZE and first + message_sets.MAGIC_AT < len(records):  # what is shorter is no batch either
        text = f"Produce requests with version {version} are only allowed to contain exactly one record batch per "
        raise KafkaError(ErrorCode.INVALID_RECORD, text + "partition")
    return memoryview(records)


def _size_of_first(records: Buffer) -> int:
    """The bytes of the first batch, as far as it says how many they are."""
    return (
        _SIZED_AT if len(records) < _SIZED_AT else _SIZED_AT + int.from_bytes(records[8:_SIZED_AT], "big", signed=True)
    )


def _is_message_set(records: Buffer) -> bool:
    return len(records) > message_sets.MAGIC_AT and records[message_sets.MAGIC_AT] < 2


def _seal_all(records: memoryview, version: int, log: PartitionLog, now: int) -> list[PreparedEntry]:
    with translated():
        if _is_message_set(records):
            most = log.plan.largest_entry
            most = most if log.max_batch_bytes is None else min(most, log.max_batch_bytes)
            records = memoryview(message_sets.to_batches(records, log.plan.largest_batch, most))
        return [
            prepared
            for batch in entries.split(records)
            for prepared in _seal(batch, version, log, now, preparation.prepare_entries)
        ]


def _seal(
    batch: memoryview,
    version: int,
    log: PartitionLog,
    now: int,
    prepare_one: Callable[[memoryview, Plan, int], list[PreparedEntry]],
) -> list[PreparedEntry]:
    log.check_size(len(batch))
    if version < _ZSTD and batch[_ATTRIBUTES_AT] & CODEC_MASK == KafkaCodec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce v{version} has no zstd")
    return prepare_one(batch, log.plan, now)


def _producers(place: _Place) -> Collection[ProducerSequence]:
    """Where the batches of each producer begin."""
    if len(place.prepared) == 1:
        return (place.prepared[0].producer,)
    first = {prepared.producer[0]: prepared.producer for prepared in reversed(place.prepared)}
    return first.values()


def _opened(place: _Place) -> PartitionLog:
    assert place.log is not None  # noqa: S101 — without it there is an error
    return place.log


def _free(place: _Place) -> None:
    for prepared in place.prepared:
        prepared.release()
    place.prepared = []


def _append(place: _Place, broker: Broker) -> None:
    if place.error is None:
        try:
            place.offsets = _opened(place).append_all(place.prepared)
            place.prepared = []
        except KafkaError as error:
            place.error = error.bare()
    if place.error is not None:
        _free(place)
        producer = entries.producer_in(place.data.records or b"")
        if place.error.code in _RETRIED and producer != NO_PRODUCER:
            broker.topics.note_missing_batch(place.topic, place.data.index, producer)
    place.data.records = None  # the request's bytes are not needed any more, and may be many


class _Answer:
    """Waits until every batch has its offset or the time is up; by callbacks: a task would cost as much as the rest."""

    __slots__ = ("_left", "_offsets", "_request", "_timer", "_topics", "future")

    def __init__(self, request: Request, topics: list[tuple[str, list[_Place]]], deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Response | None] = loop.create_future()
        self._request = request
        self._topics = topics
        self._offsets = [offset for _, places in topics for place in places for offset in place.offsets]
        self._left = len(self._offsets)
        self._timer = loop.call_at(deadline, self._late)
        for offset in self._offsets:
            offset.add_done_callback(self._one_done)
        if not self._offsets:
            self._give()

    def _one_done(self, _: "asyncio.Future[int]") -> None:
        self._left -= 1
        if not self._left:
            self._give()

    def _late(self) -> None:
        for offset in self._offsets:
            offset.cancel()  # the client will send it again: it need not be stored any more

    def _give(self) -> None:
        self._timer.cancel()
        if self.future.done():
            return
        try:
            self.future.set_result(_response(self._request, self._topics))
        except Exception as error:  # noqa: BLE001 - whatever it is, the connection must be told
            self.future.set_exception(error)


def _response(request: Request, topics: list[tuple[str, list[_Place]]]) -> Response | None:
    responses = [
        ResponseTopic(name=name, partition_responses=[_result(place) for place in places]) for name, places in topics
    ]
    if request.acks != 0:
        return Response(responses=responses)
    failed = [one for topic in responses for one in topic.partition_responses if one.error_code]
    if failed:
        # nobody reads an answer to acks=0: as Kafka does, closing the connection makes the client look again
        raise KafkaError(failed[0].error_code, failed[0].error_message or "")
    return None


def _result(place: _Place) -> ResponsePartition:
    error = place.error
    for offset in place.offsets:
        if error is None:
            error = _failure(offset)
    if error is not None:
        return ResponsePartition(
            index=place.data.index, error_code=error.code, base_offset=-1, error_message=error.message or None
        )
    start = -1 if place.log is None else place.log.known_start
    return ResponsePartition(
        index=place.data.index, error_code=ErrorCode.NONE, base_offset=place.offsets[0].result(), log_start_offset=start
    )


def _failure(offset: "asyncio.Future[int]") -> KafkaError | None:
    if offset.cancelled() or not offset.done():
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Pulsar has not acknowledged the batch in time")
    error = offset.exception()
    if error is None or isinstance(error, KafkaError):
        return error
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))


API = Api(
    key=0,
    name="Produce",
    min_version=0,
    max_version=9,
    flexible=9,
    handle=handle,
    request=Request,
    response=Response,
    read=produce_wire.read,
    write=produce_wire.write,
    max_request_bytes=MAX_REQUEST_BYTES,
    limits=(
        RequestLimit("topics and partitions", produce_wire.MOST_ELEMENTS, "the connection is closed"),
        RequestLimit("batches of a partition, from v3 on", 1, ErrorCode.INVALID_RECORD),
        RequestLimit("bytes that a batch opens to, in entries of Pulsar", MAX_ENTRIES, ErrorCode.MESSAGE_TOO_LARGE),
        RequestLimit("bytes by which the entries exceed the request", MAX_EXCESS_BYTES, ErrorCode.MESSAGE_TOO_LARGE),
    ),
)
