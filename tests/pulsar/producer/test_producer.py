"""The producer against a scripted broker: what the real one does not do on demand."""

import asyncio

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import AccessMode, ClientClosed, MessageTooLarge, Position, PulsarClient, PulsarError
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import parse_body
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.fake_broker import FakeBroker, Peer, Type
from tests.pulsar.producer.script import (
    NO_ANSWER,
    TOPIC,
    close_producer,
    refuse,
    refuse_open,
    send,
    stored,
    succeed_open,
)


async def test_sends_before_the_first_connect_keep_their_order(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC)
    futures = [send(producer, b"%d" % number) for number in range(20)]
    assert (producer.pending_count, broker.peers) == (20, [])
    receipts = await asyncio.gather(*futures)
    assert [receipt.position for receipt in receipts] == [Position(1, number) for number in range(20)]  # type: ignore[attr-defined]
    assert stored(broker) == [b"%d" % number for number in range(20)]
    assert (producer.pending_count, producer.pending_bytes) == (0, 0)


async def test_metadata_is_filled_in_where_the_caller_left_it_open(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC, properties={"role": "test"})
    await producer.send(pb.MessageMetadata(num_messages_in_batch=3), [b"a", memoryview(b"bc")], 3)
    await producer.send(pb.MessageMetadata(publish_time=5), b"d", 1)
    first, second = (parse_body(memoryview(body)).metadata for body in broker.stored)
    assert (first.producer_name, first.sequence_id, first.highest_sequence_id) == (producer.name, 0, 2)
    assert first.publish_time > 1_700_000_000_000
    assert (second.sequence_id, second.publish_time, second.HasField("highest_sequence_id")) == (3, 5, False)
    commands = [command.send for command in broker.all(Type.SEND)]
    assert [(one.sequence_id, one.highest_sequence_id, one.num_messages) for one in commands] == [(0, 2, 3), (3, 0, 1)]
    opened = broker.all(Type.PRODUCER)[0].producer
    assert (opened.user_provided_producer_name, opened.metadata[0].key) == (False, "role")


