"""Connections of one client: topics apart, a broker that takes few, that stops reading, that is away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import PulsarClient
from bridge.pulsar.connection.pool import BrokerAway
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.pulsar.protocol import simple_frame
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.fake_broker import FakeBroker, Peer, Type, lookup_answer, store
from tests.pulsar.producer.script import NO_ANSWER, send
from tests.pulsar.real import eventually

Make = Callable[..., PulsarClient]


@pytest.fixture
async def client(broker: FakeBroker) -> AsyncIterator[PulsarClient]:
    """A client of the scripted broker."""
    async with client_of(broker.url) as made:
        yield made


@asynccontextmanager
async def client_of(url: str, metrics: PulsarMetrics | None = None, **settings: int) -> AsyncIterator[PulsarClient]:
    client = PulsarClient(PulsarSettings(service_url=url, **settings), metrics or PulsarMetrics())  # type: ignore[arg-type]
    yield client
    await client.close()


def named(number: int) -> str:
    return f"persistent://public/default/t{number}"


# --- a topic's trouble is its own ---


@pytest.mark.parametrize("reads", [False, True])
async def test_a_broker_that_leaves_one_topic_waiting_answers_the_others(
    broker: FakeBroker, client: PulsarClient, reads: bool
) -> None:
    """A topic above its publish rate, whose connection is not read; or one whose ledger does not take what was read."""
    goes_on = asyncio.Event()
    held: list[asyncio.Task[None]] = []

    async def hold(peer: Peer, command: pb.BaseCommand, body: memoryview) -> None:
        await goes_on.wait()
        store(peer, command, body)

    async def answer(peer: Peer, command: pb.BaseCommand, body: memoryview) -> None:
        if peer.of_type(Type.PRODUCER)[0].producer.topic != named(0):
            store(peer, command, body)
        elif reads:
            held.append(asyncio.create_task(hold(peer, command, memoryview(bytes(body)))))
        else:
            await hold(peer, command, body)

    broker.on(Type.SEND, answer)
    producers = [client.producer(named(number)) for number in range(10)]
    slow = [send(producers[0]) for _ in range(3)]
    await asyncio.gather(*(send(producer) for producer in producers[1:] for _ in range(3)))
    await client.producer(named(99)).opened()  # nor does anything else wait: a look-up, another producer
    assert not any(one.done() for one in slow)
    assert [topic for topic, _ in client.waiting_topics()] == [named(0)]
    goes_on.set()
    await asyncio.gather(*slow)
    assert not list(client.waiting_topics())


async def test_topics_share_connections_above_the_setting(broker: FakeBroker) -> None:
    async with client_of(broker.url, max_producer_connections=2) as client:
        await asyncio.gather(*(send(client.producer(named(number))) for number in range(5)))
        producers = sorted(len(peer.of_type(Type.PRODUCER)) for peer in broker.peers)
        assert producers == [0, 2, 3]


@pytest.mark.parametrize("taken", [1, 2])
async def test_topics_share_what_a_broker_takes_where_it_has_a_limit(broker: FakeBroker, taken: int) -> None:
    """brokerMaxConnectionsPerIp: what is too much is told so and closed (ServerCnx.channelActive)."""
    connect = broker._handlers[Type.CONNECT]

    def limited(peer: Peer, command: pb.BaseCommand, body: memoryview) -> None:
        if sum(not one.closed for one in broker.peers) <= taken:
            connect(peer, command, body)
        else:
            peer.error(2**64 - 1, pb.NotAllowedError, "Reached the maximum number of connections")
            peer.close()

    broker.on(Type.CONNECT, limited)
    metrics = PulsarMetrics()
    async with client_of(broker.url, metrics) as client:
        for number in range(5):
            await send(client.producer(named(number)))
        assert metrics.connections_refused.value == 1  # it is not asked for more each time
        assert metrics.connections.value == taken


async def test_a_broker_that_takes_no_connection_for_a_moment_gets_them_later(
    broker: FakeBroker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others had them all when this one came back: no producer ends by it, and none shares a connection for good."""
    monkeypatch.setattr("bridge.pulsar.connection.pool._FIRST_PROBE_SECONDS", 0.02)
    producers = [client.producer(named(number)) for number in range(3)]
    await asyncio.gather(*(send(producer) for producer in producers))
    connect, refused = broker._handlers[Type.CONNECT], 0

    def refuse_six(peer: Peer, command: pb.BaseCommand, body: memoryview) -> None:
        nonlocal refused
        refused += 1
        if refused > 6:
            connect(peer, command, body)
        else:
            peer.error(2**64 - 1, pb.NotAllowedError, "Reached the maximum number of connections")
            peer.close()

    broker.on(Type.CONNECT, refuse_six)
    for peer in broker.peers:
        peer.close()
    await asyncio.gather(*(send(producer) for producer in producers))
    assert len({id(producer._connection) for producer in producers}) == 3


