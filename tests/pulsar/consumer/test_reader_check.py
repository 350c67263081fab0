"""Readers that a broker has forgotten: it closed their topic just as they came, and they are not told."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.pulsar import LATEST, PulsarClient
from bridge.pulsar.consumer import reader as module
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import ClientClosed, Position
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.consumer.log_broker import LEDGER, TOPIC, Log, body
from tests.pulsar.fake_broker import Peer, Type

pytestmark = pytest.mark.usefixtures("soon")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHECK_SECONDS", 0.02)


@pytest.fixture
async def broker() -> AsyncIterator[Log]:
    async with Log([body(b"%d" % number) for number in range(3)]) as broker:
        yield broker


def sessions(broker: Log) -> list[int]:
    return [command.subscribe.consumer_id for command in broker.all(Type.SUBSCRIBE)]


def closed(broker: Log) -> list[int]:
    return [command.close_consumer.consumer_id for command in broker.all(Type.CLOSE_CONSUMER)]


async def test_one_that_is_forgotten_comes_back_and_misses_nothing(
    broker: Log, client: PulsarClient, metrics: PulsarMetrics
) -> None:
    reader = await client.reader(TOPIC, LATEST)
    first = broker.consumer
    await broker.until(lambda: bool(broker.all(Type.FLOW)))  # after that, nothing is delivered to it
    broker.peers[-1].forget_consumer(first)
    broker.entries.append(body(b"new"))
    entry = await reader.receive()
    assert (entry.position.ledger, entry.position.entry, bytes(entry.payload)) == (LEDGER, 3, b"new")
    asked = sessions(broker)
    assert len(asked) == 3  # it, the check, and the one that goes on
    assert closed(broker) == [asked[1], first]
    assert metrics.forgotten_readers.value == 1


async def test_one_that_is_known_goes_on_and_is_checked_once(
    broker: Log, client: PulsarClient, metrics: PulsarMetrics
) -> None:
    reader = await client.reader(TOPIC, LATEST)
    first = broker.consumer
    await broker.until(lambda: len(sessions(broker)) == 2)
    await asyncio.sleep(5 * module._CHECK_SECONDS)
    assert len(sessions(broker)) == 2
    assert closed(broker) == []
    broker.entries.append(body(b"new"))
    broker.deliver(broker.peers[-1], first)
    assert bytes((await reader.receive()).payload) == b"new"
    assert metrics.forgotten_readers.value == 0


async def test_while_the_broker_does_not_say_it_is_asked_again(broker: Log, client: PulsarClient) -> None:
    await client.reader(TOPIC, LATEST)
    first = broker.consumer

    def not_now(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        peer.error(command.subscribe.request_id, pb.ServiceNotReady, "the topic is being closed")

    broker.once(Type.SUBSCRIBE, not_now)
    await broker.until(lambda: len(sessions(broker)) == 3)
    await broker.until(lambda: bool(closed(broker)))
    assert closed(broker) == [sessions(broker)[1]]  # it may have been opened all the same
    assert first not in closed(broker)


async def test_a_reader_that_is_closed_meanwhile_leaves_nothing_open(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, LATEST)
    broker.once(Type.SUBSCRIBE, lambda peer, command, body: None)  # no answer
    await broker.until(lambda: len(sessions(broker)) == 2)
    await reader.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("check ")]
    await broker.until(lambda: len(closed(broker)) == 2)
    assert sorted(closed(broker)) == sorted(sessions(broker))


async def test_only_a_session_that_has_been_checked_tells_the_checked_end(broker: Log, client: PulsarClient) -> None:
    """The one that is forgotten tells the end of before, forever."""
    reader = await client.reader(TOPIC, LATEST)
    asking = asyncio.ensure_future(reader.checked_last_position())
    broker.peers[-1].forget_consumer(broker.consumer)
    broker.entries.append(body(b"new"))
    assert await asking == Position(LEDGER, 3)
    assert len(broker.all(Type.GET_LAST_MESSAGE_ID)) == 2  # the other is that of LATEST
    assert len(sessions(broker)) == 4  # it, its check, the one that goes on, and its check
    await reader.checked_last_position()
    assert len(sessions(broker)) == 4


async def test_who_waits_for_a_checked_end_is_told_that_the_reader_is_closed(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, LATEST)
    asking = asyncio.ensure_future(reader.checked_last_position())
    await asyncio.sleep(0)
    await reader.close()
    with pytest.raises(ClientClosed):
        await asking


async def test_one_that_is_closed_first_is_not_checked(broker: Log, client: PulsarClient) -> None:
    reader = await client.reader(TOPIC, LATEST)
    await reader.close()
    await asyncio.sleep(5 * module._CHECK_SECONDS)
    assert len(sessions(broker)) == 1