async def test_a_named_producer_goes_on_counting_where_the_broker_says(
    broker: FakeBroker, client: PulsarClient
) -> None:
    def succeed(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        success = pb.CommandProducerSuccess(
            request_id=command.producer.request_id, producer_name="mine", last_sequence_id=41
        )
        peer.send(type=Type.PRODUCER_SUCCESS, producer_success=success)

    broker.on(Type.PRODUCER, succeed)
    producer = client.producer(TOPIC, name="mine")
    receipt = await producer.send(pb.MessageMetadata(), b"x", 1)
    assert (receipt.sequence_id, producer.last_sequence_id) == (42, 41)
    assert broker.all(Type.PRODUCER)[0].producer.user_provided_producer_name


async def test_a_lost_connection_loses_no_send_and_changes_no_order(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC)
    await send(producer, b"first")
    broker.once(Type.SEND, lambda peer, *_: peer.close())
    futures = [send(producer, b"%d" % number) for number in range(50)]
    await asyncio.gather(*futures)
    assert stored(broker) == [b"first", *(b"%d" % number for number in range(50))]
    first, second = (command.producer for command in broker.all(Type.PRODUCER))
    assert (first.producer_name, first.producer_id) == (second.producer_name, second.producer_id)
    assert second.epoch > first.epoch
    assert len(broker.all(Type.LOOKUP)) == 2


async def test_nothing_is_sent_on_a_producer_the_broker_has_closed(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC)
    await send(producer)
    broker.on(Type.LOOKUP, NO_ANSWER)
    broker.on(Type.SEND, close_producer)
    pending = send(producer, b"pending")
    await broker.until(lambda: len(broker.all(Type.LOOKUP)) == 2)
    later = send(producer, b"later")
    await asyncio.sleep(0)
    assert len(broker.all(Type.SEND)) == 2
    assert not pending.done()
    assert not later.done()


async def test_an_unload_during_sends_keeps_every_entry_once_and_in_order(
    broker: FakeBroker, client: PulsarClient
) -> None:
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.once(Type.SEND, close_producer)
    futures = [send(producer, b"%d" % number) for number in range(10)]
    await asyncio.gather(*futures)
    assert stored(broker) == [b"%d" % number for number in range(10)]
    assert len(broker.all(Type.PRODUCER)) == 2


async def test_a_receipt_that_comes_after_the_broker_closed_the_producer_counts(
    broker: FakeBroker, client: PulsarClient
) -> None:
    def close_then_receipt(peer: Peer, command: pb.BaseCommand, body: memoryview) -> None:
        close_producer(peer, command, body)
        peer.receipt(command.send, 9, 9)

    producer = client.producer(TOPIC)
    broker.once(Type.SEND, close_then_receipt)
    receipt = await producer.send(pb.MessageMetadata(), b"once", 1)
    assert receipt.position == Position(9, 9)
    await send(producer, b"next")
    assert stored(broker) == [b"next"]


@pytest.mark.parametrize("code", [pb.PersistenceError, pb.ChecksumError, pb.UnknownError, 999])
async def test_a_passing_send_error_makes_the_producer_reopen_and_resend(
    broker: FakeBroker, client: PulsarClient, code: int
) -> None:
    producer = client.producer(TOPIC)
    await producer.opened()
    broker.once(Type.SEND, refuse(code))
    broker_saw = broker.all
    await send(producer, b"only")
    assert stored(broker) == [b"only"]
    assert len(broker_saw(Type.CLOSE_PRODUCER)) == 1
    assert len(broker_saw(Type.PRODUCER)) == 2


async def test_bytes_changed_since_the_checksum_fail_their_send_alone(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC)
    await producer.opened()
    payload = bytearray(b"original")
    broker.once(Type.SEND, refuse(pb.ChecksumError))
    spoilt = producer.send(pb.MessageMetadata(), payload, 1)
    await asyncio.sleep(0)
    payload[0] ^= 1
    good = send(producer, b"good")
    with pytest.raises(PulsarError) as caught:
        await spoilt
    assert caught.value.code == pb.ChecksumError
    await good


@pytest.mark.parametrize("by_highest", [False, True])
async def test_an_entry_that_is_not_allowed_fails_alone(
    broker: FakeBroker, client: PulsarClient, by_highest: bool
) -> None:
    producer = client.producer(TOPIC)
    broker.once(Type.SEND, refuse(pb.NotAllowedError, by_highest=by_highest))
    bad, good = send(producer, b"bad", 3), send(producer, b"good", 3)
    with pytest.raises(PulsarError) as caught:
        await bad
    assert caught.value.code == pb.NotAllowedError
    await good
    assert len(broker.all(Type.PRODUCER)) == 1


@pytest.mark.parametrize("code", [pb.TopicTerminatedError, pb.ProducerFenced])
async def test_a_final_send_error_fails_all_sends_for_good(broker: FakeBroker, client: PulsarClient, code: int) -> None:
    producer = client.producer(TOPIC)
    broker.on(Type.SEND, refuse(code))
    for future in [send(producer), send(producer)]:
        with pytest.raises(PulsarError) as caught:
            await future
        assert caught.value.code == code
    with pytest.raises(PulsarError):
        await send(producer)
    await producer.writable()


@pytest.mark.parametrize("code", [pb.TopicNotFound, pb.AuthorizationError, pb.ProducerFenced, pb.TopicTerminatedError])
async def test_a_final_open_error_fails_pending_and_later_sends(
    broker: FakeBroker, client: PulsarClient, code: int
) -> None:
    broker.on(Type.PRODUCER, refuse_open(code))
    producer = client.producer(TOPIC)
    pending = send(producer)
    for awaitable in (producer.opened(), pending, send(producer)):
        with pytest.raises(PulsarError) as caught:
            await awaitable
        assert caught.value.code == code


async def test_a_passing_open_error_is_tried_again_with_a_fresh_lookup(
    broker: FakeBroker, client: PulsarClient
) -> None:
    broker.once(Type.PRODUCER, refuse_open(pb.ServiceNotReady))
    await send(client.producer(TOPIC))
    assert len(broker.all(Type.LOOKUP)) == 2
    # The first attempt was closed before the second was made.
    order = [command.type for command in broker.producing.commands if command.type != Type.LOOKUP]
    assert order[1:] == [Type.PRODUCER, Type.CLOSE_PRODUCER, Type.PRODUCER, Type.SEND]


async def test_a_name_in_use_is_given_time_to_become_free(broker: FakeBroker) -> None:
    settings = PulsarSettings(service_url=broker.url, operation_timeout_seconds=0.2)
    client = PulsarClient(settings, PulsarMetrics())
    broker.on(Type.PRODUCER, refuse_open(pb.ProducerBusy))
    with pytest.raises(PulsarError) as caught:
        await client.producer(TOPIC, name="mine").opened()
    assert caught.value.code == pb.ProducerBusy
    assert len(broker.all(Type.PRODUCER)) > 1
    await client.close()


async def test_waiting_for_exclusive_access_ends_with_the_second_answer(
    broker: FakeBroker, client: PulsarClient
) -> None:
    asked: list[int] = []

    def queue(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        asked.append(command.producer.request_id)
        success = pb.CommandProducerSuccess(request_id=asked[0], producer_name="n", producer_ready=False)
        peer.send(type=Type.PRODUCER_SUCCESS, producer_success=success)

    broker.on(Type.PRODUCER, queue)
    producer = client.producer(TOPIC, access_mode=AccessMode.WAIT_FOR_EXCLUSIVE)
    opened = asyncio.ensure_future(producer.opened())
    await broker.until(lambda: bool(asked))
    assert not opened.done()
    granted = pb.CommandProducerSuccess(request_id=asked[0], producer_name="n", topic_epoch=4)
    broker.peers[-1].send(type=Type.PRODUCER_SUCCESS, producer_success=granted)
    await opened


async def test_the_producers_of_each_topic_have_a_connection_apart(broker: FakeBroker, client: PulsarClient) -> None:
    """A broker throttles a topic by not reading the connection of its producers."""
    for topic in ("persistent://a/b/t-partition-0", "persistent://a/b/t-partition-1", "persistent://a/b/u"):
        await client.producer(topic).opened()
    opened = [[command.producer.topic for command in peer.of_type(Type.PRODUCER)] for peer in broker.peers]
    assert opened == [[], ["persistent://a/b/t-partition-0", "persistent://a/b/t-partition-1"], ["persistent://a/b/u"]]
    assert [bool(peer.of_type(Type.LOOKUP)) for peer in broker.peers] == [True, False, False]


async def test_a_duplicate_is_told_from_a_stored_entry_even_ahead_of_its_turn(
    broker: FakeBroker, client: PulsarClient
) -> None:
    held: list[pb.CommandSend] = []

    def answer(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        if command.send.sequence_id == 5:
            peer.receipt(command.send, 2**64 - 1, 2**64 - 1)
            peer.receipt(held[0], 3, 3)
        else:
            held.append(command.send)

    broker.on(Type.SEND, answer)
    producer = client.producer(TOPIC, name="mine")
    new = producer.send(pb.MessageMetadata(sequence_id=10), b"new", 1)
    again = producer.send(pb.MessageMetadata(sequence_id=5), b"again", 1)
    assert (await again).duplicate
    assert (await new).position == Position(3, 3)
    assert not (await new).duplicate


async def test_a_receipt_out_of_order_makes_the_producer_start_over(broker: FakeBroker, client: PulsarClient) -> None:
    def skip(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        peer.receipt(pb.CommandSend(producer_id=command.send.producer_id, sequence_id=99), 1, 1)

    producer = client.producer(TOPIC)
    broker.once(Type.SEND, skip)
    await send(producer)
    assert len(broker.all(Type.PRODUCER)) == 2


async def test_an_entry_above_the_brokers_limit_is_not_sent(broker: FakeBroker, client: PulsarClient) -> None:
    producer = client.producer(TOPIC)
    before, queued = send(producer, bytes(2 << 20)), send(producer, b"fits")
    with pytest.raises(MessageTooLarge):
        await before
    await queued
    assert producer.max_message_size == 1 << 20
    with pytest.raises(MessageTooLarge):
        await send(producer, bytes(2 << 20))
    assert (producer.pending_count, producer.pending_bytes) == (0, 0)


async def test_what_is_too_large_once_it_is_connected_may_give_up_what_waits_behind_it(
    broker: FakeBroker, client: PulsarClient
) -> None:
    producer = client.producer(TOPIC)
    large = producer.enqueue(pb.MessageMetadata(), bytes(2 << 20), 1, lambda _: producer.give_up_unwritten())
    behind = send(producer, b"fits")
    with pytest.raises(MessageTooLarge):
        await large.future
    with pytest.raises(ClientClosed):
        await behind
    await send(producer)
    assert (producer.pending_count, producer.pending_bytes) == (0, 0)


async def test_a_name_that_another_producer_has_written_under_is_lost(broker: FakeBroker, client: PulsarClient) -> None:
    last = 4

    def succeed(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        success = pb.CommandProducerSuccess(
            request_id=command.producer.request_id, producer_name="mine", last_sequence_id=last
        )
        peer.send(type=Type.PRODUCER_SUCCESS, producer_success=success)

    broker.on(Type.PRODUCER, succeed)
    producer = client.producer(TOPIC, name="mine")
    await producer.send(pb.MessageMetadata(sequence_id=5, highest_sequence_id=7), b"x", 3)
    last = 7
    broker.producing.close()
    await producer.send(pb.MessageMetadata(sequence_id=8), b"y", 1)
    broker.on(Type.SEND, close_producer)
    pending = producer.send(pb.MessageMetadata(sequence_id=9), b"z", 1)
    last = 10
    with pytest.raises(PulsarError) as caught:
        await pending
    assert caught.value.code == pb.ProducerFenced
    assert producer.released.done()


async def test_a_name_is_one_producer_s_at_a_time(broker: FakeBroker, client: PulsarClient) -> None:
    first = client.producer(TOPIC, name="mine")
    await first.opened()
    closing: list[tuple[Peer, int]] = []
    broker.once(Type.CLOSE_PRODUCER, lambda peer, command, _: closing.append((peer, command.close_producer.request_id)))
    leaving = asyncio.ensure_future(first.close())
    second = client.producer(TOPIC, name="mine")
    sent = send(second, b"after")
    await broker.until(lambda: bool(closing))
    assert len(broker.all(Type.PRODUCER)) == 1
    peer, request_id = closing[0]
    peer.send(type=Type.SUCCESS, success=pb.CommandSuccess(request_id=request_id))
    await asyncio.gather(leaving, sent)
    assert len(broker.all(Type.PRODUCER)) == 2


async def test_a_producer_that_was_forgotten_gives_its_name_to_the_next(
    broker: FakeBroker, client: PulsarClient, caplog: pytest.LogCaptureFixture
) -> None:
    forgotten = client.producer(TOPIC, name="mine")
    await forgotten.opened()
    await send(client.producer(TOPIC, name="mine"), b"next")
    with pytest.raises(ClientClosed):
        await send(forgotten)
    assert "producer name in use by this process" in caplog.text


async def test_a_busy_name_is_asked_for_often(broker: FakeBroker, client: PulsarClient) -> None:
    """The broker does not tell when a name is free."""
    left = 12

    def busy(peer: Peer, command: pb.BaseCommand, body: memoryview) -> None:
        nonlocal left
        left -= 1
        (refuse_open(pb.ProducerBusy) if left else succeed_open)(peer, command, body)

    broker.on(Type.PRODUCER, busy)
    producer = client.producer(TOPIC, name="mine")
    async with asyncio.timeout(5):  # with delays that double it would be 60 and more
        await producer.opened()
    assert producer.last_error is None
