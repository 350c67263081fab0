"""Connections whose maker is cancelled while they are made: nothing of them is left open."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import cast

import pytest

from bridge.net.connecting import connect
from tests.support.certificates import Authority

_NAME = "localhost"
_TURNS = 40
"""Of the event loop, more than a handshake takes."""


@pytest.fixture
async def port(authority: Authority) -> AsyncIterator[int]:
    """Of a server that shakes hands, and reads nothing afterwards: no farewell either."""
    own = authority.sign("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    taken: list[asyncio.Transport] = []

    class Mute(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            taken.append(cast(asyncio.Transport, transport))
            taken[-1].pause_reading()

    server = await asyncio.get_running_loop().create_server(Mute, "127.0.0.1", 0, ssl=context)
    yield int(server.sockets[0].getsockname()[1])
    server.close()
    for transport in taken:
        transport.abort()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.file)


def _reading() -> asyncio.StreamReaderProtocol:
    return asyncio.StreamReaderProtocol(asyncio.StreamReader())


@pytest.mark.parametrize("turns", range(_TURNS))
async def test_who_is_cancelled_leaves_nothing_open(port: int, trusting: ssl.SSLContext, turns: int) -> None:
    connecting = asyncio.create_task(connect(_reading, ["127.0.0.1"], port, trusting, _NAME))
    for _ in range(turns):
        await asyncio.sleep(0)
    connecting.cancel()
    (outcome,) = await asyncio.gather(connecting, return_exceptions=True)
    if not isinstance(outcome, BaseException):
        outcome[0].abort()
    await asyncio.sleep(0)
    assert not _connected_to(port)


def _connected_to(port: int) -> list[str]:
    """The transports of this loop that are connected to it."""
    there = asyncio.get_running_loop()._transports.values()  # type: ignore[attr-defined]
    return [repr(one) for one in there if one._sock is not None and one.get_extra_info("peername")[1] == port]


async def test_a_connection_with_tls_is_as_any(port: int, trusting: ssl.SSLContext) -> None:
    transport, protocol = await connect(_reading, ["127.0.0.2", "127.0.0.1"], port, trusting, _NAME)
    assert transport.get_extra_info("peername") == ("127.0.0.1", port)
    assert transport.get_extra_info("ssl_object").version() == "TLSv1.3"
    assert transport.get_protocol() is protocol
    transport.abort()


async def test_a_certificate_for_another_name_is_refused(port: int, trusting: ssl.SSLContext) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(_reading, ["127.0.0.1"], port, trusting, "another.example")
    await asyncio.sleep(0)
    assert not _connected_to(port)


async def test_who_speaks_first_and_plainly_is_noticed(trusting: ssl.SSLContext) -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    try:
        with pytest.raises(ssl.SSLError, match="WRONG_VERSION_NUMBER"):
            await connect(_reading, ["127.0.0.1"], server.sockets[0].getsockname()[1], trusting, _NAME)
    finally:
        server.close()


async def test_who_hangs_up_at_once_is_noticed(trusting: ssl.SSLContext) -> None:
    async def rude(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(rude, "127.0.0.1", 0)
    try:
        with pytest.raises(OSError):
            await connect(_reading, ["127.0.0.1"], server.sockets[0].getsockname()[1], trusting, _NAME)
    finally:
        server.close()
