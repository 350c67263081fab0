"""Fetch: what each version gets, when waiting fetches are answered, and the memory of answers."""

import asyncio
import socket
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.apis import fetch
from bridge.connection.responses import PendingResponseBytes
from bridge.kafka.error_codes import ErrorCode
from bridge.kafka.fetch_messages import BY_ID
from bridge.kafka.fetch_wire import Request, RequestPartition, RequestTopic, Response
from bridge.pulsar.pb.PulsarApi_pb2 import MessageMetadata
from bridge.requests.api import Broker
from bridge.requests.encoded import EncodedBody
from bridge.requests.responses import LongPoll
from bridge.requests.session import Session
from bridge.storage.partition import PartitionLog
from bridge.storage.topics.topic import digest_in, name_digest, new_id
from bridge.telemetry.instruments import Gauge
from tests.apis.wire import ask, frame, unique
from tests.support.bridges import BridgeThread
from tests.support.waiting import until


def whole(answer: Response | EncodedBody) -> Response:
    """An answer that is not shared with others."""
    assert isinstance(answer, Response)
    return answer


async def answered(request: Request, broker: Broker, session: Session) -> Response | EncodedBody:
    """The answer, when there is one."""
    answer = await fetch.handle(request, broker, session)
    return await answer.future if isinstance(answer, LongPoll) else answer


def created(bridge: BridgeThread, **options: Any) -> str:
    """A new topic of one partition."""
    topic = unique("fetch")
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.create_topics([NewTopic(topic, 1, 1, **options)])[topic].result(30)
    return topic


def broker_of(bridge: BridgeThread) -> Broker:
    """What a fetch needs of it, to call the handler itself."""
    none: Any = None
    cluster = bridge.server.cluster
    assert cluster is not None
    return Broker(bridge.settings, bridge.server.topics, cluster, bridge.server.metrics, {}, none, none, none)


def fetched(bridge: BridgeThread, topic: str, version: int) -> tuple[int, int]:
    """The error and how many bytes came."""
    partition = RequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = Request(max_wait_ms=5000, min_bytes=1, topics=[RequestTopic(topic=topic, partitions=[partition])])
    (answer,) = ask(bridge, fetch.API, request, version).responses[0].partitions
    return answer.error_code, sum(map(len, answer.records or []))


@pytest.mark.parametrize("entry_format", ["pulsar", "kafka"])
@pytest.mark.parametrize("kept_as", ["producer", "zstd", "lz4"])
def test_topics_of_zstd_take_fetch_v10(bridge: BridgeThread, kept_as: str, entry_format: str) -> None:
    topic = created(bridge, config={"entry.format": entry_format, "compression.type": kept_as})
    producer = Producer({"bootstrap.servers": bridge.kafka, "compression.type": "zstd", "linger.ms": 100})
    for _ in range(100):
        producer.produce(topic, b"the same words again and again")
    assert producer.flush(30) == 0
    for version in (4, 9, 10, BY_ID - 1):
        error, size = fetched(bridge, topic, version)
        if kept_as == "zstd" and version < 10:
            assert (error, size) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0)
        else:
            assert error == ErrorCode.NONE and 0 < size < 1000


def fetched_by_id(bridge: BridgeThread, version: int, *ids: uuid.UUID) -> dict[uuid.UUID, tuple[int, int]]:
    """The error and the bytes that came, of the first partitions of topics."""
    partition = RequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [RequestTopic(topic_id=one, partitions=[partition]) for one in ids]
    answer = ask(bridge, fetch.API, Request(max_wait_ms=5000, min_bytes=1, topics=topics), version)
    return {
        topic.topic_id: (one.error_code, sum(map(len, one.records or [])))
        for topic in answer.responses
        for one in topic.partitions
    }


@pytest.mark.parametrize("version", range(BY_ID, fetch.API.max_version + 1))
def test_topics_are_named_by_their_ids(bridge: BridgeThread, version: int) -> None:
    name = created(bridge)
    producer = Producer({"bootstrap.servers": bridge.kafka})
    producer.produce(name, b"1")
    assert producer.flush(30) == 0
    topics = bridge.server.topics
    known = bridge.call(topics.get(name))
    assert known is not None
    random, named, none = uuid.uuid4(), new_id(name), uuid.UUID(int=0)
    found = fetched_by_id(bridge, version, known.id, random, named, none)
    assert [found[one] for one in (random, named, none)] == [(ErrorCode.UNKNOWN_TOPIC_ID, 0)] * 3
    assert fetched_by_id(bridge, version, known.id)[known.id] == (ErrorCode.NONE, fetched(bridge, name, 12)[1])

    # an id that this node has not seen
    async def forget() -> None:
        topics.forget(known)

    bridge.call(forget())
    assert topics.cached_by_id(known.id) is None
    assert fetched_by_id(bridge, version, known.id)[known.id][0] == ErrorCode.NONE


