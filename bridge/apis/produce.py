"""Produce: append record batches to partitions.

v1 adds throttle_time_ms; v2 the log append time; v3 the transactional id and record batches of magic 2; v5 the log
start offset; v7 allows zstd (KIP-110); v8 adds error texts (KIP-467); v9 is flexible; v10 names the leader to clients
that ask the wrong node (KIP-951); v11 and v12 are for transactions (KIP-890). v13 would name topics by their ids. v0 to
v2 carry message sets of magic 0 and 1, which become record batches; without these versions librdkafka stops compressing
(KAFKA-18659).
"""

import asyncio
from collections.abc import Collection
from functools import partial
from time import perf_counter as clock
from typing import TypeAlias

from bridge.apis.add_partitions_to_txn import added_by_batches
from bridge.cluster import Cluster
from bridge.cluster.membership.effects import Serving
from bridge.codec import HEADER_SIZE, NO_PRODUCER, message_sets
from bridge.errors import KafkaError
from bridge.kafka import produce_wire
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.primitives import Buffer
from bridge.kafka.produce_wire import Request, Response, ResponsePartition, ResponseTopic
from bridge.produce.partition_append import PartitionAppend, RequestPreparation, for_each
from bridge.requests import leadership
from bridge.requests.api import Api, Broker, RequestLimit, Right, Rights, ServedBy
from bridge.requests.authorization import Checks, checks_of
from bridge.requests.responses import Brief, DeferredResponse
from bridge.requests.rights import TOPIC, TRANSACTIONAL_ID
from bridge.requests.session import Session
from bridge.requests.transactional import COORDINATOR_AWAY, transactions_of
from bridge.runtime.deadlines import deadlines
from bridge.runtime.futures import TURN, Outcome, call_when_done, in_turns, loop_time, own_task, yield_turn
from bridge.security.acls import Operation, Resource, ResourceType
from bridge.storage import names
from bridge.storage.append.conversion_memory import MAX_EXCESS_BYTES
from bridge.storage.append.pace import Pace
from bridge.storage.append.preparation import MAX_ENTRIES, MAX_LARGE_RECORDS, is_message_set
from bridge.storage.entries import is_transactional, producer_in
from bridge.storage.topics.topic import Topic
from bridge.storage.visibility import Identity, Transaction

MAX_REQUEST_BYTES = 2**31 - 1
"""Records are not decoded here, so only `kafka.max_request_bytes` limits a request."""

