"""Producers of a real Pulsar."""

import asyncio
import secrets
from itertools import pairwise

import pytest

from bridge.pulsar import (
    EARLIEST,
    AccessMode,
    Admin,
    PulsarClient,
    PulsarError,
    Receipt,
)
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.pulsar.real import payloads, send


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
    # a send that an unload ended without an acknowledgement may have taken an index, where the next ledger begins
    for before, after in pairwise(got):
        assert before.index is not None and after.index is not None
        assert after.index == before.index + 1 or (
            after.index > before.index and after.position.ledger > before.position.ledger
        )
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
