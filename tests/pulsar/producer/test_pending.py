"""Sends without an outcome: bounded, cancelled, superseded, left at the end."""

import asyncio

import pytest

from bridge.pulsar import ClientClosed, Position, PulsarClient
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.producer.send import Send
from bridge.pulsar.types import SendCancelled
from tests.pulsar.fake_broker import FakeBroker, Type, store
from tests.pulsar.producer.script import (
    NO_ANSWER,
    TOPIC,
    send,
    stored,
)


async def test_a_send_cancelled_before_it_was_written_is_dropped(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC)
    first, cancelled, last = send(producer, b"1"), send(producer, b"2"), send(producer, b"3")
    cancelled.cancel()
    await asyncio.gather(first, last)
    assert stored(broker) == [b"1", b"3"]
    assert producer.pending_bytes == 0


async def test_a_send_cancelled_after_it_was_written_is_not_sent_again(
    broker: FakeBroker, client: PulsarClient
) -> None:
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.on(Type.SEND, NO_ANSWER)
    cancelled, kept = send(producer, b"cancelled"), send(producer, b"kept")
    await broker.until(lambda: len(broker.all(Type.SEND)) == 2)
    cancelled.cancel()
    broker.on(Type.SEND, store)
    broker.producing.close()
    await kept
    assert stored(broker) == [b"kept"]


