"""The client's contract, held against a real Pulsar.

Above 400 lines, as one contract: its parts share their topic, their clients and the ways of filling and reading it.
"""

import asyncio
import itertools
import secrets
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from bridge.config import PulsarSettings
from bridge.metrics import PulsarMetrics
from bridge.pulsar import (
    EARLIEST,
    LATEST,
    AccessMode,
    Admin,
    Position,
    Producer,
    PulsarClient,
    PulsarError,
    Receipt,
    commands,
    protocol,
)
from bridge.pulsar.admin import Conflict, NotFound, Retention
from bridge.pulsar.connection.broker_connection import BrokerConnection
from bridge.pulsar.connection.lookup import Lookup
from bridge.pulsar.connection.pool import ConnectionPool
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.support.pulsar import PulsarAddress


@pytest.fixture
def settings(pulsar: PulsarAddress) -> PulsarSettings:
    return PulsarSettings(service_url=pulsar.service_url, admin_url=pulsar.admin_url)


@pytest.fixture
async def client(settings: PulsarSettings) -> AsyncIterator[PulsarClient]:
    client = PulsarClient(settings, PulsarMetrics())
    await client.start()
    yield client
    await client.close()


@pytest.fixture
async def admin(settings: PulsarSettings) -> AsyncIterator[Admin]:
    admin = Admin(settings)
    await admin.start()
    yield admin
    await admin.close()


@pytest.fixture
async def topic(admin: Admin, namespace: str) -> str:
    topic = f"persistent://{namespace}/t-{secrets.token_hex(4)}"
    await admin.create_non_partitioned(topic)
    return topic


def send(producer: Producer, payload: bytes, messages: int = 1) -> "asyncio.Future[Receipt]":
    metadata = pb.MessageMetadata()
    if messages != 1:
        metadata.num_messages_in_batch = messages
    return producer.send(metadata, payload, messages)


async def fill(client: PulsarClient, topic: str, count: int) -> list[Receipt]:
    producer = client.producer(topic)
    receipts = await asyncio.gather(*(send(producer, b"%d" % number) for number in range(count)))
    await producer.close()
    return receipts


