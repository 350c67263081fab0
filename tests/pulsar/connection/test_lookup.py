import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import repeat

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import Access, PulsarClient, PulsarError, protocol
from bridge.pulsar.auth import HostRefused
from bridge.pulsar.connection.broker_connection import Address
from bridge.pulsar.connection.lookup import Lookup
from bridge.pulsar.connection.pool import ConnectionPool, parse_url
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.fake_broker import FakeBroker, Handler, Peer, Type, lookup_answer

TOPIC = "persistent://public/default/t"
Find = Callable[..., Awaitable[Address]]


@pytest.fixture
async def find(broker: FakeBroker) -> AsyncIterator[Find]:
    pools: list[ConnectionPool] = []

    async def find(**settings: object) -> Address:
        values = PulsarSettings(service_url=broker.url, **settings)  # type: ignore[arg-type]
        pool = ConnectionPool(values, PulsarMetrics(), Access.by(values, PulsarMetrics()))
        pools.append(pool)
        return await Lookup(values, PulsarMetrics(), pool).find(TOPIC)

    yield find
    for pool in pools:
        await pool.close()


def answers(url: str, *, redirect: bool = False, proxy: bool = False) -> Handler:
    def answer(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        made = lookup_answer(command.lookup_topic.request_id, url, redirect=redirect, proxy=proxy)
        peer.send_raw(protocol.simple_frame(made.SerializeToString()))

    return answer


async def test_a_redirect_is_followed_and_its_authority_passed_on(broker: FakeBroker, find: Find) -> None:
    async with FakeBroker() as second:
        broker.on(Type.LOOKUP, answers(second.url, redirect=True))
        second.on(Type.LOOKUP, answers("pulsar://broker.example:7000"))
        assert await find(listener_name="outside") == Address("broker.example", 7000, tls=False)
        asked = second.all(Type.LOOKUP)[0].lookup_topic
        assert (asked.topic, asked.authoritative, asked.advertised_listener_name) == (TOPIC, True, "outside")
        assert not broker.all(Type.LOOKUP)[0].lookup_topic.authoritative


async def test_redirects_in_a_circle_end(broker: FakeBroker, find: Find) -> None:
    broker.on(Type.LOOKUP, answers(broker.url, redirect=True))
    with pytest.raises(PulsarError, match="redirects") as caught:
        await find()
    assert caught.value.retriable


async def test_behind_a_proxy_the_service_address_is_connected_to(broker: FakeBroker, find: Find) -> None:
    broker.on(Type.LOOKUP, answers("pulsar://[fd00::1]:6650", proxy=True))
    assert await find() == Address("127.0.0.1", broker.port, tls=False, proxied_broker="[fd00::1]:6650")


async def test_the_broker_wanted_is_named_to_the_proxy(broker: FakeBroker) -> None:
    values = PulsarSettings(service_url=broker.url)
    pool = ConnectionPool(values, PulsarMetrics(), Access.by(values, PulsarMetrics()))
    await pool.get(Address("127.0.0.1", broker.port, tls=False, proxied_broker="b1:6650"))
    # the proxy itself comes first: it has to be there
    assert [one.connect.proxy_to_broker_url for one in broker.all(Type.CONNECT)] == ["", "b1:6650"]
    await pool.close()


async def test_a_failed_lookup_is_the_brokers_error(broker: FakeBroker, find: Find) -> None:
    def refuse(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        failed = pb.CommandLookupTopicResponse(
            request_id=command.lookup_topic.request_id,
            response=pb.CommandLookupTopicResponse.Failed,
            error=pb.AuthorizationError,
            message="not yours",
        )
        peer.send(type=Type.LOOKUP_RESPONSE, lookup_topic_response=failed)

    broker.on(Type.LOOKUP, refuse)
    with pytest.raises(PulsarError, match="not yours") as caught:
        await find()
    assert caught.value.code == pb.AuthorizationError


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:80", "file:///etc/passwd", "", "pulsar://", "pulsar+ssl://b:6651", "pulsar://a:1,b:2",
        "pulsar://b:6650/path", "pulsar://user@b:6650", "pulsar://b:99999", "pulsar://b:x",
    ],
)  # fmt: skip
async def test_a_lookup_leads_to_no_other_kind_of_place(broker: FakeBroker, find: Find, url: str) -> None:
    broker.on(Type.LOOKUP, answers(url))
    with pytest.raises(PulsarError):
        await find()