async def test_writable_waits_for_room(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.on(Type.SEND, NO_ANSWER)
    pending = [send(producer, bytes(4000)) for _ in range(3)]
    waiting = asyncio.ensure_future(producer.writable())
    await broker.until(lambda: len(broker.all(Type.SEND)) == 3)
    assert not waiting.done()
    broker.producing.receipt(broker.all(Type.SEND)[0].send, 1, 0)
    await waiting
    assert [one.done() for one in pending] == [True, False, False]


async def test_cancelling_while_detached_makes_room(broker: FakeBroker, client: PulsarClient) -> None:
    broker.on(Type.LOOKUP, NO_ANSWER)
    producer = client.producer(TOPIC)
    pending = [send(producer, bytes(4000)) for _ in range(3)]
    for one in pending:
        one.cancel()
    await producer.writable()
    assert producer.pending_count == 0


async def test_closing_with_flush_waits_for_the_receipts(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC)
    pending = send(producer)
    await producer.close(flush=True)
    assert pending.done()
    assert len(broker.all(Type.CLOSE_PRODUCER)) == 1
    with pytest.raises(ClientClosed):
        await send(producer)


async def test_closing_without_flush_fails_what_is_pending(broker: FakeBroker, client: PulsarClient) -> None:
    broker.on(Type.SEND, NO_ANSWER)
    producer = client.producer(TOPIC)
    pending = send(producer)
    await broker.until(lambda: bool(broker.all(Type.SEND)))
    await producer.close(flush=False)
    with pytest.raises(ClientClosed):
        await pending


# --- giving up, and names ---


async def test_what_is_given_up_on_its_way_has_its_outcome_and_is_not_sent_again(
    broker: FakeBroker, client: PulsarClient
) -> None:
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.on(Type.SEND, NO_ANSWER)
    outcomes: list[Send] = []
    stays, goes = (producer.enqueue(pb.MessageMetadata(), b"%d" % n, 1, outcomes.append) for n in range(2))
    await broker.until(lambda: len(broker.all(Type.SEND)) == 2)
    producer.cancel(stays)
    producer.cancel(goes)
    assert outcomes == []
    broker.producing.receipt(broker.all(Type.SEND)[0].send, 4, 2)
    assert (await stays.future).position == Position(4, 2)
    broker.on(Type.SEND, store)
    broker.producing.close()
    with pytest.raises(SendCancelled):
        await goes.future
    assert goes.maybe_stored
    await send(producer, b"next")
    assert stored(broker) == [b"next"]


async def test_what_is_given_up_before_it_is_written_fails_at_once(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC)
    before = producer.enqueue(pb.MessageMetadata(), b"before", 1)
    producer.cancel(before)
    await producer.opened()
    waiting = producer.enqueue(pb.MessageMetadata(), b"waits for the end of this turn", 1)
    producer.cancel(waiting)
    for one in (before, waiting):
        assert isinstance(one.future.exception(), SendCancelled) and not one.maybe_stored
    await send(producer, b"next")
    assert stored(broker) == [b"next"]
    assert (producer.pending_count, producer.pending_bytes) == (0, 0)


async def test_what_supersedes_waits_for_what_is_on_its_way(broker: FakeBroker, client: PulsarClient) -> None:
    """Nothing is stored twice but what was on its way: of many epochs in a row the first and the last."""
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.on(Type.SEND, NO_ANSWER)
    first = producer.enqueue(pb.MessageMetadata(), b"first", 1)
    await broker.until(lambda: bool(broker.all(Type.SEND)))
    for _ in range(100):
        producer.supersede()
        between = producer.enqueue(pb.MessageMetadata(), b"between", 1)
    producer.supersede()
    last = [send(producer, b"last"), send(producer, b"after")]
    assert isinstance(between.future.exception(), SendCancelled)
    assert (producer.pending_count, first.future.done()) == (3, False)
    broker.on(Type.SEND, store)
    broker.producing.receipt(broker.all(Type.SEND)[0].send, 1, 0)
    await asyncio.gather(first.future, *last)
    assert stored(broker) == [b"last", b"after"]


async def test_what_supersedes_goes_out_when_the_way_is_lost(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.once(Type.SEND, lambda peer, *_: peer.close())
    first = producer.enqueue(pb.MessageMetadata(), b"first", 1)
    producer.supersede()  # it has not gone yet
    assert isinstance(first.future.exception(), SendCancelled) and not first.maybe_stored
    second = producer.enqueue(pb.MessageMetadata(), b"second", 1)
    await asyncio.sleep(0)  # now it has
    producer.supersede()
    await send(producer, b"third")
    assert isinstance(second.future.exception(), SendCancelled) and second.maybe_stored
    assert stored(broker) == [b"third"]


# --- while receipts are late ---


async def test_while_receipts_are_late_little_is_on_its_way(
    broker: FakeBroker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the broker has not read cannot be taken back: so the rest waits here, in its order."""
    monkeypatch.setattr("bridge.pulsar.producer.producer._LATE_SECONDS", -1.0)  # every receipt is
    monkeypatch.setattr("bridge.pulsar.producer.producer._LATE_BYTES", 10)
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.on(Type.SEND, NO_ANSWER)
    sends = [producer.enqueue(pb.MessageMetadata(), b"send-%d" % number, 1) for number in range(6)]
    await broker.until(lambda: len(broker.all(Type.SEND)) == 1)
    producer.cancel(sends[4])
    assert isinstance(sends[4].future.exception(), SendCancelled) and not sends[4].maybe_stored
    broker.producing.receipt(broker.all(Type.SEND)[0].send, 1, 0)
    await broker.until(lambda: len(broker.all(Type.SEND)) == 3)
    broker.on(Type.SEND, store)
    for number, command in enumerate(broker.all(Type.SEND)[1:], 1):
        broker.producing.receipt(command.send, 1, number)
    await sends[5].future
    assert stored(broker) == [b"send-3", b"send-5"]
    assert producer.pending_count == 0


async def test_while_receipts_are_late_callers_wait_for_room_sooner(
    broker: FakeBroker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pulsar.producer.producer._LATE_SECONDS", -1.0)
    monkeypatch.setattr("bridge.pulsar.producer.producer._LATE_PENDING_BYTES", 2000)
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.on(Type.SEND, NO_ANSWER)
    first = send(producer, bytes(1600))
    assert producer.has_capacity
    second = send(producer, b"2")
    assert not producer.has_capacity
    waiting = asyncio.ensure_future(producer.writable())
    monkeypatch.setattr("bridge.pulsar.producer.producer._LATE_SECONDS", 1000.0)
    broker.on(Type.SEND, store)
    await broker.until(lambda: len(broker.all(Type.SEND)) == 1)
    broker.producing.receipt(broker.all(Type.SEND)[0].send, 1, 0)
    await asyncio.gather(first, second, waiting)
    assert producer.has_capacity


async def test_when_receipts_are_soon_again_all_is_written(
    broker: FakeBroker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pulsar.producer.producer._LATE_SECONDS", -1.0)
    monkeypatch.setattr("bridge.pulsar.producer.producer._LATE_BYTES", 1)
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.on(Type.SEND, NO_ANSWER)
    sends = [send(producer, b"%d" % number) for number in range(20)]
    await broker.until(lambda: len(broker.all(Type.SEND)) == 1)
    monkeypatch.setattr("bridge.pulsar.producer.producer._LATE_SECONDS", 1000.0)
    broker.producing.receipt(broker.all(Type.SEND)[0].send, 1, 0)
    await broker.until(lambda: len(broker.all(Type.SEND)) == 20)
    assert not sends[1].done()
    broker.on(Type.SEND, store)
    broker.producing.close()
    await asyncio.gather(*sends)
    assert stored(broker) == [b"%d" % number for number in range(1, 20)]


async def test_a_send_cancelled_while_receipts_are_late_leaves_the_line(
    broker: FakeBroker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never written, so no receipt would take it out: all that comes behind would wait for one."""
    monkeypatch.setattr("bridge.pulsar.producer.producer._LATE_SECONDS", -1.0)
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.on(Type.SEND, NO_ANSWER)
    first, cancelled = send(producer, b"first"), send(producer, b"cancelled")
    await broker.until(lambda: len(broker.all(Type.SEND)) == 1)
    cancelled.cancel()
    monkeypatch.setattr("bridge.pulsar.producer.producer._LATE_SECONDS", 1.0)
    broker.producing.receipt(broker.all(Type.SEND)[0].send, 1, 0)
    await first
    broker.on(Type.SEND, store)
    await asyncio.wait_for(send(producer, b"last"), 5)
    assert stored(broker) == [b"last"]
    assert producer.pending_count == 0
