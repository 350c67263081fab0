"""Clients are taken in a few at a time, and again after there was no room for them."""

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest

from bridge.config import Address
from bridge.connection import acceptor
from bridge.connection.acceptor import MAX_ACCEPTS, Acceptor
from bridge.listening import listen


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