def test_service_urls_name_one_or_more_hosts() -> None:
    assert parse_url("pulsar://a:1,[::1]:2/") == [Address("a", 1, tls=False), Address("::1", 2, tls=False)]
    assert parse_url("pulsar+ssl://a") == [Address("a", 6651, tls=True)]


async def test_a_redirect_to_a_host_that_is_not_allowed_is_not_followed(broker: FakeBroker, find: Find) -> None:
    """Nor are credentials sent there: the token would be worth more than the connection."""
    async with FakeBroker() as second:
        elsewhere = second.url.replace("127.0.0.1", "127.0.0.2")
        for where in ("pulsar://169.254.169.254:80", "pulsar://[fe80::1]:6650", "pulsar://8.8.8.8:6650", elsewhere):
            broker.on(Type.LOOKUP, answers(where, redirect=True))
            with pytest.raises(PulsarError, match="allowed_hosts") as caught:
                await find(token="secret", allowed_hosts="broker.example")  # noqa: S106
            assert caught.value.retriable
        assert not second.peers


LIES = ["169.254.169.254", "[fe80::1]", "8.8.8.8", "10.255.255.254", "[::ffff:169.254.169.254]"]


@pytest.mark.parametrize("host", LIES)
async def test_a_broker_that_lies_about_a_topics_place_makes_no_connection(broker: FakeBroker, host: str) -> None:
    broker.on(Type.LOOKUP, answers(f"pulsar://{host}:6650"))
    metrics = PulsarMetrics()
    client = PulsarClient(PulsarSettings(service_url=broker.url, token="secret"), metrics)  # noqa: S106
    producer = client.producer(TOPIC)
    await broker.until(lambda: metrics.hosts_refused.value > 1)  # it asks again: the next answer may be true
    assert isinstance(producer.last_error, HostRefused)
    broker.on(Type.LOOKUP, answers(broker.url))
    async with asyncio.timeout(10):
        await producer.opened()
    assert len(broker.peers) == 2  # for questions, and for the topic's producers
    await client.close()


Answers = Callable[[Iterable[bool]], ConnectionPool]


@pytest.fixture
async def proxy(broker: FakeBroker) -> AsyncIterator[Answers]:
    """A pool of connections to a proxy: what it answers each time, 0 partitions or that there is no such topic."""
    pools: list[ConnectionPool] = []
    kinds = pb.CommandPartitionedTopicMetadataResponse

    def start(there: Iterable[bool]) -> ConnectionPool:
        answers = iter(there)

        def connect(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
            features = pb.FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
            connected = pb.CommandConnected(server_version="proxy", protocol_version=20, feature_flags=features)
            peer.send(type=Type.CONNECTED, connected=connected)

        def answer(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
            found = kinds(request_id=command.partition_metadata.request_id, response=kinds.Success, partitions=0)
            if not next(answers):
                found.response, found.error, found.message = kinds.Failed, pb.TopicNotFound, "no such topic"
            peer.send(type=Type.PARTITIONED_METADATA_RESPONSE, partition_metadata_response=found)

        broker.on(Type.CONNECT, connect)
        broker.on(Type.PARTITIONED_METADATA, answer)
        values = PulsarSettings(service_url=broker.url)
        pools.append(ConnectionPool(values, PulsarMetrics(), Access.by(values, PulsarMetrics())))
        return pools[-1]

    yield start
    for pool in pools:
        await pool.close()


@pytest.mark.parametrize("unconnected", [0, 1, 5])
async def test_behind_a_proxy_that_knows_no_broker_yet_a_missing_topic_is_missing(
    broker: FakeBroker, proxy: Answers, unconnected: int
) -> None:
    """It asks each broker that it must first connect to for something else, of which the answer is 0 partitions."""
    lookup = Lookup(PulsarSettings(service_url=broker.url), PulsarMetrics(), proxy([True] * unconnected + [False]))
    with pytest.raises(PulsarError, match="no such topic"):
        await lookup.partitions(TOPIC)


async def test_a_proxy_that_has_gone_round_its_brokers_is_asked_twice(broker: FakeBroker, proxy: Answers) -> None:
    lookup = Lookup(PulsarSettings(service_url=broker.url), PulsarMetrics(), proxy(repeat(True)))
    assert await lookup.partitions(TOPIC) == 0
    before = len(broker.all(Type.PARTITIONED_METADATA))
    assert await lookup.partitions(TOPIC) == 0
    assert len(broker.all(Type.PARTITIONED_METADATA)) - before == 2
