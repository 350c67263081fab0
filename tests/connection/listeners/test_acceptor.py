"""Clients are taken in a few at a time, and again after there was no room for them."""

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest

from bridge.config import Address
from bridge.connection.listeners import acceptor
from bridge.connection.listeners.acceptor import MAX_ACCEPTS, Acceptor
from bridge.net.listening import listen
from bridge.security.quotas.entities import IP, QuotaKey, checked_entity
from bridge.security.quotas.usage import ClientQuotas
from bridge.telemetry.metrics import QuotaMetrics


class Taken(asyncio.Protocol):
    """A client that was taken in."""

    def __init__(self, made: list["Taken"]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._made.append(self)


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    (opened,) = listen(Address("127.0.0.1", 0))
    yield opened
    opened.close()


async def test_of_many_who_come_at_once_a_few_are_taken_at_each_turn(sock: socket.socket) -> None:
    made: list[Taken] = []
    with ExitStack() as clients:
        for _ in range(5 * MAX_ACCEPTS):
            clients.enter_context(socket.create_connection(sock.getsockname()))
        accepting = Acceptor(sock, lambda: Taken(made))
        counts = [0]
        while len(made) < 5 * MAX_ACCEPTS:
            await asyncio.sleep(0)
            counts.append(len(made))
        assert max(after - before for before, after in pairwise(counts)) <= MAX_ACCEPTS
        accepting.close()
        for one in made:
            one.transport.close()


async def test_without_descriptors_the_others_go_on_and_it_tries_again(
    sock: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "_PAUSE_SECONDS", 0.01)
    made: list[Taken] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_connection(sock.getsockname()), socket.socket() as highest:
        accepting = Acceptor(sock, lambda: Taken(made))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest.fileno() + 1, hard))
        try:
            with ExitStack() as full:  # whatever is free below
                while True:
                    try:
                        full.enter_context(socket.socket())
                    except OSError:
                        break
                await asyncio.wait_for(_until(lambda: bool(caplog.records)), 10)
                assert not made
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await asyncio.wait_for(_until(lambda: bool(made)), 10)
        assert caplog.records[0].message == "! accept failed"
        accepting.close()
        made[0].transport.close()


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - turns of the loop are what is waited for
        await asyncio.sleep(0)


async def test_after_close_no_client_is_accepted(sock: socket.socket) -> None:
    where = sock.getsockname()
    Acceptor(sock, asyncio.Protocol).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(where)


async def test_an_address_that_connects_too_often_is_turned_away_and_closed_a_moment_later(
    sock: socket.socket,
) -> None:
    made: list[Taken] = []
    quotas = ClientQuotas(QuotaMetrics())
    quotas.set_values({(checked_entity([(IP, "127.0.0.1")]), QuotaKey.CONNECTION): 1.0})
    accepting = Acceptor(sock, lambda: Taken(made), quotas=quotas)
    with ExitStack() as clients:
        others = [clients.enter_context(socket.create_connection(sock.getsockname())) for _ in range(11)]
        reader, writer = await asyncio.open_connection(sock=others.pop().dup())
        assert await reader.read() == b""
        writer.close()
        assert len(made) == 10 and quotas.metrics.throttled["connection"].value == 1
        quotas.set_values({})
        clients.enter_context(socket.create_connection(sock.getsockname()))
        async with asyncio.timeout(10):
            while len(made) < 11:  # noqa: ASYNC110 - turns of the loop are what is waited for
                await asyncio.sleep(0)
        accepting.close()
        for one in made:
            one.transport.close()


async def test_those_turned_away_are_closed_with_the_socket(sock: socket.socket) -> None:
    quotas = ClientQuotas(QuotaMetrics())
    quotas.set_values({(checked_entity([(IP, None)]), QuotaKey.CONNECTION): 1.0})
    quotas.connect("127.0.0.1", asyncio.get_running_loop().time() + 1000)
    accepting = Acceptor(sock, lambda: Taken([]), quotas=quotas)
    for _ in range(10):
        quotas.connect("127.0.0.1", asyncio.get_running_loop().time() + 1000)
    reader, writer = await asyncio.open_connection(*sock.getsockname())
    async with asyncio.timeout(10):
        while not quotas.metrics.throttled["connection"].value:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
    accepting.close()
    assert await reader.read() == b""
    writer.close()
