"""When a producer opens and comes back, and how it leaves for another: nothing is sent that was given up."""

import asyncio

import pytest

from bridge.pulsar import ClientClosed, Position, Producer, PulsarClient
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.pulsar.fake_broker import FakeBroker, Type, store
from tests.pulsar.producer.script import NO_ANSWER, TOPIC, refuse, send, stored


async def lost(producer: Producer) -> None:
    """Wait until the producer knows that it is no longer open."""
    while producer.attached:  # noqa: ASYNC110 - there is no event of it
        await asyncio.sleep(0)


async def test_nothing_is_sent_again_before_it_may_be(broker: FakeBroker, client: PulsarClient) -> None:
    may_send = asyncio.Event()
    may_send.set()
    producer = client.producer(TOPIC, may_send=may_send)
    await producer.opened()
    may_send.clear()
    broker.producing.close()
    await lost(producer)
    pending = [send(producer, b"one"), send(producer, b"two")]
    other = client.producer(TOPIC)
    await other.opened()  # the connection is back
    await send(other, b"other")
    pending[0].cancel()
    assert (stored(broker), producer.attached) == ([b"other"], False)
    may_send.set()
    await pending[1]
    assert stored(broker) == [b"other", b"two"]


async def test_what_waits_to_be_allowed_leaves_nothing_when_it_is_closed(
    broker: FakeBroker, client: PulsarClient
) -> None:
    producer = client.producer(TOPIC, name="mine", may_send=asyncio.Event())
    pending = send(producer)
    await producer.close(flush=False)
    with pytest.raises(ClientClosed):
        await pending
    assert broker.all(Type.PRODUCER) == []


async def test_handing_over_lets_what_is_on_its_way_have_its_outcome(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC, name="mine")
    await producer.opened()
    broker.on(Type.SEND, NO_ANSWER)
    on_its_way = send(producer, b"on its way")
    await broker.until(lambda: bool(broker.all(Type.SEND)))
    unwritten = producer.enqueue(pb.MessageMetadata(), b"not written yet", 1)
    leaving = asyncio.ensure_future(producer.hand_over(60))
    leaving_again = asyncio.ensure_future(producer.hand_over(60))
    assert isinstance(unwritten.future.exception(), ClientClosed)
    with pytest.raises(ClientClosed):
        await send(producer, b"too late")
    broker.producing.receipt(broker.all(Type.SEND)[0].send, 1, 0)
    assert (await on_its_way).position == Position(1, 0)  # type: ignore[attr-defined]
    await asyncio.gather(leaving, leaving_again)
    assert len(broker.all(Type.SEND)) == len(broker.all(Type.CLOSE_PRODUCER)) == 1


async def test_handing_over_ends_when_the_time_is_over(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC, name="mine")
    broker.on(Type.SEND, NO_ANSWER)
    pending = send(producer)
    await broker.until(lambda: bool(broker.all(Type.SEND)))
    await producer.hand_over(0)
    with pytest.raises(ClientClosed):
        await pending
    assert len(broker.all(Type.CLOSE_PRODUCER)) == 1


async def test_what_hands_over_does_not_come_back(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC, name="mine")
    broker.on(Type.SEND, NO_ANSWER)
    pending = send(producer)
    await broker.until(lambda: bool(broker.all(Type.SEND)))
    leaving = asyncio.ensure_future(producer.hand_over(60))
    broker.on(Type.SEND, store)
    broker.producing.close()
    with pytest.raises(ClientClosed):
        await pending
    await leaving
    assert stored(broker) == []
    successor = client.producer(TOPIC, name="mine")
    await send(successor, b"next")
    assert stored(broker) == [b"next"]


async def test_a_producer_that_was_about_to_reopen_lets_go_of_its_name(
    broker: FakeBroker, client: PulsarClient
) -> None:
    producer = client.producer(TOPIC, name="mine")
    await producer.opened()
    broker.on(Type.SEND, refuse(pb.PersistenceError))
    pending = send(producer)
    await lost(producer)
    await producer.close(flush=False)
    assert pending.done()
    assert len(broker.all(Type.CLOSE_PRODUCER)) == 1