def test_an_id_tells_the_name() -> None:
    one, two = new_id("t"), new_id("t")
    assert one != two
    assert digest_in(one) == digest_in(two) == name_digest("t") != name_digest("u")
    assert digest_in(uuid.uuid4()) is None


def test_another_topic_of_the_same_name_is_not_read_by_the_old_id(bridge: BridgeThread) -> None:
    name = created(bridge)
    old = bridge.call(bridge.server.topics.get(name))
    assert old is not None
    admin = AdminClient({"bootstrap.servers": bridge.kafka})
    admin.delete_topics([name])[name].result(30)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    assert fetched_by_id(bridge, fetch.API.max_version, old.id)[old.id] == (ErrorCode.UNKNOWN_TOPIC_ID, 0)


def next_record(bridge: BridgeThread, topic: str, offset: int) -> int:
    """The size of the record at an offset; the Fetch waits ten minutes for it, the socket half a minute."""
    partition = RequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = Request(max_wait_ms=600_000, min_bytes=1, topics=[RequestTopic(topic=topic, partitions=[partition])])
    (answer,) = ask(bridge, fetch.API, request).responses[0].partitions
    assert answer.error_code == ErrorCode.NONE
    return sum(map(len, answer.records or []))


@pytest.mark.parametrize("native", [False, True], ids=["own", "native"])
def test_a_fetch_at_the_end_is_answered_with_the_record_that_comes(bridge: BridgeThread, native: bool) -> None:
    topic = created(bridge)
    write = native_writer(bridge, topic) if native else own_writer(bridge, topic)
    for offset in range(40):
        with ThreadPoolExecutor(3) as consumers:
            waiting = [consumers.submit(next_record, bridge, topic, offset) for _ in range(3)]
            write()
            assert all(one.result() for one in waiting)


def test_a_fetch_straight_after_the_acknowledgement_has_the_record(bridge: BridgeThread) -> None:
    topic = created(bridge)
    write = own_writer(bridge, topic)
    for offset in range(100):
        write()
        assert next_record(bridge, topic, offset)


def own_writer(bridge: BridgeThread, topic: str) -> Callable[[], None]:
    producer = Producer({"bootstrap.servers": bridge.kafka, "linger.ms": 0})

    def write() -> None:
        producer.produce(topic, b"value")
        assert producer.flush(30) == 0

    return write


def native_writer(bridge: BridgeThread, topic: str) -> Callable[[], None]:
    """Writes past the bridge, on its loop."""

    async def write() -> None:
        producer = bridge.server.client.producer(f"persistent://{bridge.namespace}/{topic}-partition-0")
        await producer.send(MessageMetadata(), b"value", 1)
        await producer.close()

    return lambda: bridge.call(write())


def test_a_batch_that_is_converted_in_a_thread_is_sent_to_a_waiting_fetch_at_once(bridge: BridgeThread) -> None:
    topic = created(bridge)

    async def wait_for_it() -> Response:
        broker, session = broker_of(bridge), Session(1, "", "", api_version=12)
        partition = RequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        wanted = [RequestTopic(topic=topic, partitions=[partition])]
        request = Request(max_wait_ms=20_000, min_bytes=1, max_bytes=1 << 22, topics=wanted)
        waiting = asyncio.ensure_future(answered(request, broker, session))
        log = await broker.topics.partition(topic, 0)
        await until(lambda: log.is_followed and not session.pending_reads.reserved)
        producer = bridge.server.client.producer(f"persistent://{bridge.namespace}/{topic}-partition-0")
        await producer.send(MessageMetadata(), bytes(1 << 20), 1)
        await producer.close()
        return whole(await waiting)

    assert sum(map(len, bridge.call(wait_for_it()).responses[0].partitions[0].records or ())) > 1 << 20


