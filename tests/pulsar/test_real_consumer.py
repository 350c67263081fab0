"""Consumers of a real Pulsar: what the protocol guide has for subscriptions."""

import asyncio
import time
from dataclasses import replace

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import (
    Admin,
    Consumer,
    PulsarClient,
    PulsarError,
    SubscriptionType,
)
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.real import eventually, fill, is_past


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
    with pytest.raises(PulsarError) as caught:
        await client.consumer(topic, "sub", waits=False)
    assert caught.value.code == pb.ConsumerBusy
    await consumer.unsubscribe()
    assert "sub" not in (await admin.internal_stats(topic)).cursors


async def test_a_consumer_gets_what_it_did_not_acknowledge_again(client: PulsarClient, topic: str) -> None:
    receipts = await fill(client, topic, 4)
    first = await client.consumer(topic, "sub", subscription_type=SubscriptionType.SHARED)
    got = [(await first.receive()).position for _ in range(4)]
    await first.ack(got[0], got[2])
    await first.close()
    second = await client.consumer(topic, "sub", subscription_type=SubscriptionType.SHARED)
    assert {(await second.receive()).position for _ in range(2)} == {receipts[1].position, receipts[3].position}


async def test_named_entries_are_redelivered_and_counted(client: PulsarClient, topic: str) -> None:
    receipts = await fill(client, topic, 3)
    consumer = await client.consumer(topic, "sub", subscription_type=SubscriptionType.SHARED)
    got = [await consumer.receive() for _ in range(3)]
    assert {entry.redelivery_count for entry in got} == {0}
    await consumer.ack(receipts[0].position)
    consumer.redeliver(receipts[1].position)
    again = await consumer.receive()
    assert (again.position, again.redelivery_count) == (receipts[1].position, 1)
    consumer.redeliver()
    assert {(await consumer.receive()).position for _ in range(2)} == {one.position for one in receipts[1:]}


async def test_a_consumer_seeks_to_a_time(client: PulsarClient, topic: str) -> None:
    await fill(client, topic, 3)
    middle = int(time.time() * 1000) + 5
    await eventually(is_past(middle))
    later = await fill(client, topic, 3)
    consumer = await client.consumer(topic, "sub")
    await consumer.receive()
    await consumer.seek(timestamp=middle)
    assert [(await consumer.receive()).position for _ in range(3)] == [one.position for one in later]


async def test_a_new_subscription_begins_at_the_latest_entry_if_told(client: PulsarClient, topic: str) -> None:
    await fill(client, topic, 2)
    consumer = await client.consumer(topic, "sub", earliest=False)
    (added,) = await fill(client, topic, 1)
    assert (await consumer.receive()).position == added.position


async def test_a_failover_subscription_serves_one_consumer_and_then_the_next(client: PulsarClient, topic: str) -> None:
    one, two = [
        await client.consumer(topic, "sub", subscription_type=SubscriptionType.FAILOVER, name=name)
        for name in ("a", "b")
    ]

    async def is_chosen() -> bool:
        return {one.active, two.active} == {True, False}

    await eventually(is_chosen)
    first, second = (one, two) if one.active else (two, one)
    receipts = await fill(client, topic, 4)
    got = [(await first.receive()).position for _ in range(4)]
    assert got == [receipt.position for receipt in receipts]
    assert second.receive_nowait() is None
    await first.ack_cumulative(got[1])
    await first.close()
    assert [(await second.receive()).position for _ in range(2)] == got[2:]
    assert second.active


async def test_a_key_shared_subscription_gives_a_key_to_one_consumer(client: PulsarClient, topic: str) -> None:
    one, two = [
        await client.consumer(topic, "sub", subscription_type=SubscriptionType.KEY_SHARED, name=name)
        for name in ("a", "b")
    ]
    producer = client.producer(topic)
    keys = [f"key-{number % 20}" for number in range(100)]
    for key in keys:
        producer.send(pb.MessageMetadata(partition_key=key), b"", 1)
    received: dict[str, list[str]] = {"a": [], "b": []}

    async def drain(name: str, consumer: Consumer) -> None:
        while True:
            entry = await consumer.receive()
            received[name].append(entry.metadata.partition_key)
            await consumer.ack(entry.position)
            if sum(map(len, received.values())) == len(keys):
                done.set_result(None)

    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    tasks = [asyncio.create_task(drain("a", one)), asyncio.create_task(drain("b", two))]
    await asyncio.wait([done, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(received["a"] + received["b"]) == sorted(keys)
    assert not set(received["a"]) & set(received["b"])
    assert received["a"] and received["b"]


async def test_a_consumer_gets_no_more_than_it_has_room_for(client: PulsarClient, topic: str) -> None:
    receipts = await fill(client, topic, 30)
    consumer = await client.consumer(topic, "sub", subscription_type=SubscriptionType.SHARED, permits=4)

    async def is_full() -> bool:
        return (await consumer.stats()).unacked_messages == 4

    await eventually(is_full)
    assert (await consumer.stats()).available_permits == 0
    got = [(await consumer.receive()).position for _ in range(30)]
    assert sorted(got) == [one.position for one in receipts]
    assert (await consumer.stats()).unacked_messages == 30


async def test_shared_subscriptions_take_no_cumulative_acknowledgement(client: PulsarClient, topic: str) -> None:
    (receipt,) = await fill(client, topic, 1)
    consumer = await client.consumer(topic, "sub", subscription_type=SubscriptionType.SHARED)
    with pytest.raises(TypeError):
        await consumer.ack_cumulative(receipt.position)
