"""The client's own answers, and the topic watch, against a scripted broker."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import PulsarClient, PulsarError, protocol
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.fake_broker import FakeBroker, Handler, Peer, Type, lookup_answer
from tests.support.waiting import until

TOPIC = "persistent://public/default/t"


@pytest.fixture
async def client(broker: FakeBroker) -> AsyncIterator[PulsarClient]:
    client = PulsarClient(PulsarSettings(service_url=broker.url), PulsarMetrics())
    yield client
    await client.close()


def answers_in_turn(urls: list[str]) -> Handler:
    """Look-ups give these addresses one after another, then the last."""
    left = itertools.chain(urls, itertools.repeat(urls[-1]))

    def answer(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        made = lookup_answer(command.lookup_topic.request_id, next(left))
        peer.send_raw(protocol.simple_frame(made.SerializeToString()))

    return answer


def connect_as_an_old_broker(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
    peer.send(type=Type.CONNECTED, connected=pb.CommandConnected(server_version="old"))


async def test_an_old_broker_is_not_asked_what_it_would_answer_by_creating(
    broker: FakeBroker, client: PulsarClient
) -> None:
    broker.on(Type.CONNECT, connect_as_an_old_broker)
    with pytest.raises(PulsarError) as caught:
        await client.partitions(TOPIC)
    assert caught.value.code == pb.UnsupportedVersionError
    assert broker.all(Type.PARTITIONED_METADATA) == []
    assert await client.watch_topics("public/default", lambda added, removed: None) is None


async def test_failed_partition_metadata_is_the_brokers_error(broker: FakeBroker, client: PulsarClient) -> None:
    def fail(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        answer = pb.CommandPartitionedTopicMetadataResponse(
            request_id=command.partition_metadata.request_id,
            response=pb.CommandPartitionedTopicMetadataResponse.Failed,
            error=pb.TopicNotFound,
        )
        peer.send(type=Type.PARTITIONED_METADATA_RESPONSE, partition_metadata_response=answer)

    broker.on(Type.PARTITIONED_METADATA, fail)
    with pytest.raises(PulsarError) as caught:
        await client.partitions(TOPIC)
    assert caught.value.code == pb.TopicNotFound


async def test_an_error_that_a_proxy_tells_as_that_of_a_look_up_is_one(
    broker: FakeBroker, client: PulsarClient
) -> None:
    def as_a_proxy(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        answer = pb.CommandLookupTopicResponse(
            request_id=command.partition_metadata.request_id,
            response=pb.CommandLookupTopicResponse.Failed,
            error=pb.TopicNotFound,
            message="not there",
        )
        peer.send(type=Type.LOOKUP_RESPONSE, lookup_topic_response=answer)

    broker.on(Type.PARTITIONED_METADATA, as_a_proxy)
    with pytest.raises(PulsarError, match="not there") as caught:
        await client.partitions(TOPIC)
    assert caught.value.code == pb.TopicNotFound


async def test_a_topic_that_a_proxy_shows_without_partitions_is_asked_for_again(
    broker: FakeBroker, client: PulsarClient
) -> None:
    def connected_to_a_proxy(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        features = pb.FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
        peer.send(type=Type.CONNECTED, connected=pb.CommandConnected(server_version="proxy", feature_flags=features))

    def none_at_first(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        first = len(broker.all(Type.PARTITIONED_METADATA)) == 1
        answer = pb.CommandPartitionedTopicMetadataResponse(request_id=command.partition_metadata.request_id)
        if first:
            answer.partitions, answer.response = 0, pb.CommandPartitionedTopicMetadataResponse.Success
        else:
            answer.error, answer.response = pb.TopicNotFound, pb.CommandPartitionedTopicMetadataResponse.Failed
        peer.send(type=Type.PARTITIONED_METADATA_RESPONSE, partition_metadata_response=answer)

    broker.on(Type.CONNECT, connected_to_a_proxy)
    broker.on(Type.PARTITIONED_METADATA, none_at_first)
    with pytest.raises(PulsarError, match="TopicNotFound"):
        await client.partitions(TOPIC)


async def test_after_a_reconnect_a_watch_tells_the_difference(broker: FakeBroker, client: PulsarClient) -> None:
    topics = ["a", "b"]

    def watching(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        asked = command.watch_topic_list
        success = pb.CommandWatchTopicListSuccess(
            request_id=asked.request_id, watcher_id=asked.watcher_id, topic=topics, topics_hash="h"
        )
        peer.send(type=Type.WATCH_TOPIC_LIST_SUCCESS, watch_topic_list_success=success)

    broker.on(Type.WATCH_TOPIC_LIST, watching)
    told: asyncio.Queue[tuple[list[str], list[str]]] = asyncio.Queue()
    watch = await client.watch_topics("n/s", lambda added, removed: told.put_nowait((list(added), list(removed))))
    assert watch is not None
    assert await told.get() == (["a", "b"], [])
    watcher = broker.all(Type.WATCH_TOPIC_LIST)[0].watch_topic_list.watcher_id
    update = pb.CommandWatchTopicUpdate(
        watcher_id=watcher, new_topics=["c"], deleted_topics=["a", "never there"], topics_hash="h"
    )
    broker.peers[0].send(type=Type.WATCH_TOPIC_UPDATE, watch_topic_update=update)
    assert await told.get() == (["c"], ["a"])
    topics[:] = ["c", "d"]
    broker.peers[0].close()
    assert await told.get() == (["d"], ["b"])
    assert watch.topics == {"c", "d"}
    await watch.close()
    await broker.until(lambda: bool(broker.all(Type.WATCH_TOPIC_LIST_CLOSE)))


async def test_closing_a_producer_that_is_still_opening_tells_the_broker(
    broker: FakeBroker, client: PulsarClient
) -> None:
    broker.on(Type.PRODUCER, lambda *_: None)
    producer = client.producer(TOPIC)
    await broker.until(lambda: bool(broker.all(Type.PRODUCER)))
    await producer.close(flush=False)
    await broker.until(lambda: bool(broker.all(Type.CLOSE_PRODUCER)))


async def test_closing_the_client_closes_what_it_made(broker: FakeBroker) -> None:
    metrics = PulsarMetrics()
    client = PulsarClient(PulsarSettings(service_url=broker.url), metrics)
    producer = client.producer(TOPIC)
    await producer.opened()
    assert (metrics.producers.value, metrics.connections.value) == (1, 2)
    await client.close()
    await broker.until(lambda: bool(broker.all(Type.CLOSE_PRODUCER)))
    assert metrics.producers.value == 0
    assert producer.closed


async def test_who_waits_to_try_again_can_be_hurried(
    broker: FakeBroker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pulsar.connection.reconnecting._FIRST_DELAY_SECONDS", 1000.0)
    broker.once(Type.PRODUCER, lambda peer, command, _: peer.error(command.producer.request_id, pb.ServiceNotReady))
    producer = client.producer(TOPIC)
    refused = asyncio.ensure_future(producer.opened())
    await broker.until(lambda: len(broker.all(Type.PRODUCER)) == 1)
    while not refused.done():  # until it has heard that it was refused, there is nothing to retry_now
        await asyncio.sleep(0)
        client.retry_now()
    assert len(broker.all(Type.PRODUCER)) == 2


@pytest.mark.parametrize("are_hurried", [True, False])
async def test_all_that_could_not_attach_try_again_when_the_first_one_can(
    broker: FakeBroker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch, are_hurried: bool
) -> None:
    """But for what fails while others attach all the time, as a topic does that has an error of its own."""
    monkeypatch.setattr("bridge.pulsar.connection.reconnecting._FIRST_DELAY_SECONDS", 1000.0)
    monkeypatch.setattr("bridge.pulsar.connection.pool._HURRIED_AFTER_SECONDS", 0.0 if are_hurried else 1000.0)
    waiting = [client.producer(f"{TOPIC}{number}") for number in range(4)]
    for _ in waiting:
        broker.once(Type.PRODUCER, lambda peer, command, _: peer.error(command.producer.request_id, pb.ServiceNotReady))
    await until(lambda: all(one.last_error is not None for one in waiting))
    await client.producer(TOPIC).opened()
    if are_hurried:
        await asyncio.gather(*(one.opened() for one in waiting))
    else:
        assert not any(one.attached for one in waiting)


async def test_who_waits_for_a_dead_broker_tries_again_when_another_one_has_its_topic(
    broker: FakeBroker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pulsar.connection.reconnecting._FIRST_DELAY_SECONDS", 1000.0)
    broker.on(Type.LOOKUP, answers_in_turn([*["pulsar://127.0.0.1:1"] * 3, broker.url]))
    async with asyncio.timeout(10):
        await client.producer(TOPIC).opened()


async def test_a_broker_that_falls_silent_is_left_once_another_one_has_its_topics(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pulsar.connection.broker_connection._CHECK_SECONDS", 0.05)
    async with FakeBroker() as other:
        urls = [broker.url, broker.url, other.url]
        other.on(Type.LOOKUP, answers_in_turn(urls))
        settings = PulsarSettings(service_url=f"{broker.url},127.0.0.1:{other.port}")
        client = PulsarClient(settings, PulsarMetrics())
        producer = client.producer(TOPIC)
        await producer.opened()
        for kind in (Type.PING, Type.SEND, Type.LOOKUP):  # as a stopped process: it takes bytes and answers nothing
            broker.on(kind, lambda *_: None)
        async with asyncio.timeout(10):
            await producer.send(pb.MessageMetadata(), b"only", 1)
        assert (len(broker.stored), len(other.stored)) == (0, 1)
        assert len(other.all(Type.LOOKUP)) >= len(urls)  # it was not left before
        await client.close()
