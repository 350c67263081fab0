import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import ClassVar

import pytest

from bridge.config import PulsarSettings
from bridge.pulsar import Access, ConnectionLost, OperationTimeout, PulsarClient, PulsarError, commands, protocol
from bridge.pulsar.auth.credentials import NoCredentials, NoToken
from bridge.pulsar.connection.broker_connection import Address, BrokerConnection
from bridge.pulsar.pb import PulsarApi_pb2 as pb
from bridge.telemetry.metrics import PulsarMetrics
from tests.pulsar.fake_broker import FakeBroker, Peer, Type

TOPIC = "persistent://public/default/t"
Connect = Callable[..., Awaitable[BrokerConnection]]


async def open_connection(address: Address, settings: PulsarSettings) -> BrokerConnection:
    metrics = PulsarMetrics()
    return await BrokerConnection.open(address, settings, metrics, Access.by(settings, metrics))


@pytest.fixture
async def connect(broker: FakeBroker) -> AsyncIterator[Connect]:
    opened: list[BrokerConnection] = []

    async def connect(**settings: object) -> BrokerConnection:
        values = PulsarSettings(service_url=broker.url, **settings)  # type: ignore[arg-type]
        address = Address("127.0.0.1", broker.port, tls=False)
        connection = await open_connection(address, values)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def lookup(request_id: int) -> bytes:
    return commands.lookup(request_id, TOPIC)


async def test_the_handshake_tells_what_this_client_can_do(broker: FakeBroker, connect: Connect) -> None:
    connection = await connect()
    (command,) = broker.all(Type.CONNECT)
    assert command.connect.feature_flags.supports_broker_entry_metadata
    assert command.connect.feature_flags.supports_topic_watchers
    assert command.connect.protocol_version == 20
    assert (command.connect.auth_method_name, command.connect.auth_data) == ("none", b"")
    assert connection.max_message_size == 1 << 20


async def test_a_refused_login_is_the_brokers_own_error(broker: FakeBroker, connect: Connect) -> None:
    def refuse(peer: Peer, command: pb.BaseCommand, _: memoryview) -> None:
        peer.error(2**64 - 1, pb.AuthenticationError, "bad token")
        peer.close()

    broker.on(Type.CONNECT, refuse)
    with pytest.raises(PulsarError, match="bad token") as caught:
        await connect(token="wrong")  # noqa: S106
    assert caught.value.code == pb.AuthenticationError
    assert not caught.value.retriable
    assert (broker.all(Type.CONNECT)[0].connect.auth_data) == b"wrong"


async def test_a_broker_that_never_answers_the_handshake_is_given_up(broker: FakeBroker, connect: Connect) -> None:
    broker.on(Type.CONNECT, lambda *_: None)
    with pytest.raises(OperationTimeout):
        await connect(connect_timeout_seconds=0.1)


async def test_a_refused_connection_is_a_lost_connection(connect: Connect, broker: FakeBroker) -> None:
    address = Address("127.0.0.1", 1, tls=False)
    with pytest.raises(ConnectionLost, match=r"pulsar://127\.0\.0\.1:1"):
        await open_connection(address, PulsarSettings())