def test_each_consumer_of_a_shared_answer_is_counted(bridge: BridgeThread) -> None:
    topic, consumers = created(bridge), 5

    async def read_together() -> tuple[list[Any], int, int]:
        broker = broker_of(bridge)
        partition = RequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        wanted = [RequestTopic(topic=topic, partitions=[partition])]
        request = Request(max_wait_ms=20_000, min_bytes=1, max_bytes=1 << 22, topics=wanted)
        sessions = [Session(number, "", "", api_version=12) for number in range(consumers)]
        waiting = [asyncio.ensure_future(answered(request, broker, session)) for session in sessions]
        log = await broker.topics.partition(topic, 0)
        await until(lambda: log.is_followed and len(log.end._waiters) == consumers)
        producer = bridge.server.client.producer(f"persistent://{bridge.namespace}/{topic}-partition-0")
        await producer.send(MessageMetadata(), b"value", 1)
        await producer.close()
        answers = await asyncio.gather(*waiting)
        return answers, log.traffic.records_out, log.traffic.bytes_out

    answers, records, size = bridge.call(read_together())
    assert len({id(answer) for answer in answers}) == 1, "it was not shared"
    log_ = bridge.call(broker_of(bridge).topics.partition(topic, 0))
    stored = sum(map(len, bridge.call(log_.read(0, 1 << 20, 5.0))))
    assert (records, size) == (consumers, consumers * stored)


def session_with(waiting: PendingResponseBytes) -> Session:
    """A connection whose answers take their memory from `waiting`."""
    session = Session(1, "", "", api_version=12)
    session.remaining_response_bytes, session.reserve_response_bytes = waiting.remaining, waiting.add
    return session


def test_concurrent_answers_share_the_memory_of_pending_responses(
    bridge_with: Callable[..., BridgeThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = bridge_with(storage={"cache_bytes": 0})
    topic = created(bridge)
    producer = Producer({"bootstrap.servers": bridge.kafka, "batch.size": 100_000, "linger.ms": 100})
    for _ in range(20):
        producer.produce(topic, bytes(50_000))
    assert producer.flush(30) == 0
    waiting = PendingResponseBytes(4_000_000, Gauge())
    partition = RequestPartition(partition=0, fetch_offset=0, partition_max_bytes=3_000_000)
    wanted = [RequestTopic(topic=topic, partitions=[partition])]
    much = Request(max_wait_ms=20_000, min_bytes=1, max_bytes=50 << 20, topics=wanted)
    broker = broker_of(bridge)
    limits: list[int] = []
    consumers = 8
    all_there = asyncio.Barrier(consumers)
    read = PartitionLog.read

    async def when_all_are_there(
        log: PartitionLog, offset: int, max_bytes: int, first_timeout: float, *, committed: bool = False
    ) -> list[bytes]:
        limits.append(max_bytes)
        await all_there.wait()
        return await read(log, offset, max_bytes, first_timeout, committed=committed)

    monkeypatch.setattr(PartitionLog, "read", when_all_are_there)

    async def together() -> list[Response]:
        sessions = [session_with(waiting) for _ in range(consumers)]
        return list(map(whole, await asyncio.gather(*(answered(much, broker, session) for session in sessions))))

    answers = [answer.responses[0].partitions[0] for answer in bridge.call(together())]
    assert limits[:3] == [3_000_000, 1_000_000, 1], "what the others leave, or one batch"
    assert sum(limits) == 4_000_000 + consumers - 2
    assert all(answer.error_code == ErrorCode.NONE and answer.records for answer in answers)
    assert waiting.remaining() == 4_000_000


def test_answers_are_short_while_others_wait_for_slow_consumers(bridge_with: Callable[..., BridgeThread]) -> None:
    bridge = bridge_with(kafka={"max_request_bytes": 1 << 20, "memory_budget_bytes": 8 << 20})
    topic = created(bridge)
    producer = Producer({"bootstrap.servers": bridge.kafka, "batch.size": 100_000, "linger.ms": 100})
    for _ in range(400):
        producer.produce(topic, bytes(50_000))
    assert producer.flush(30) == 0
    partition = RequestPartition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)
    wanted = [RequestTopic(topic=topic, partitions=[partition])]
    much = Request(max_wait_ms=1000, min_bytes=8 << 20, max_bytes=50 << 20, topics=wanted)

    def size() -> int:
        (answer,) = ask(bridge, fetch.API, much).responses[0].partitions
        return sum(map(len, answer.records or []))

    def wait_for_memory() -> None:
        until = time.monotonic() + 30
        while size() < 7_000_000:
            assert time.monotonic() < until

    wait_for_memory()  # so that the slow one's answer is as large as it may be
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        host, _, port = bridge.kafka.rpartition(":")
        slow.connect((host, int(port)))
        slow.sendall(frame(fetch.API, much, BY_ID - 1))
        slow.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL)
        assert 0 < size() < 6_000_000  # what the sockets have taken of the slow one's answer
    wait_for_memory()

    broker = broker_of(bridge)
    session = Session(1, "peer", "listener", api_version=12, remaining_response_bytes=lambda: 0)
    (answer,) = whole(bridge.call(answered(much, broker, session))).responses[0].partitions
    assert answer.error_code == ErrorCode.NONE
    assert len(answer.records or []) == 1
