"""Readers of a real Pulsar."""

import asyncio
import itertools
import struct
import time

from bridge.config import PulsarSettings
from bridge.pulsar import (
    EARLIEST,
    LATEST,
    Access,
    AccessMode,
    Admin,
    Position,
    PulsarClient,
    commands,
    protocol,
)
from bridge.pulsar.connection.broker_connection import BrokerConnection
from bridge.pulsar.connection.lookup import Lookup
from bridge.pulsar.connection.pool import ConnectionPool
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.real import eventually, fill, is_past, send


async def test_entries_come_with_the_index_of_their_last_message(client: PulsarClient, topic: str) -> None:
    producer = client.producer(topic)
    receipts = await asyncio.gather(*(send(producer, b"x", size) for size in (1, 2, 3, 4, 5)))
    reader = await client.reader(topic, EARLIEST)
    entries = [await reader.receive() for _ in receipts]
    assert [entry.index for entry in entries] == [0, 2, 5, 9, 14]
    assert [entry.position for entry in entries] == [receipt.position for receipt in receipts]
    assert all(entry.broker_timestamp for entry in entries)
    assert [entry.metadata.sequence_id for entry in entries] == [0, 1, 3, 6, 10]


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


async def test_a_reader_seeks_to_entries_and_times(client: PulsarClient, topic: str) -> None:
    receipts = await fill(client, topic, 5)
    middle = int(time.time() * 1000) + 5
    await eventually(is_past(middle))
    later = await fill(client, topic, 5)
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


async def test_an_entry_without_checksum_is_stored_and_read(
    client: PulsarClient, settings: PulsarSettings, topic: str
) -> None:
    pool = ConnectionPool(settings, PulsarMetrics(), Access.by(settings, PulsarMetrics()))
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
