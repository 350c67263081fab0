"""The relay of the fault tests: bytes pass, are held, delayed and arrive late, or every connection is reset."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from bridge.standalone.ports import HOST
from tests.support.relay import Relay


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets."""
    listener = socket.create_server((HOST, 0))

    def one(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                pass

    def run() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


@pytest.fixture
def relay(echo: int) -> Iterator[Relay]:
    made = Relay(echo)
    yield made
    made.close()


def connect(relay: Relay) -> socket.socket:
    return socket.create_connection((HOST, relay.port), timeout=10)


def exchange(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return receive(connection, len(data))


def receive(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += connection.recv(size - len(found)) or pytest.fail("the connection ended")
    return found


def test_bytes_pass_in_both_directions(relay: Relay) -> None:
    with connect(relay) as connection:
        assert exchange(connection, b"there and back") == b"there and back"


def test_more_than_all_buffers_hold_passes(relay: Relay) -> None:
    data = bytes(range(256)) * 32_768
    with connect(relay) as connection:
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        assert receive(connection, len(data)) == data
        sender.join()


def test_held_bytes_arrive_late(relay: Relay) -> None:
    with connect(relay) as connection:
        exchange(connection, b"open")
        relay.hold()
        connection.sendall(b"held")
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        with connect(relay) as later:  # accepted, and met with silence
            later.sendall(b"later")
            relay.heal()
            connection.settimeout(10)
            assert receive(connection, 4) == b"held"
            assert receive(later, 5) == b"later"


def test_what_comes_after_so_many_bytes_is_held(relay: Relay) -> None:
    with connect(relay) as connection:
        relay.hold_after(4)
        connection.sendall(b"four")
        while not relay.is_held:
            time.sleep(0.01)  # the relay's thread does it
        connection.sendall(b"held")
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        relay.heal()
        connection.settimeout(10)
        assert receive(connection, 8) == b"fourheld"


def test_a_cut_resets_what_is_open_and_what_comes(relay: Relay) -> None:
    with connect(relay) as connection:
        exchange(connection, b"open")
        relay.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionResetError), connect(relay) as connection:
        connection.sendall(b"x")
        connection.recv(1)
    relay.heal()
    with connect(relay) as connection:
        assert exchange(connection, b"again") == b"again"


def test_a_reset_ends_what_is_open_and_not_what_comes(relay: Relay) -> None:
    with connect(relay) as connection:
        exchange(connection, b"open")
        assert relay.reset() == 1
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with connect(relay) as connection:
        assert exchange(connection, b"again") == b"again"


def test_delayed_bytes_arrive_late_and_in_order(relay: Relay) -> None:
    relay.delay_seconds = 0.1
    with connect(relay) as connection:
        began = time.monotonic()
        for number in range(100):
            connection.sendall(b"%02d" % number)
        assert receive(connection, 200) == b"".join(b"%02d" % number for number in range(100))
        assert time.monotonic() - began >= 0.2


def test_an_end_on_one_side_ends_the_other(relay: Relay) -> None:
    with connect(relay) as connection:
        exchange(connection, b"open")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def test_one_connection_is_held_in_one_direction(relay: Relay) -> None:
    with connect(relay) as other, connect(relay) as held:
        assert exchange(other, b"other") == b"other"
        assert exchange(held, b"before") == b"before"
        client, server = relay.newest()
        for end in client, server:
            relay.hold_from(end)
            held.sendall(b"held")
            assert exchange(other, b"passes") == b"passes"
            held.settimeout(0.05)
            with pytest.raises(TimeoutError):
                held.recv(1)
            held.settimeout(10)
            relay.heal()
            assert receive(held, 4) == b"held"


def test_one_connection_is_delayed_in_one_direction(relay: Relay) -> None:
    with connect(relay) as connection:
        assert exchange(connection, b"before") == b"before"
        _, server = relay.newest()
        server.delay_seconds = 0.2
        began = time.monotonic()
        assert exchange(connection, b"late") == b"late"
        assert time.monotonic() - began >= 0.2
