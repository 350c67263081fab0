"""A connection over TLS: all that holds without it, both halves, handshakes, and what is no TLS."""

import asyncio
import logging
import ssl
import struct

import pytest

from bridge.connection import strangers
from bridge.connection.listeners.tls import SLICE
from tests.connection import harness, test_client, test_draining, test_login, test_throttling
from tests.connection.harness import ECHO, LATER, Client, Tls, connected, request, serving
from tests.connection.logging_in import echoes, log_in, logins
from tests.connection.test_draining import timeouts  # noqa: F401 - their fixture
from tests.connection.tls_client import TlsWriter, client_context, open_tls
from tests.support.certificates import Authority
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(60)

_BARE_SOCKETS = {
    "test_strangers_who_claim_a_hundred_megabytes_cost_nearly_nothing",
    "test_half_received_giants_that_fill_the_budget_pass_one_after_another",
    "test_a_client_that_does_not_read_stops_its_own_requests_only",
    "test_strangers_take_memory_apart_from_that_of_others",
    "test_an_answer_counts_as_waiting_until_it_is_read_or_the_client_is_gone",
}
"""They do without the harness's client."""

for _module in (test_client, test_draining, test_login, test_throttling):
    for _name, _test in list(vars(_module).items()):
        if _name.startswith("test_") and _name not in _BARE_SOCKETS:
            globals()[_name] = _test


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def tls(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Tls:
    files = authority.sign("server")
    settings = {"ssl_certificate_file": files.certificate, "ssl_key_file": files.key}
    made = Tls(settings, client_context(authority.file))
    monkeypatch.setattr(harness, "TLS", made)
    return made


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_answers_of_any_size_over_both_versions(tls: Tls, version: ssl.TLSVersion) -> None:
    tls.context.minimum_version = tls.context.maximum_version = version
    async with serving() as bench, connected(bench) as client:
        for size in (0, 1, 16 * 1024, SLICE - 18, SLICE, 5 * SLICE + 1):
            client.send(request(ECHO, size, bytes(size)))
            assert (await client.receive()).data == bytes(size)
        assert client.writer.tls.version() == {771: "TLSv1.2", 772: "TLSv1.3"}[version]
        assert bench.metrics.tls.handshakes["established"].value == 1


async def test_a_client_that_ends_its_socket_without_a_word_gets_its_answers_and_the_end() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(LATER, 1))
        client.writer.end_without_a_word()
        await bench.begun(1)
        bench.answer(1)
        assert (await client.receive()).number == 1
        assert await client.closed() == b""
        assert client.writer.said_end, "nothing was cut off on the way"


async def test_a_connection_that_is_not_read_holds_what_has_come_and_goes_on(tls: Tls) -> None:
    async with serving(max_in_flight_requests=1) as bench, connected(bench) as client:
        client.send(*(request(LATER, number, bytes(3000)) for number in range(40)))
        for number in range(40):
            await bench.begun(1)
            bench.answer(number)
            assert (await client.receive()).number == number


async def test_damage_on_the_way_ends_the_connection() -> None:
    async with serving() as bench, connected(bench) as client:
        client.send(request(ECHO, 1))
        await client.receive()
        client.writer.transport.write(struct.pack(">BHH", 23, 0x0303, 40) + bytes(40))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            assert await client.reader.read() == b""
            raise ConnectionResetError
        await until(lambda: bench.metrics.connections.value == 0)


# ---- handshakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [request(ECHO, 1), b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n"],
    ids=["Kafka", "HTTP", "SSH"],
)
async def test_what_is_no_tls_is_closed_counted_and_logged(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as bench:
        client = Client(*await asyncio.open_connection("127.0.0.1", bench.port))
        client.send(sent)
        assert await client.closed() == b""
        await client.close()
        assert bench.metrics.tls.handshakes["plaintext"].value == 1
        assert bench.metrics.connections_accepted.value == 0
    (said,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert (said.message, said.__dict__["fields"]["outcome"]) == ("! no TLS handshake", "plaintext")


async def test_what_has_not_shaken_hands_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "MOST", 1)
    async with serving(logins=logins()) as bench:
        for sent in (b"GET / HTTP/1.1\r\n\r\n", b""):
            client = Client(*await asyncio.open_connection("127.0.0.1", bench.port))
            client.send(sent)
            if sent:
                assert await client.closed() == b""
            await client.close()
        async with connected(bench) as client:
            await log_in(client)
            assert await echoes(client)


async def test_a_client_that_trusts_another_authority_goes_away(tmp_path_factory: pytest.TempPathFactory) -> None:
    other = client_context(Authority(tmp_path_factory.mktemp("other")).file)
    async with serving() as bench:
        with pytest.raises(ssl.SSLCertVerificationError):
            await open_tls(bench.port, other)
        await until(lambda: sum(bench.metrics.tls.handshakes[one].value for one in ("failed", "lost")) == 1)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_old_versions_of_tls_are_refused(tls: Tls) -> None:
    tls.context.set_ciphers("DEFAULT:@SECLEVEL=0")
    tls.context.minimum_version = ssl.TLSVersion.TLSv1
    tls.context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with serving() as bench:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await open_tls(bench.port, tls.context)
        assert bench.metrics.tls.handshakes["failed"].value == 1


async def test_silence_before_the_handshake_ends_it() -> None:
    async with serving() as bench:
        bench.listener.handshakes._seconds = 0.05
        client = Client(*await asyncio.open_connection("127.0.0.1", bench.port))
        assert await client.closed() == b""
        await client.close()
        assert bench.metrics.tls.handshakes["timeout"].value == 1
        assert len(bench.listener.handshakes) == 0


async def test_one_handshake_too_many_ends_the_oldest_and_real_clients_come_in() -> None:
    async with serving() as bench:
        bench.listener.handshakes._most = 5
        strangers = [Client(*await asyncio.open_connection("127.0.0.1", bench.port)) for _ in range(5)]
        await until(lambda: len(bench.listener.handshakes) == 5)
        async with connected(bench) as client:
            client.send(request(ECHO, 1))
            assert (await client.receive()).number == 1
        assert await strangers[0].closed() == b""
        assert bench.metrics.tls.handshakes["displaced"].value == 1
        for one in strangers:
            await one.close()
        await until(lambda: len(bench.listener.handshakes) == 0)


async def test_many_at_once_all_get_their_turn() -> None:
    async with serving() as bench:
        clients = await asyncio.gather(*(_one(bench.port) for _ in range(60)))
        await until(lambda: bench.metrics.tls.handshakes["established"].value == 60)
        for one in clients:
            one.close()


async def _one(port: int) -> TlsWriter:
    assert harness.TLS is not None
    _, writer = await open_tls(port, harness.TLS.context)
    return writer


async def test_a_hello_in_single_bytes() -> None:
    async with serving() as bench:
        assert harness.TLS is not None
        received, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = harness.TLS.context.wrap_bio(received, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.port)
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        for byte in outgoing.read():
            writer.write(bytes([byte]))
            await writer.drain()
        while bench.metrics.tls.handshakes["established"].value == 0:
            received.write(await reader.read(65_536))
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                continue
            writer.write(outgoing.read())
            await until(lambda: bench.metrics.tls.handshakes["established"].value == 1)
        writer.close()