_ACKS = (-1, 0, 1)
_BATCHES, _ZSTD, _ABORTABLE, _ADDS = 3, 7, 11, 12
"""The versions from which on record batches are demanded, zstd is allowed in them, clients know TRANSACTION_ABORTABLE,
and a Produce adds its partitions to the transaction (KIP-890)."""
_RETRIED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Errors after which an idempotent producer sends the same batch again."""
_HOLD_SECONDS = 5.0
"""How long a Produce waits for a node that did not run for a while to learn what it has missed."""
_FEW = 32
"""Appends that are sent in one turn of the event loop."""
_LENGTH_END = 12  # the bytes of a batch up to the end of its length, which counts those after


_Sent: TypeAlias = DeferredResponse[Response | None]


async def handle(request: Request, broker: Broker, session: Session) -> _Sent:
    """Give every batch its place in its partition; answer when Pulsar has stored them all (acks 1 as well as all)."""
    refusal, checks = _refusal(request), checks_of(broker, session)
    work = _Work(request, broker, session)
    of_transaction = [append for append in work.appends if is_transactional(append.records or b"")]
    if refusal is None and checks is not None:
        await own_task()
    if of_transaction and refusal is None:
        refusal = await _refused_transaction(request.transactional_id, checks)
    if refusal is not None:
        for append in work.appends:
            append.error = refusal
    elif checks is not None:
        denied = await denied_topics(checks, [name for name, _ in work.topics])
        for append in work.appends:
            if append.topic in denied:
                append.error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if of_transaction and request.transactional_id is not None:
        await work.find_transactions(request.transactional_id, of_transaction)
    await work.prepare()
    work.refuse_outside_transactions()
    if work.large:
        await work.store_chunks()
    await work.send()
    return work.sent()


async def _refused_transaction(transactional_id: str | None, checks: Checks | None) -> KafkaError | None:
    """Why a request with batches of a transaction is refused as a whole."""
    if transactional_id is not None:
        named = Resource(TRANSACTIONAL_ID, transactional_id)
        if checks is None or await checks.allows(Operation.WRITE, named):
            return None
    return KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


async def denied_topics(checks: Checks, topics: list[str]) -> Collection[str]:
    """Those of some topics to which the client may not write."""
    return await checks.denied(Operation.WRITE, ResourceType.TOPIC, topics)


class _Work:
    """One request, until its batches have their places.

    All logs and entries are made ready before the first batch takes its place. The connection's next request begins
    after the last one has, so the order of requests is the order of records.
    """

    __slots__ = (
        "_acks", "_broker", "_deadline", "_preparation", "_received_at", "_session", "_version", "_view", "appends",
        "large", "topics",
    )  # fmt: skip

    def __init__(self, request: Request, broker: Broker, session: Session) -> None:
        self.topics = [
            (one.name, [PartitionAppend(one.name, data.index, data.records) for data in one.partition_data])
            for one in request.topic_data
        ]
        self.appends = [append for _, of_topic in self.topics for append in of_topic]
        self.large: list[PartitionAppend] = []
        """Those with records that are stored in chunks."""
        request.topic_data = []  # the appends alone hold its bytes, and let go of them first
        self._acks = request.acks
        self._broker, self._session, self._version = broker, session, session.api_version
        cluster, topics = broker.cluster, broker.topics
        self._view = cluster.snapshot if cluster.serving is Serving.SERVE else None
        self._received_at = loop_time() if session.received_at is None else session.received_at
        self._deadline = deadline = self._received_at + timeout_of(request, broker)
        self._preparation = RequestPreparation(
            self.appends, topics.threads, topics.conversion_memory, deadline, allow_zstd=self._version >= _ZSTD
        )

    async def find_transactions(self, transactional_id: str, appends: list[PartitionAppend]) -> None:
        """Learn of which transaction each of these batches is, which say that they are of one; what is refused has its
        error."""
        producers = {producer_in(append.records or b"")[:2] for append in appends}
        if len(producers) > 1:  # as `ReplicaManager.handleProduceAppend`, also of several epochs
            for append in appends:
                text = "batches of several producers in a transaction"
                append.error = append.error or KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)
        producer = producers.pop()
        appends = [append for append in appends if append.error is None]
        if not appends or self._know_transaction(transactional_id, producer, appends):
            return
        await own_task()
        if self._version < _ADDS:
            await for_each(partial(self._find_transaction, transactional_id, producer), appends)
        else:
            await self._find_or_tell_transaction(transactional_id, producer, appends)

    def _know_transaction(
        self, transactional_id: str, producer: tuple[int, int], appends: list[PartitionAppend]
    ) -> bool:
        """Whether it is at hand of which transaction these batches are: nearly always but for the first of them."""
        topics = [(self._broker.topics.cached(append.topic), append.index) for append in appends]
        partitions = [(topic.id.hex, index) for topic, index in topics if topic is not None]
        if len(partitions) < len(appends) or not self._broker.cluster.snapshot.has_transactions:
            return False
        found = self._broker.transactions.known(transactional_id, *producer, partitions, self._received_at)
        for append in appends:
            append.transaction = found
        return found is not None

    async def _find_transaction(
        self, transactional_id: str, producer: tuple[int, int], append: PartitionAppend
    ) -> None:
        """Protocol 1: the transaction that has been told of the partition."""
        try:
            async with asyncio.timeout_at(self._deadline):
                topic = await self._topic_of(append)
                transactions = transactions_of(self._broker, transactional_id)
                partitions = [(topic.id.hex, append.index)]
                append.transaction = await transactions.stamp(
                    transactional_id, *producer, partitions, self._received_at
                )
        except KafkaError as error:
            raise KafkaError(_told_of_transaction(error.code, self._version), error.message) from None

    async def _find_or_tell_transaction(
        self, transactional_id: str, producer: tuple[int, int], appends: list[PartitionAppend]
    ) -> None:
        """Protocol 2 (KIP-890): one question tells the transaction of all partitions that it has not been told of."""
        written: list[tuple[Topic, int]] = []

        async def find_topic(append: PartitionAppend) -> None:
            async with asyncio.timeout_at(self._deadline):
                written.append((await self._topic_of(append), append.index))

        await for_each(find_topic, appends)
        appends = [append for append in appends if append.error is None]
        if not appends:
            return
        try:
            async with asyncio.timeout_at(self._deadline):
                found = await self._told_transaction(transactional_id, producer, written)
        except TimeoutError:
            refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction's coordinator does not answer in time")
        except KafkaError as error:
            refusal = KafkaError(_told_of_transaction(error.code, self._version), error.message)
        else:
            for append in appends:
                append.transaction = found
            return
        for append in appends:
            append.error = refusal

    async def _told_transaction(
        self, transactional_id: str, producer: tuple[int, int], written: list[tuple[Topic, int]]
    ) -> Transaction:
        transactions = transactions_of(self._broker, transactional_id)
        partitions = [(topic.id.hex, index) for topic, index in written]
        found = transactions.known(transactional_id, *producer, partitions, self._received_at)
        if found is not None:
            return found
        try:
            await added_by_batches(self._broker, transactional_id, producer, written)
        except KafkaError as error:
            if error.code != ErrorCode.INVALID_TXN_STATE:
                raise
            # the transaction may be one of protocol 1 that has been told of them
            return await transactions.stamp(transactional_id, *producer, partitions, self._received_at)
        return Transaction(transactions.slot_of(transactional_id), Identity(*producer, 0))

    async def _topic_of(self, append: PartitionAppend) -> Topic:
        topic = await self._broker.topics.get(append.topic)
        if topic is None or not 0 <= append.index < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def refuse_outside_transactions(self) -> None:
        """A producer whose transaction is open writes in it, and nowhere else (`ProducerAppendInfo`)."""
        transactions = self._broker.transactions
        for append in self.appends:
            if append.transaction is not None or append.error is not None or not append.entries:
                continue
            producer_id, epoch, _ = append.entries[0].producer
            topic = self._broker.topics.cached(append.topic) if producer_id >= 0 else None
            if topic is not None and transactions.has_open(producer_id, epoch, topic.id.hex, append.index):
                append.error = KafkaError(ErrorCode.INVALID_TXN_STATE, "the producer has a transaction open here")
                append.release()

    async def prepare(self) -> None:
        """Do all that may fail before the batches take their places; without a wait where all is at hand."""
        slow: list[PartitionAppend] = []
        until, decompress = clock() + TURN, True
        for append in self.appends:
            if append.error is None and not self._prepare(append, decompress=decompress):
                slow.append(append)
            if clock() > until:
                await yield_turn()
                until, decompress = clock() + TURN, False
        if slow:
            await own_task()
            await for_each(self._find_log, slow)
            await self._preparation.prepare(slow)
            await for_each(self._make_log_ready, slow)
            self.large = [append for append in slow if append.has_large]

    async def store_chunks(self) -> None:
        """Store what of large records has to be stored before they take their places."""
        await for_each(self._store_chunks, self.large)
        for append in self.large:
            if append.error is not None:
                append.release()

    async def _store_chunks(self, append: PartitionAppend) -> None:
        async with asyncio.timeout_at(self._deadline):
            await append.store_chunks()
        await self._make_log_ready(append)

    async def send(self) -> None:
        """Give the batches their places, in turns if they are many."""
        cluster, hold_until = self._broker.cluster, min(self._deadline, loop_time() + _HOLD_SECONDS)
        pace = self._session.pace
        pace.begin()
        try:
            async for append in in_turns(self.appends):
                if cluster.snapshot is not self._view:
                    await _check_again(append, cluster, hold_until)
                _send(append, self._broker, pace)
        finally:
            pace.end()

    def _prepare(self, append: PartitionAppend, *, decompress: bool) -> bool:
        """All that may fail before the batches take their places; False where something has to be waited for."""
        broker = self._broker
        try:
            topic = broker.topics.cached(append.topic)
            if topic is None:
                return False
            append.log = log = leadership.log_here(broker, topic, append.index)
            if not self._preparation.prepare_plain(append, log.plan):
                _check_records(append.records, self._version)
                if not self._preparation.prepare_on_loop(append, log.plan, decompress=decompress):
                    return False
            return log.is_ready(append.first_sequences(), self._session)
        except KafkaError as error:
            append.error = error.bare()
            return True

    async def _find_log(self, append: PartitionAppend) -> None:
        if append.topic in names.INTERNAL:  # as Kafka's ReplicaManager: they are the brokers' own
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        async with asyncio.timeout_at(self._deadline):
            append.log = await leadership.log_of(self._broker, append.topic, append.index)
        _check_records(append.records, self._version)

    async def _make_log_ready(self, append: PartitionAppend) -> None:
        assert append.log is not None  # noqa: S101 — without a log there is an error
        await append.log.make_ready(append.first_sequences(), self._session, self._deadline)

    def sent(self) -> _Sent:
        """What is answered when all have their outcome."""
        cluster, listener = self._broker.cluster, self._session.listener
        pace = self._session.pace
        pending = _PendingResponse(self._acks, self.topics, self._deadline, cluster, listener, pace)
        return DeferredResponse(pending.future)


def _told_of_transaction(error: int, version: int) -> ErrorCode:
    """What a client of this version is told: one that retries by itself, or that the transaction has to be aborted."""
    if error in COORDINATOR_AWAY or (error == ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.INVALID_TXN_STATE and version >= _ABORTABLE:
        return ErrorCode.TRANSACTION_ABORTABLE
    return ErrorCode(error)


def _refusal(request: Request) -> KafkaError | None:
    """Why nothing of the request can be done."""
    if request.acks not in _ACKS:
        return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    return None


def timeout_of(request: Request, broker: Broker) -> float:
    """The seconds that the request may take; with 0 Kafka does not wait for followers, of which there are none here."""
    if request.timeout_ms > 0:
        return request.timeout_ms / 1000
    return broker.settings.pulsar.operation_timeout_seconds


async def _check_again(append: PartitionAppend, cluster: Cluster, hold_until: float) -> None:
    """There is another view than that by which the partition's log was opened, or this node did not run for a while."""
    if append.error is not None:
        return
    try:
        if cluster.serving is Serving.HOLD:
            await own_task()
            await cluster.may_append(hold_until - asyncio.get_running_loop().time())
        cluster.check_leader(append.topic, append.index)
    except KafkaError as error:
        append.error = error.bare()


