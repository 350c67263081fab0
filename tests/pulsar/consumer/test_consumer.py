"""Readers and consumers against a scripted broker: what the real one does not do on demand."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import CorruptEntry
from bridge.pulsar import EARLIEST, LATEST, ClientClosed, Position, PulsarClient, PulsarError
from bridge.pulsar.connection.context import QueueMemory
from bridge.pulsar.consumer.flow_control import FlowControl
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from tests.pulsar.consumer.log_broker import LEDGER, TOPIC, Log, body
from tests.pulsar.fake_broker import Type


@pytest.fixture
async def broker() -> AsyncIterator[Log]:
    async with Log([body(b"%d" % number, index=number) for number in range(50)]) as broker:
        yield broker


async def test_a_reader_starts_where_it_is_told(client: PulsarClient) -> None:
    for start, inclusive, first in [
        (EARLIEST, True, 0),
        (Position(LEDGER, 3), True, 3),
        (Position(LEDGER, 3), False, 4),
        (Position(LEDGER, 0), True, 0),
    ]:
        reader = await client.reader(TOPIC, start, inclusive=inclusive)
        entry = await reader.receive()
        assert (entry.position, entry.index, entry.broker_timestamp) == (Position(LEDGER, first), first, 5)
        assert bytes(entry.payload) == b"%d" % first
        await reader.close()


async def test_a_reader_asks_for_more_when_half_is_taken(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, EARLIEST, permits=10)
    for _ in range(50):
        await reader.receive()
    given_permits = [command.flow.message_permits for command in broker.all(Type.FLOW)]
    assert given_permits[0] <= 10
    assert len(given_permits) < 20
    assert max(broker.permits.values()) <= 10


async def test_a_reader_acknowledges_as_it_goes(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, EARLIEST, permits=10)
    for _ in range(50):
        await reader.receive()
    acks = [command.ack for command in broker.all(Type.ACK)]
    assert acks
    assert all(ack.ack_type == pb.CommandAck.Cumulative for ack in acks)
    assert len(acks) < 20


async def test_after_a_lost_connection_a_reader_goes_on_behind_what_it_received(
    broker: Log, client: PulsarClient
) -> None:
    reader = await client.reader(TOPIC, EARLIEST, permits=10)
    got = [(await reader.receive()).position.entry for _ in range(5)]
    broker.peers[-1].close()
    await broker.until(lambda: len(broker.all(Type.SUBSCRIBE)) == 2)
    got += [(await reader.receive()).position.entry for _ in range(45)]
    assert got == list(range(50))
    assert len(broker.all(Type.LOOKUP)) == 2


async def test_a_reader_the_broker_closes_comes_back(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, EARLIEST, permits=4)
    got = [(await reader.receive()).position.entry]
    for _ in range(49):
        if len(got) % 10 == 0:
            broker.close_consumer(broker.consumer)
        got.append((await reader.receive()).position.entry)
    assert got == list(range(50))


async def test_entries_delivered_again_are_not_received_again(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, EARLIEST)
    await reader.receive()
    broker.peers[-1].send_entry(broker.consumer, LEDGER, 0, broker.entries[0])
    assert [(await reader.receive()).position.entry for _ in range(49)] == list(range(1, 50))


async def test_what_is_under_way_to_an_old_session_is_not_taken_for_the_new_ones(
    broker: Log, client: PulsarClient
) -> None:
    reader = await client.reader(TOPIC, Position(LEDGER, 40), permits=2)
    await reader.receive()
    old = broker.consumer
    await reader.seek(Position(LEDGER, 10))
    broker.peers[-1].send_entry(old, LEDGER, 45, broker.entries[45])
    assert [(await reader.receive()).position.entry for _ in range(3)] == [10, 11, 12]


async def test_latest_is_a_place_from_the_start(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, LATEST)
    broker.entries.append(body(b"new"))
    broker.peers[-1].close()  # before the first entry was received
    assert (await reader.receive()).position == Position(LEDGER, 50)


async def test_a_corrupt_entry_is_told_and_the_next_one_comes(broker: Log, client: PulsarClient) -> None:
    broker.entries[1] = broker.entries[1][:-1] + b"?"
    broker.entries[2] = b"\x00"
    reader = await client.reader(TOPIC, EARLIEST)
    await reader.receive()
    for entry in (1, 2):
        with pytest.raises(CorruptEntry) as caught:
            await reader.receive()
        assert caught.value.args[1] == Position(LEDGER, entry)
    assert (await reader.receive()).position.entry == 3
    await broker.until(lambda: len(broker.all(Type.ACK)) >= 2)
    errors = [one.ack.validation_error for one in broker.all(Type.ACK) if one.ack.HasField("validation_error")]
    assert errors == [pb.CommandAck.ChecksumMismatch, pb.CommandAck.BatchDeSerializeError]


async def test_corrupt_entries_do_not_use_up_the_permits(broker: Log, client: PulsarClient) -> None:
    broker.entries[:40] = [entry[:-1] + b"?" for entry in broker.entries[:40]]
    reader = await client.reader(TOPIC, EARLIEST, permits=4)
    for _ in range(40):
        with pytest.raises(CorruptEntry):
            await reader.receive()
    assert (await reader.receive()).position.entry == 40


async def test_a_missing_checksum_is_fine(broker: Log, client: PulsarClient) -> None:
    broker.entries[0] = body(b"bare")[6:]
    reader = await client.reader(TOPIC, EARLIEST)
    entry = await reader.receive()
    assert (bytes(entry.payload), entry.index) == (b"bare", None)


async def test_receiving_without_waiting(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, Position(LEDGER, 49))
    assert (await reader.receive()).position.entry == 49
    assert reader.receive_nowait() is None


async def test_closing_ends_a_waiting_receive(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, LATEST)
    waiting = asyncio.ensure_future(reader.receive())
    await asyncio.sleep(0)
    await reader.close()
    with pytest.raises(ClientClosed):
        await waiting
    assert reader.closed


async def test_a_refused_subscription_raises(broker: Log, client: PulsarClient) -> None:
    broker.on(Type.SUBSCRIBE, lambda peer, command, _: peer.error(command.subscribe.request_id, pb.TopicNotFound))
    with pytest.raises(PulsarError) as caught:
        await client.reader(TOPIC, EARLIEST)
    assert caught.value.code == pb.TopicNotFound


async def test_a_topic_not_ready_is_asked_again(broker: Log, client: PulsarClient) -> None:
    broker.once(Type.SUBSCRIBE, lambda peer, command, _: peer.error(command.subscribe.request_id, pb.ServiceNotReady))
    reader = await client.reader(TOPIC, EARLIEST)
    assert (await reader.receive()).position.entry == 0
    assert len(broker.all(Type.LOOKUP)) == 2


async def test_the_last_position_is_asked_again_after_a_lost_connection(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, EARLIEST)
    broker.once(Type.GET_LAST_MESSAGE_ID, lambda peer, *_: peer.close())
    assert await reader.last_position() == Position(LEDGER, 49)


async def test_the_end_of_a_terminated_topic_is_noted(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, Position(LEDGER, 49))
    broker.peers[-1].send(
        type=Type.REACHED_END_OF_TOPIC, reached_end_of_topic=pb.CommandReachedEndOfTopic(consumer_id=broker.consumer)
    )
    assert (await reader.receive()).position.entry == 49
    assert reader.ended


async def test_a_consumer_is_told_whether_it_is_the_active_one(broker: Log, client: PulsarClient) -> None:
    consumer = await client.consumer(TOPIC, "s")
    change = pb.CommandActiveConsumerChange(consumer_id=broker.consumer, is_active=True)
    broker.peers[-1].send(type=Type.ACTIVE_CONSUMER_CHANGE, active_consumer_change=change)
    await consumer.receive()
    await consumer.receive()
    assert consumer.active


async def test_one_entry_is_read_without_a_second_lookup(broker: Log, client: PulsarClient) -> None:
    for number in (3, 9, 0):
        entry = await client.read_entry(TOPIC, Position(LEDGER, number))
        assert entry is not None
        assert entry.position.entry == number
    assert len(broker.all(Type.LOOKUP)) == 1
    assert {command.flow.message_permits for command in broker.all(Type.FLOW)} == {1}
    assert len(broker.all(Type.CLOSE_CONSUMER)) >= 2


async def test_one_entry_is_looked_up_again_when_its_broker_refuses(broker: Log, client: PulsarClient) -> None:
    await client.read_entry(TOPIC, Position(LEDGER, 1))
    broker.once(Type.SUBSCRIBE, lambda peer, command, _: peer.error(command.subscribe.request_id, pb.ServiceNotReady))
    assert await client.read_entry(TOPIC, Position(LEDGER, 2)) is not None
    assert len(broker.all(Type.LOOKUP)) == 2


async def test_an_entry_past_the_end_is_none(broker: Log, client: PulsarClient) -> None:
    assert await client.read_entry(TOPIC, Position(LEDGER, 50)) is None


async def test_one_corrupt_entry_raises(broker: Log, client: PulsarClient) -> None:
    broker.entries[4] = broker.entries[4][:-1] + b"?"
    with pytest.raises(CorruptEntry) as caught:
        await client.read_entry(TOPIC, Position(LEDGER, 4))
    assert caught.value.args[1] == Position(LEDGER, 4)


async def test_a_topic_that_is_not_there_is_not_waited_for(broker: Log, client: PulsarClient) -> None:
    broker.on(Type.SUBSCRIBE, lambda peer, command, _: peer.error(command.subscribe.request_id, pb.TopicNotFound))
    with pytest.raises(PulsarError) as caught:
        await client.read_entry(TOPIC, Position(LEDGER, 4))
    assert caught.value.code == pb.TopicNotFound


entries = st.lists(st.tuples(st.integers(1, 500), st.integers(20, 2_000_000)), max_size=60)


@given(st.integers(1, 1000), st.integers(1000, 8 << 20), entries)
def test_flow_never_stalls_and_never_grows_past_its_bounds(
    permits: int, max_buffer: int, sizes: list[tuple[int, int]]
) -> None:
    flow = FlowControl(permits, max_buffer)
    granted = flow.refill()
    assert 1 <= granted <= permits
    for messages, size in sizes:
        assert granted > 0  # the broker may deliver: a user who takes everything never waits forever
        granted -= messages
        flow.received(messages, size)
        flow.consumed(messages, size)
        granted += flow.refill()
        assert granted <= permits
        assert flow.outstanding == granted


def test_what_comes_beyond_the_permits_is_not_answered_entry_by_entry() -> None:
    """A broker reads up to 5 MB for the first permit: 40 batches of 128 records."""
    flow = FlowControl(100_000, 2 << 20)
    outstanding, flows, entries = flow.refill(), 0, 0
    while entries < 4000:
        assert outstanding > 0, "the broker may go on"
        for _ in range(40):
            flow.received(128, 128 << 10)
            outstanding, entries = outstanding - 128, entries + 1
        while flow.queued:
            flow.consumed(128, 128 << 10)
            granted = flow.refill()
            outstanding, flows = outstanding + granted, flows + (granted > 0)
    assert flows <= 4 * entries / 40


def test_a_buffer_is_larger_while_few_have_asked_for_it() -> None:
    memory, buffer, more = QueueMemory(), 2 << 20, 6 << 20
    flows = [FlowControl(100_000, buffer, memory, more) for _ in range(6)]
    windows = []
    for flow in flows:
        flow.refill()
        flow.received(1, 1 << 10)  # from here on it is known how large messages are
        flow.consumed(1, 1 << 10)
        flow.refill()
        windows.append(flow.outstanding << 10)
    assert windows == [buffer + more] * 4 + [buffer] * 2
    flows[0].close()
    flows[0].close()
    flows[5].received(flows[5].outstanding, flows[5].outstanding << 10)
    flows[5].consumed(flows[5].queued, flows[5].queued_bytes)
    flows[5].refill()
    assert flows[5].outstanding << 10 == buffer + more, "what is returned is lent again"
    for flow in flows:
        flow.close()
    assert memory.lent == 0


@given(st.integers(1, 1000), st.integers(1, 5_000_000))
def test_flow_bounds_bytes_once_the_size_is_known(permits: int, size: int) -> None:
    max_buffer = 8 << 20
    flow = FlowControl(permits, max_buffer)
    waiting = flow.refill()
    while waiting:
        waiting -= 1
        flow.received(1, size)
    first = flow.queued
    for _ in range(3 * permits):
        flow.consumed(1, size)
        for _ in range(flow.refill()):
            flow.received(1, size)
    assert flow.queued_bytes <= max(max_buffer, first * size, size)