async def test_an_auth_challenge_is_answered_with_the_token_the_file_holds_then(
    broker: FakeBroker, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    await connect(token_file=str(file))
    file.write_text("second\n")
    broker.peers[0].send(type=Type.AUTH_CHALLENGE, auth_challenge=pb.CommandAuthChallenge())
    await broker.until(lambda: bool(broker.all(Type.AUTH_RESPONSE)))
    assert broker.all(Type.CONNECT)[0].connect.auth_data == b"first"
    response = broker.all(Type.AUTH_RESPONSE)[0].auth_response.response
    assert (response.auth_method_name, response.auth_data) == ("token", b"second")


async def test_a_challenge_is_answered_when_there_is_a_token_again(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pulsar.auth.session_login._AGAIN_SECONDS", 0.01)
    answers: list[bytes | PulsarError] = [b"first", NoToken("away"), NoToken("still away"), b"second"]

    class Issued(NoCredentials):
        method = "token"
        refusals: ClassVar[list[bytes]] = []

        async def data(self) -> bytes:
            answer = answers.pop(0)
            if isinstance(answer, PulsarError):
                raise answer
            return answer

        def refused(self, data: bytes) -> None:
            self.refusals.append(data)

    metrics, settings = PulsarMetrics(), PulsarSettings(service_url=broker.url)
    address = Address("127.0.0.1", broker.port, tls=False)
    access = Access.by(settings, metrics)
    access.credentials = Issued()
    connection = await BrokerConnection.open(address, settings, metrics, access)
    for _ in range(2):  # the second is for the same
        broker.peers[0].send(type=Type.AUTH_CHALLENGE, auth_challenge=pb.CommandAuthChallenge())
    await broker.until(lambda: bool(broker.all(Type.AUTH_RESPONSE)))
    (response,) = broker.all(Type.AUTH_RESPONSE)
    assert (response.auth_response.response.auth_data, Issued.refusals) == (b"second", [b"first"])
    assert metrics.auth_challenges.value == 2
    connection.close()


async def test_a_ping_is_answered(broker: FakeBroker, connect: Connect) -> None:
    await connect()
    broker.peers[0].send(type=Type.PING, ping=pb.CommandPing())
    await broker.until(lambda: bool(broker.all(Type.PONG)))


async def test_an_idle_connection_is_probed_and_stays(broker: FakeBroker, connect: Connect) -> None:
    connection = await connect(keepalive_seconds=0.05)
    await broker.until(lambda: len(broker.all(Type.PING)) >= 2)
    assert not connection.closed


async def test_a_silent_broker_is_given_up(broker: FakeBroker, connect: Connect) -> None:
    broker.on(Type.PING, lambda *_: None)
    broker.on(Type.LOOKUP, lambda *_: None)
    connection = await connect(keepalive_seconds=0.05)
    with pytest.raises(ConnectionLost, match="silent"):
        await connection.request(lookup)
    assert connection.closed


async def test_unknown_commands_are_survived(broker: FakeBroker, connect: Connect) -> None:
    connection = await connect()
    for kind in (200, 200, 201):
        broker.peers[0].send_raw(protocol.simple_frame(pb.BaseCommand(type=kind).SerializeToString()))
    broker.peers[0].send(
        type=Type.TOPIC_MIGRATED,
        topic_migrated=pb.CommandTopicMigrated(resource_id=1, resource_type=pb.CommandTopicMigrated.Consumer),
    )
    assert (await connection.request(lookup)).lookup_topic_response.broker_service_url == broker.url


@pytest.mark.parametrize("garbage", [b"\xff" * 8, b"HTTP/1.1 400 Bad Request\r\n", b"\0\0\0\x05\0\0\0\x09x"])
async def test_garbage_ends_the_connection(broker: FakeBroker, connect: Connect, garbage: bytes) -> None:
    broker.on(Type.LOOKUP, lambda peer, *_: peer.send_raw(garbage))
    connection = await connect()
    with pytest.raises(ConnectionLost):
        await connection.request(lookup)
    assert connection.closed


async def test_a_lost_connection_fails_what_was_asked_on_it(broker: FakeBroker, connect: Connect) -> None:
    broker.on(Type.LOOKUP, lambda peer, *_: peer.close())
    connection = await connect()
    answers = [connection.request(lookup) for _ in range(3)]
    for answer in answers:
        with pytest.raises(ConnectionLost):
            await answer
    with pytest.raises(ConnectionLost):
        await connection.request(lookup)


async def test_an_answer_that_comes_too_late_is_ignored(broker: FakeBroker, connect: Connect) -> None:
    late: list[int] = []
    broker.once(Type.LOOKUP, lambda peer, command, _: late.append(command.lookup_topic.request_id))
    connection = await connect()
    with pytest.raises(OperationTimeout):
        await connection.request(lookup, timeout=0.05)
    broker.peers[0].error(late[0], pb.ServiceNotReady)
    assert (await connection.request(lookup)).type == Type.LOOKUP_RESPONSE


async def test_what_is_withdrawn_before_it_is_written_never_arrives(broker: FakeBroker, connect: Connect) -> None:
    connection = await connect()
    owner = object()
    connection.write([commands.flow(1, 1)], owner)
    connection.write([commands.flow(2, 2)])
    connection.withdraw(owner)
    await broker.until(lambda: bool(broker.all(Type.FLOW)))
    assert [command.flow.consumer_id for command in broker.all(Type.FLOW)] == [2]


async def test_large_and_small_parts_arrive_in_order(broker: FakeBroker, connect: Connect) -> None:
    bodies: list[bytes] = []
    broker.on(Type.SEND, lambda peer, command, body: bodies.append(bytes(body)))
    connection = await connect()
    expected = [bytes([number]) * size for number, size in enumerate([10, 500_000, 3, 70_000, 900_000, 1] * 5)]
    for body in expected:
        head = protocol.entry_frame_head(commands.send(1, 0, None, 1), b"", len(body))
        connection.write([head, body[:5], memoryview(body)[5:]])
    await broker.until(lambda: len(bodies) == len(expected))
    assert bodies == expected


async def test_two_clients_of_a_connection_share_it_and_its_failure(broker: FakeBroker) -> None:
    client = PulsarClient(PulsarSettings(service_url=broker.url), PulsarMetrics())
    await asyncio.gather(client.start(), client.start())
    assert len(broker.peers) == 1
    await client.close()
    with pytest.raises(PulsarError, match="closed"):
        await client.start()


async def test_of_several_service_hosts_a_reachable_one_is_used(broker: FakeBroker) -> None:
    settings = PulsarSettings(service_url=f"pulsar://127.0.0.1:1,127.0.0.1:{broker.port}")
    client = PulsarClient(settings, PulsarMetrics())
    await client.start()
    await client.close()


async def test_of_several_service_hosts_the_one_that_does_not_answer_is_left_by_all_who_wait(
    broker: FakeBroker,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        url = f"pulsar://127.0.0.1:{frozen.getsockname()[1]},127.0.0.1:{broker.port}"
        client = PulsarClient(PulsarSettings(service_url=url, connect_timeout_seconds=1.0), PulsarMetrics())
        await asyncio.gather(client.start(), client.start())  # two that each went on a host would be back at the first
        await client.close()


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def tls_broker(certificates: Path) -> AsyncIterator[FakeBroker]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "broker.cert.pem", certificates / "broker.key.pem")
    async with FakeBroker(tls=context) as broker:
        yield broker


@pytest.mark.parametrize(
    ("host", "settings", "accepted"),
    [
        ("localhost", {"tls_ca_file": "ca.pem"}, True),
        ("127.0.0.1", {"tls_ca_file": "ca.pem"}, False),
        ("127.0.0.1", {"tls_ca_file": "ca.pem", "tls_verify_hostname": False}, True),
        ("localhost", {}, False),
        ("localhost", {"tls_allow_insecure": True}, True),
    ],
)
async def test_a_broker_is_believed_by_certificate_and_name(
    tls_broker: FakeBroker, certificates: Path, host: str, settings: dict[str, object], accepted: bool
) -> None:
    if "tls_ca_file" in settings:
        settings = {**settings, "tls_ca_file": str(certificates / "ca.pem")}
    url = f"pulsar+ssl://{host}:{tls_broker.port}"
    client = PulsarClient(PulsarSettings(service_url=url, **settings), PulsarMetrics())  # type: ignore[arg-type]
    try:
        if accepted:
            await client.start()
        else:
            with pytest.raises(ConnectionLost):
                await client.start()
    finally:
        await client.close()