def _check_records(records: Buffer | None, version: int) -> None:
    """Refuse the records of one partition in a format that the version has not (`ProduceRequest.validateRecords`)."""
    if records is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no records for this partition")
    if version < _BATCHES:
        return
    if is_message_set(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Produce v{version} takes record batches of magic 2 only")
    first = _LENGTH_END
    if len(records) >= _LENGTH_END:
        first += int.from_bytes(records[8:_LENGTH_END], "big", signed=True)
    if len(records) < first:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are no whole batch")
    if first >= HEADER_SIZE and first + message_sets.MAGIC_AT < len(records):  # what is shorter is no batch either
        text = f"Produce requests with version {version} are only allowed to contain exactly one record batch per "
        raise KafkaError(ErrorCode.INVALID_RECORD, text + "partition")


def _send(append: PartitionAppend, broker: Broker, pace: Pace) -> None:
    append.send(pace)
    if append.error is not None and append.error.code in _RETRIED:
        producer = producer_in(append.records or b"")
        if producer != NO_PRODUCER:
            broker.topics.note_missing_batch(append.topic, append.index, producer)
    append.records = None  # the request's bytes are not needed any more, and may be many


class _PendingResponse:
    """Waits until every batch has its offset, or for the timeout; with callbacks, because a task costs much more."""

    __slots__ = ("_acks", "_cluster", "_listener", "_offsets", "_pace", "_pending", "_place", "_topics", "future")

    def __init__(
        self,
        acks: int,
        topics: list[tuple[str, list[PartitionAppend]]],
        deadline: float,
        cluster: Cluster,
        listener: str,
        pace: Pace,
    ) -> None:
        """`listener`: by which clients are told of leaders, those of the view of the moment; `pace`: the client's."""
        self._pace = pace
        self.future: Outcome[Response | None] = Outcome()
        self._acks = acks
        self._cluster, self._listener = cluster, listener
        self._topics = topics
        self._offsets = [offset for _, appends in topics for append in appends for offset in append.offsets]
        self._pending = len(self._offsets)
        self._place = deadlines().add(self, deadline)
        for offset in self._offsets:
            call_when_done(offset, self._on_offset)
        if not self._offsets:
            self._complete()

    def _on_offset(self, _: "asyncio.Future[int]") -> None:
        self._pending -= 1
        if not self._pending:
            self._complete()

    def expired(self) -> None:
        """The client waits no longer."""
        for offset in self._offsets:
            offset.cancel()  # the client will send it again: it need not be stored any more

    def _complete(self) -> None:
        self._place.pop(self, None)
        self._pace.answered()
        if self.future.done():
            return
        try:
            self.future.set_result(self._response())
        except Exception as error:  # noqa: BLE001 - whatever it is, the connection must get it
            self.future.set_exception(error)

    def _response(self) -> Response | None:
        stored = self._stored()
        if stored is None:
            hints = leadership.LeaderHints(self._cluster, self._listener)
            return _response(self._acks, self._topics, hints)
        return None if self._acks == 0 else stored

    def _stored(self) -> "_Stored | None":
        """The response if all batches are stored, as nearly always; None where one is not, or there are many."""
        if len(self._topics) > _FEW or len(self._offsets) > _FEW:
            return None
        if any(append.failure() is not None for _, appends in self._topics for append in appends):
            return None
        return _Stored(
            responses=[
                ResponseTopic(name=name, partition_responses=[_stored_at(append) for append in appends])
                for name, appends in self._topics
            ]
        )


class _Stored(Response, Brief):
    """All batches are stored."""


def _response(
    acks: int, topics: list[tuple[str, list[PartitionAppend]]], hints: leadership.LeaderHints
) -> Response | None:
    responses = [
        ResponseTopic(name=name, partition_responses=[_partition_response(append, hints) for append in appends])
        for name, appends in topics
    ]
    if acks != 0:
        return Response(responses=responses, node_endpoints=hints.endpoints)
    failed = [one for topic in responses for one in topic.partition_responses if one.error_code]
    if failed:
        # a client reads no answer to acks=0: as in Kafka, closing the connection makes it refresh its metadata
        raise KafkaError(failed[0].error_code, failed[0].error_message or "")
    return None


def _partition_response(append: PartitionAppend, hints: leadership.LeaderHints) -> ResponsePartition:
    error = append.failure()
    return _stored_at(append) if error is None else _failed(append.topic, append.index, error, hints)


def _failed(topic: str, index: int, error: KafkaError, hints: leadership.LeaderHints) -> ResponsePartition:
    return ResponsePartition(
        index=index,
        error_code=error.code,
        base_offset=-1,
        error_message=error.message or None,
        current_leader=hints.leader(topic, index, error.code),
    )


def _stored_at(append: PartitionAppend) -> ResponsePartition:
    append.count()
    return _stored(append.index, append.offsets[0].result(), -1 if append.log is None else append.log.known_start)


def _stored(index: int, base: int, start: int) -> ResponsePartition:
    return ResponsePartition(index=index, error_code=ErrorCode.NONE, base_offset=base, log_start_offset=start)


def stored_alone(topic: str, index: int, base: int, start: int) -> Response:
    """The answer to a request of one batch that is stored."""
    return _Stored(responses=[ResponseTopic(name=topic, partition_responses=[_stored(index, base, start)])])


def failed_alone(topic: str, index: int, error: KafkaError, broker: Broker, session: Session) -> Response:
    """The answer to a request of one batch that is not."""
    hints = leadership.LeaderHints(broker.cluster, session.listener)
    responses = [ResponseTopic(name=topic, partition_responses=[_failed(topic, index, error, hints)])]
    return Response(responses=responses, node_endpoints=hints.endpoints)


API = Api(
    key=0,
    name="Produce",
    min_version=0,
    max_version=12,
    flexible=9,
    handle=handle,
    at_once=True,
    request=Request,
    response=Response,
    rights=Rights((Right(Operation.WRITE, TOPIC), Right(Operation.WRITE, TRANSACTIONAL_ID, "if there is one"))),
    served_by=ServedBy.LEADER,
    read=produce_wire.read,
    write=produce_wire.write,
    max_request_bytes=MAX_REQUEST_BYTES,
    closes_on_error=True,  # with acks=0 no answer is read
    limits=(
        RequestLimit("topics and partitions", produce_wire.MAX_ELEMENTS, "the connection is closed"),
        RequestLimit("batches of a partition, from v3 on", 1, ErrorCode.INVALID_RECORD),
        RequestLimit("bytes of a batch as it is sent", "kafka.max_message_bytes", ErrorCode.MESSAGE_TOO_LARGE),
        RequestLimit("bytes that a batch opens to, in entries of Pulsar", MAX_ENTRIES, ErrorCode.MESSAGE_TOO_LARGE),
        RequestLimit("records of a batch above an entry of Pulsar", MAX_LARGE_RECORDS, ErrorCode.RECORD_LIST_TOO_LARGE),
        RequestLimit("bytes by which the entries exceed the request", MAX_EXCESS_BYTES, ErrorCode.MESSAGE_TOO_LARGE),
    ),
)