async def test_a_connection_whose_producers_have_left_is_closed(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pulsar.connection.broker_connection._CHECK_SECONDS", 0.01)
    metrics = PulsarMetrics()
    async with client_of(broker.url, metrics) as client:
        stays, goes = client.producer(named(0)), client.producer(named(1))
        await asyncio.gather(send(stays), send(goes))
        assert metrics.connections.value == 3
        await goes.close()
        await broker.peer_left()
        await send(client.producer(named(1)))  # and is opened again
        await send(stays)
        assert metrics.connections_lost.value == 0


# --- a broker that is away ---


class Hole:
    """Listens, and closes each connection at once: a port behind which the broker is away."""

    def __init__(self) -> None:
        self.attempts = 0
        self.open = self.most = 0
        self.changed = asyncio.Event()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.attempts += 1
        self.open += 1
        self.most = max(self.most, self.open)
        await reader.read(1)
        self.open -= 1
        self.changed.set()
        writer.transport.abort()

    async def until(self, attempts: int) -> None:
        async with asyncio.timeout(20):
            while self.attempts < attempts:
                self.changed.clear()
                await self.changed.wait()


async def test_one_task_tries_to_reach_a_broker_for_all_who_want_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """2,000 producers made an attempt each, again and again, and a line in the log for each."""
    monkeypatch.setattr("bridge.pulsar.connection.pool._PROBE_SECONDS", 0.02)
    caplog.set_level("INFO", "bridge")
    hole = Hole()
    server = await asyncio.start_server(hole.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with client_of(f"pulsar://127.0.0.1:{port}") as client:
        producers = [client.producer(named(number)) for number in range(2000)]
        sends = [send(producer) for producer in producers]
        await hole.until(20)
        assert hole.most == 1
        told = [record.getMessage() for record in caplog.records if record.name.startswith("bridge.pulsar")]
        assert len(told) <= 3, told
        with pytest.raises(BrokerAway):  # a question is not kept waiting
            await client.partitions(named(0))
        server.close()
        await server.wait_closed()
        async with FakeBroker(port=port) as broker:
            await asyncio.gather(*sends)
            assert len(broker.stored) == 2000
            back = next(record for record in caplog.records if record.getMessage() == "= pulsar broker back")
            assert back.__dict__["fields"]["waiting"] == 2000
            for producer in producers:
                await producer.close(flush=False)


async def test_what_is_lost_at_once_is_told_in_few_lines(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Each of those whose look-up was under way had a line of its own."""
    caplog.set_level("INFO", "bridge")
    broker.on(Type.LOOKUP, NO_ANSWER)
    async with client_of(broker.url) as client:
        producers = [client.producer(named(number)) for number in range(100)]
        await broker.until(lambda: len(broker.all(Type.LOOKUP)) == 100)
        broker.peers[0].close()
        await broker.until(lambda: len(broker.all(Type.LOOKUP)) == 200)
        told = [record for record in caplog.records if record.getMessage() == "! pulsar not attached"]
        assert len(told) == 2
        assert all(producer.last_error is not None for producer in producers)


async def test_a_topic_dials_no_broker_that_cannot_be_reached(broker: FakeBroker, client: PulsarClient) -> None:
    """Look-ups go on at another broker, and lead to this one: each topic dialled it by itself."""
    hole = Hole()
    server = await asyncio.start_server(hole.accept, "127.0.0.1", 0)
    there = f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def look_up(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        answer = lookup_answer(command.lookup_topic.request_id, there)
        peer.send_raw(simple_frame(answer.SerializeToString()))

    broker.on(Type.LOOKUP, look_up)
    producers = [client.producer(named(number)) for number in range(50)]
    await hole.until(3)
    assert hole.most == 1
    assert all(isinstance(producer.last_error, BrokerAway) for producer in producers)
    there = broker.url
    await asyncio.gather(*(producer.opened() for producer in producers))
    server.close()
    await server.wait_closed()


async def test_a_silent_broker_is_away_until_it_is_heard(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is stopped: connections to it stay, and nothing is answered. Nobody dials it in vain."""
    monkeypatch.setattr("bridge.pulsar.connection.broker_connection._CHECK_SECONDS", 0.05)
    monkeypatch.setattr("bridge.pulsar.connection.pool._FIRST_PROBE_SECONDS", 0.02)
    caplog.set_level("INFO", "bridge")

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "pulsar broker" in record.getMessage()]

    async def is_away() -> bool:
        return bool(told())

    pong = broker._handlers[Type.PING]
    broker.on(Type.PING, NO_ANSWER)
    async with client_of(broker.url) as client:
        await send(client.producer(named(0)))
        await eventually(is_away)
        with pytest.raises(BrokerAway):
            await client._pool.get(client._pool.service_address, named(1))
        assert len(broker.peers) == 2
        broker.on(Type.PING, pong)
        for peer in broker.peers:
            peer.send(type=Type.PING, ping=pb.CommandPing())
        await send(client.producer(named(1)))
        assert told() == ["! pulsar broker away", "= pulsar broker back"]


async def test_topics_that_a_broker_is_slow_to_load_hold_up_no_others(
    broker: FakeBroker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pulsar.connection.pool._OPENED_AT_ONCE", 2)
    opened = broker._handlers[Type.PRODUCER]

    def load(peer: Peer, command: pb.BaseCommand, body: memoryview) -> object:
        slow = command.producer.topic in map(named, range(4))
        return None if slow else opened(peer, command, body)

    broker.on(Type.PRODUCER, load)  # type: ignore[arg-type]
    producers = [client.producer(named(number)) for number in range(20)]
    await asyncio.gather(*(producer.opened() for producer in producers[4:]))
    assert not any(producer.attached for producer in producers[:4])


async def test_a_topic_that_gets_no_connection_is_no_outage(broker: FakeBroker, client: PulsarClient) -> None:
    """The broker is there: questions and other topics go on, and that topic tries again by itself."""
    await send(client.producer(named(0)))
    connect = broker._handlers[Type.CONNECT]
    refused: list[Peer] = []

    def refuse_twice(peer: Peer, command: pb.BaseCommand, body: memoryview) -> None:
        if len(refused) < 2:
            refused.append(peer)
            peer.close()
        else:
            connect(peer, command, body)

    broker.on(Type.CONNECT, refuse_twice)
    waiting = send(client.producer(named(1)))
    await broker.until(lambda: len(refused) == 1)
    assert not client._pool._outages
    await send(client.producer(named(0)))
    await waiting
    assert not client._pool._outages


async def test_an_outage_of_one_broker_is_not_that_of_another(
    broker: FakeBroker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pulsar.connection.pool._PROBE_SECONDS", 0.02)
    holes = [Hole(), Hole()]
    servers = [await asyncio.start_server(hole.accept, "127.0.0.1", 0) for hole in holes]
    urls = [f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers]

    def look_up(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        topic, answer = (
            command.lookup_topic.topic,
            pb.CommandLookupTopicResponse(response=pb.CommandLookupTopicResponse.Connect),
        )
        answer.request_id = command.lookup_topic.request_id
        answer.broker_service_url = urls[int(topic[-1])] if topic[-1] in "01" else broker.url
        peer.send(type=Type.LOOKUP_RESPONSE, lookup_topic_response=answer)

    broker.on(Type.LOOKUP, look_up)
    waiting = [send(client.producer(named(number))) for number in range(2)]
    for hole in holes:
        await hole.until(3)
    await send(client.producer(named(2)))
    urls[1] = broker.url  # the topic is given to another broker, and the other one stays where it is
    await waiting[1]
    assert not waiting[0].done()
    waiting[0].cancel()
    for server in servers:
        server.close()
        await server.wait_closed()


async def test_the_first_host_of_the_service_url_that_is_back_ends_the_wait(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stays dead: who met that one last, as all others left, does not wait for it alone."""
    monkeypatch.setattr("bridge.pulsar.connection.pool._PROBE_SECONDS", 0.02)
    hole = Hole()
    dead = await asyncio.start_server(hole.accept, "127.0.0.1", 0)
    connect = broker._handlers[Type.CONNECT]
    broker.on(Type.CONNECT, lambda peer, _command, _body: peer.close())
    port = dead.sockets[0].getsockname()[1]
    async with client_of(f"{broker.url},127.0.0.1:{port}") as client:
        producers = [client.producer(named(number)) for number in range(6)]
        await hole.until(3)
        await broker.until(lambda: len(broker.peers) > 2)
        assert all(isinstance(producer.last_error, BrokerAway) for producer in producers)
        broker.on(Type.CONNECT, connect)
        async with asyncio.timeout(5):
            await asyncio.gather(*(producer.opened() for producer in producers))
    dead.close()
    await dead.wait_closed()


async def test_a_leader_that_is_gone_is_asked_for_afresh(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker goes on naming the one that led, which never comes back; then the next one leads."""
    monkeypatch.setattr("bridge.pulsar.connection.pool._PROBE_SECONDS", 0.02)
    hole = Hole()
    gone = await asyncio.start_server(hole.accept, "127.0.0.1", 0)
    leader = f"pulsar://127.0.0.1:{gone.sockets[0].getsockname()[1]}"
    look_up = broker._handlers[Type.LOOKUP]

    def redirect(peer: Peer, command: pb.BaseCommand, body: memoryview) -> None:
        if len(broker.all(Type.LOOKUP)) > 3:
            look_up(peer, command, body)
        else:
            answer = lookup_answer(command.lookup_topic.request_id, leader, redirect=True)
            peer.send(type=answer.type, lookup_topic_response=answer.lookup_topic_response)

    broker.on(Type.LOOKUP, redirect)
    async with client_of(broker.url) as client, asyncio.timeout(5):
        await client.producer(named(0)).opened()
    gone.close()
    await gone.wait_closed()


async def test_what_waits_for_a_broker_can_be_closed(broker: FakeBroker) -> None:
    hole = Hole()
    server = await asyncio.start_server(hole.accept, "127.0.0.1", 0)
    async with client_of(f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        producer = client.producer(named(0))
        await hole.until(1)
        await producer.close(flush=False)
    server.close()
    await server.wait_closed()


async def test_silence_of_one_connection_leaves_the_others(broker: FakeBroker, client: PulsarClient) -> None:
    """The producers' connection of a topic ends; no other topic notices."""
    producers = [client.producer(named(number)) for number in range(3)]
    await asyncio.gather(*(send(producer) for producer in producers))
    broker.once(Type.SEND, NO_ANSWER)
    lost = send(producers[1])
    await broker.until(lambda: len(broker.all(Type.SEND)) == 4)
    told = [producers[0].attached, producers[2].attached]
    next(peer for peer in broker.peers if peer.of_type(Type.SEND)[1:]).close()
    await lost
    assert told == [producers[0].attached, producers[2].attached] == [True, True]
    assert sum(len(peer.of_type(Type.PRODUCER)) for peer in broker.peers) == 4