async def eventually(probe: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what nobody announces."""
    async with asyncio.timeout(10):
        while not await probe():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


def is_past(milliseconds: int) -> Callable[[], Awaitable[bool]]:
    async def probe() -> bool:
        return time.time() * 1000 > milliseconds

    return probe


async def has_retention(admin: Admin, topic: str) -> bool:
    # Topic policies travel through a topic of their own.
    return await admin.topic_retention(topic) == Retention(10, 20)


async def has_deduplication(admin: Admin, topic: str) -> bool:
    return await admin.topic_deduplication(topic) is True


async def payloads(client: PulsarClient, topic: str) -> list[bytes]:
    """Everything the topic holds."""
    reader = await client.reader(topic, EARLIEST)
    last = await reader.last_position()
    found: list[bytes] = []
    position = EARLIEST
    while position < last:
        entry = await reader.receive()
        position = entry.position
        found.append(bytes(entry.payload))
    await reader.close()
    return found


async def test_entries_come_with_the_index_of_their_last_message(client: PulsarClient, topic: str) -> None:
    producer = client.producer(topic)
    receipts = await asyncio.gather(*(send(producer, b"x", size) for size in (1, 2, 3, 4, 5)))
    reader = await client.reader(topic, EARLIEST)
    entries = [await reader.receive() for _ in receipts]
    assert [entry.index for entry in entries] == [0, 2, 5, 9, 14]
    assert [entry.position for entry in entries] == [receipt.position for receipt in receipts]
    assert all(entry.broker_timestamp for entry in entries)
    assert [entry.metadata.sequence_id for entry in entries] == [0, 1, 3, 6, 10]


async def test_unloads_during_sends_lose_repeat_and_reorder_nothing(
    client: PulsarClient, admin: Admin, topic: str
) -> None:
    producer = client.producer(topic, name=f"named-{secrets.token_hex(4)}")  # deduplication makes resends exact
    reader = await client.reader(topic, EARLIEST)
    sent: list[asyncio.Future[Receipt]] = []

    async def produce() -> None:
        for number in range(600):
            sent.append(send(producer, b"%d" % number))
            if number % 10 == 0:
                await asyncio.sleep(0.002)

    async def unload() -> None:
        for _ in range(3):
            await asyncio.sleep(0.05)
            await admin.unload(topic)

    await asyncio.gather(produce(), unload())
    receipts = await asyncio.gather(*sent)
    got = [await reader.receive() for _ in range(600)]
    assert [bytes(entry.payload) for entry in got] == [b"%d" % number for number in range(600)]
    assert [entry.index for entry in got] == list(range(600))
    stored = {receipt.position for receipt in receipts if not receipt.duplicate}
    assert stored <= {entry.position for entry in got}
    assert reader.receive_nowait() is None


async def test_a_duplicate_is_flagged_and_not_stored(client: PulsarClient, topic: str) -> None:
    name = f"named-{secrets.token_hex(4)}"
    producer = client.producer(topic, name=name)
    first = await producer.send(pb.MessageMetadata(sequence_id=0), b"a", 1)
    assert not first.duplicate
    again = await producer.send(pb.MessageMetadata(sequence_id=0), b"a", 1)
    assert again.duplicate
    await producer.send(pb.MessageMetadata(sequence_id=1, highest_sequence_id=4, num_messages_in_batch=4), b"b", 4)
    await producer.close()
    reopened = client.producer(topic, name=name)
    await reopened.opened()
    assert reopened.last_sequence_id == 4
    assert (await send(reopened, b"c")).sequence_id == 5
    assert await payloads(client, topic) == [b"a", b"b", b"c"]


async def test_an_empty_topic_has_no_last_position(client: PulsarClient, topic: str) -> None:
    reader = await client.reader(topic, EARLIEST)
    assert await reader.last_position() == EARLIEST
    receipts = await fill(client, topic, 3)
    assert await reader.last_position() == receipts[-1].position


async def test_readers_start_at_behind_before_and_after_everything(
    client: PulsarClient, admin: Admin, topic: str
) -> None:
    receipts = await fill(client, topic, 3)
    await admin.unload(topic)  # the next entries lie in another ledger
    receipts += await fill(client, topic, 3)
    places = [receipt.position for receipt in receipts]
    assert places[2].ledger != places[3].ledger
    for start, inclusive, first in [
        (places[0], True, 0),
        (places[2], True, 2),
        (places[2], False, 3),
        (places[2].after, True, 3),
        (places[3], True, 3),
        (places[3].before, False, 3),
        (EARLIEST, False, 0),
        (Position(0, 0), True, 0),
    ]:
        reader = await client.reader(topic, start, inclusive=inclusive)
        assert (await reader.receive()).position == places[first], (start, inclusive)
        await reader.close()
    start = LATEST
    for _ in range(2):
        reader = await client.reader(topic, start)
        (added,) = await fill(client, topic, 1)
        assert (await reader.receive()).position == added.position
        await reader.close()
        start = added.position.after


async def test_one_entry_reads(client: PulsarClient, admin: Admin, topic: str) -> None:
    assert await client.read_entry(topic, EARLIEST) is None
    receipts = await fill(client, topic, 5)
    for receipt in receipts:
        entry = await client.read_entry(topic, receipt.position)
        assert entry is not None
        assert entry.position == receipt.position
    assert await client.read_entry(topic, receipts[-1].position.after) is None
    first = await client.read_entry(topic, EARLIEST)
    assert first is not None
    assert first.position == receipts[0].position
    await admin.unload(topic)  # what is remembered of its broker is wrong now
    entry = await client.read_entry(topic, receipts[3].position)
    assert entry is not None
    assert entry.position == receipts[3].position


async def test_a_reader_seeks_to_entries_and_times(client: PulsarClient, admin: Admin, topic: str) -> None:
    receipts = await fill(client, topic, 5)
    middle = int(time.time() * 1000) + 5
    await eventually(is_past(middle))
    later = await fill(client, topic, 5)
    assert await admin.position_at(topic, middle) == later[0].position
    reader = await client.reader(topic, EARLIEST)
    await reader.receive()
    await reader.seek(receipts[3].position)
    assert (await reader.receive()).position == receipts[3].position
    await reader.seek(timestamp=middle)
    assert (await reader.receive()).position == later[0].position
    await reader.seek(timestamp=0)
    assert (await reader.receive()).position == receipts[0].position
    await reader.seek(EARLIEST)
    assert [(await reader.receive()).position for _ in range(10)] == [one.position for one in receipts + later]


async def test_a_reader_goes_on_over_unloads(client: PulsarClient, admin: Admin, topic: str) -> None:
    reader = await client.reader(topic, EARLIEST, permits=5)
    producer = client.producer(topic)
    numbers = itertools.count()
    for _ in range(3):
        for _ in range(20):
            await send(producer, b"%d" % next(numbers))
        got = [bytes((await reader.receive()).payload) for _ in range(15)]
        await admin.unload(topic)
        got += [bytes((await reader.receive()).payload) for _ in range(5)]
        assert got == [b"%d" % number for number in range(int(got[0]), int(got[0]) + 20)]


async def test_a_consumer_acknowledges_redelivers_and_unsubscribes(
    client: PulsarClient, admin: Admin, settings: PulsarSettings, topic: str
) -> None:
    receipts = await fill(client, topic, 6)
    consumer = await client.consumer(topic, "sub")
    got = [(await consumer.receive()).position for _ in range(6)]
    assert got == [receipt.position for receipt in receipts]
    await consumer.ack_cumulative(got[1])
    await consumer.ack(got[3])
    consumer.redeliver()
    assert [(await consumer.receive()).position for _ in range(3)] == [got[2], got[4], got[5]]
    stats = await consumer.stats()
    assert (stats.msg_backlog, stats.type) == (3, "Exclusive")
    await consumer.seek(got[0])
    assert (await consumer.receive()).position == got[0]
    hasty = PulsarClient(replace(settings, operation_timeout_seconds=0.5), PulsarMetrics())
    with pytest.raises(PulsarError) as caught:
        await hasty.consumer(topic, "sub")
    assert caught.value.code == pb.ConsumerBusy
    await hasty.close()
    await consumer.unsubscribe()
    assert "sub" not in (await admin.internal_stats(topic)).cursors


async def test_a_consumer_gets_what_it_did_not_acknowledge_again(client: PulsarClient, topic: str) -> None:
    receipts = await fill(client, topic, 4)
    first = await client.consumer(topic, "sub", shared=True)
    got = [(await first.receive()).position for _ in range(4)]
    await first.ack(got[0], got[2])
    await first.close()
    second = await client.consumer(topic, "sub", shared=True)
    assert {(await second.receive()).position for _ in range(2)} == {receipts[1].position, receipts[3].position}


async def test_exclusive_producers_exclude_and_fence(client: PulsarClient, topic: str) -> None:
    holder = client.producer(topic, access_mode=AccessMode.EXCLUSIVE)
    await send(holder, b"held")
    other = client.producer(topic, access_mode=AccessMode.EXCLUSIVE)
    with pytest.raises(PulsarError) as caught:
        await other.opened()
    assert caught.value.code == pb.ProducerFenced
    thief = client.producer(topic, access_mode=AccessMode.EXCLUSIVE_WITH_FENCING)
    await send(thief, b"taken")
    with pytest.raises(PulsarError):
        await send(holder, b"too late")
    waiting = client.producer(topic, access_mode=AccessMode.WAIT_FOR_EXCLUSIVE)
    queued = send(waiting, b"queued")
    await thief.close()
    await queued
    assert await payloads(client, topic) == [b"held", b"taken", b"queued"]


async def test_a_terminated_topic_takes_nothing_and_ends(client: PulsarClient, admin: Admin, topic: str) -> None:
    producer = client.producer(topic)
    await send(producer, b"last")
    reader = await client.reader(topic, EARLIEST)
    await admin.terminate(topic)
    with pytest.raises(PulsarError) as caught:
        await send(producer, b"more")
    assert caught.value.code == pb.TopicTerminatedError
    await reader.receive()


async def test_partitions_are_counted_and_nothing_is_created(
    client: PulsarClient, admin: Admin, namespace: str, topic: str
) -> None:
    partitioned = f"persistent://{namespace}/p-{secrets.token_hex(4)}"
    await admin.create_partitioned(partitioned, 3, {"color": "blue"})
    missing = f"persistent://{namespace}/missing-{secrets.token_hex(4)}"
    assert await client.partitions(partitioned) == 3
    assert await client.partitions(topic) == 0
    for attempt in (client.partitions(missing), client.reader(missing, EARLIEST)):
        with pytest.raises(PulsarError) as caught:
            await attempt
        assert caught.value.code == pb.TopicNotFound
    topics = await client.topics_of_namespace(namespace)
    assert {topic, *(f"{partitioned}-partition-{number}" for number in range(3))} <= set(topics)
    assert missing not in topics


async def test_topics_that_come_and_go_are_told(client: PulsarClient, admin: Admin, namespace: str, topic: str) -> None:
    told: asyncio.Queue[tuple[list[str], list[str]]] = asyncio.Queue()
    watch = await client.watch_topics(namespace, lambda added, removed: told.put_nowait((list(added), list(removed))))
    assert watch is not None
    added, removed = await told.get()
    assert topic in added
    assert removed == []
    fresh = f"persistent://{namespace}/w-{secrets.token_hex(4)}"
    await admin.create_non_partitioned(fresh)
    assert await told.get() == ([fresh], [])
    await admin.delete_non_partitioned(fresh, force=True)
    assert await told.get() == ([], [fresh])
    await watch.close()


async def test_an_entry_without_checksum_is_stored_and_read(
    client: PulsarClient, settings: PulsarSettings, topic: str
) -> None:
    pool = ConnectionPool(settings, PulsarMetrics())
    connection = await pool.get(await Lookup(settings, PulsarMetrics(), pool).find(topic))
    await raw_producer(connection, topic)
    metadata = pb.MessageMetadata(producer_name="raw", sequence_id=0, publish_time=1).SerializeToString()
    head = struct.pack(">I", len(metadata)) + metadata
    connection.write([protocol.entry_frame_head(commands.send(1, 0, None, 1), head, 4), b"bare"])
    reader = await client.reader(topic, EARLIEST)
    assert bytes((await reader.receive()).payload) == b"bare"
    await pool.close()


async def raw_producer(connection: BrokerConnection, topic: str) -> None:
    await connection.request(
        lambda request_id: commands.producer(
            request_id,
            1,
            topic,
            name="raw",
            user_provided_name=True,
            epoch=0,
            properties={},
            access_mode=AccessMode.SHARED,
        )
    )


async def test_a_spoilt_entry_is_refused_and_the_next_is_stored(client: PulsarClient, topic: str) -> None:
    producer = client.producer(topic)
    await producer.opened()
    payload = bytearray(b"original")
    spoilt = producer.send(pb.MessageMetadata(), payload, 1)
    payload[0] ^= 1  # after the checksum was made, before it is written
    good = send(producer, b"good")
    with pytest.raises(PulsarError) as caught:
        await spoilt
    assert caught.value.code == pb.ChecksumError
    await good
    assert await payloads(client, topic) == [b"good"]


async def test_the_largest_entry_passes_and_a_larger_one_is_refused_here(client: PulsarClient, topic: str) -> None:
    producer = client.producer(topic)
    await producer.opened()
    assert producer.max_message_size is not None
    large = bytes(producer.max_message_size - 200)
    await send(producer, large)
    with pytest.raises(PulsarError, match="above the broker's limit"):
        await send(producer, bytes(producer.max_message_size))
    assert [len(one) for one in await payloads(client, topic)] == [len(large)]


# --- admin ------------------------------------------------------------------------------------------------------------


async def test_topics_are_created_listed_described_and_deleted(admin: Admin, namespace: str) -> None:
    name = f"persistent://{namespace}/a b%2F?#ü-{secrets.token_hex(4)}"
    await admin.create_partitioned(name, 2, {"id": "é 1"})
    assert name in await admin.partitioned_topics(namespace)
    metadata = await admin.partitioned_metadata(name)
    assert (metadata.partitions, metadata.properties) == (2, {"id": "é 1"})
    with pytest.raises(Conflict):
        await admin.create_partitioned(name, 2)
    await admin.update_topic_properties(name, {"more": "2"})
    assert await admin.topic_properties(name) == {"id": "é 1", "more": "2"}
    await admin.delete_partitioned(name)
    assert name not in await admin.partitioned_topics(namespace)
    with pytest.raises(NotFound):
        await admin.partitioned_metadata(name)


async def test_ledgers_are_listed_with_the_open_ones_count(client: PulsarClient, admin: Admin, topic: str) -> None:
    receipts = await fill(client, topic, 3)
    await admin.unload(topic)
    receipts += await fill(client, topic, 2)
    found = await admin.ledgers(topic)
    assert [(one.ledger_id, one.entries) for one in found] == [
        (receipts[0].position.ledger, 3),
        (receipts[4].position.ledger, 2),
    ]
    assert (await admin.internal_stats(topic)).last_confirmed == receipts[4].position
    assert "ledgers" in await admin.internal_info(topic)


async def test_policies_are_read_and_set(admin: Admin, namespace: str, topic: str) -> None:
    await admin.set_namespace_retention(namespace, Retention(-1, -1))
    assert await admin.namespace_retention(namespace) == Retention(-1, -1)
    assert await admin.topic_retention(topic) is None
    await admin.set_topic_retention(topic, Retention(10, 20))
    await eventually(lambda: has_retention(admin, topic))
    await admin.set_namespace_deduplication(namespace, True)
    assert await admin.namespace_deduplication(namespace) is True
    await admin.set_namespace_inactive_topic_policies(namespace, delete=False)
    assert (await admin.namespace_policies(namespace))["inactive_topic_policies"]["deleteWhileInactive"] is False
    await admin.set_topic_deduplication(topic, True)
    await eventually(lambda: has_deduplication(admin, topic))


async def test_the_broker_tells_of_itself(admin: Admin) -> None:
    await admin.brokers_health()
    assert await admin.clusters() == ["standalone"]
    assert (await admin.runtime_config())["exposingBrokerEntryMetadataToClientEnabled"] == "true"
