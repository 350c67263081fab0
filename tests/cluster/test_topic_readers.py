"""Reading a cluster's topics: what is told when a reader begins again, and of an entry that cannot be decoded."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.cluster.topic_readers import TopicFollower
from bridge.config import PulsarSettings
from bridge.pulsar import PulsarClient
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.types import EARLIEST, Entry, Position
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.consumer.log_broker import LEDGER, TOPIC, Log, body
from tests.pulsar.fake_broker import Type


@pytest.fixture
async def broker() -> AsyncIterator[Log]:
    async with Log([body(b"%d" % index) for index in range(20)]) as found:
        yield found


@pytest.fixture
async def client(broker: Log) -> AsyncIterator[PulsarClient]:
    client = PulsarClient(PulsarSettings(service_url=broker.url), PulsarMetrics())
    yield client
    await client.close()


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_restart_begins_where_it_is_told_and_nothing_more_comes_of_what_was_read_before(
    broker: Log, client: PulsarClient, is_refused: bool
) -> None:
    heard: list[int] = []
    caught_up = asyncio.Event()

    def on_entry(entry: Entry) -> None:
        heard.append(entry.position.entry)
        if len(heard) == 5:
            if is_refused:
                broker.once(
                    Type.SUBSCRIBE, lambda peer, command, _: peer.error(command.subscribe.request_id, pb.TopicNotFound)
                )
            follower.restart(Position(LEDGER, 2))

    follower = TopicFollower(client, TOPIC, on_entry)
    follower.start(None, until=Position(LEDGER, 19), caught_up=caught_up.set)
    await caught_up.wait()
    await follower.close()
    assert heard == [*range(5), *range(2, 20)]


async def test_a_log_whose_last_entry_cannot_be_decoded_is_read_to_its_end(broker: Log, client: PulsarClient) -> None:
    broker.entries[19] = broker.entries[19][:-1] + b"?"
    caught_up = asyncio.Event()
    follower = TopicFollower(client, TOPIC, lambda entry: None)
    follower.start(EARLIEST, until=Position(LEDGER, 19), caught_up=caught_up.set)
    await caught_up.wait()
    await follower.close()
