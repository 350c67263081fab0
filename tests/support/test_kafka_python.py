"""The leak that `forgive_leaks` is for is kafka-python's, and only kafka-python's sockets are forgiven."""

import gc
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What finalizers complain of."""
    found: list[object] = []

    def note(unraisable: Any) -> None:
        found.append(unraisable.exc_value)

    monkeypatch.setattr("sys.unraisablehook", note)
    return found


def test_a_connection_whose_making_close_interrupts_complains_of_nothing(
    server: socket.socket, dropped: list[object]
) -> None:
    net = NetworkSelector()
    manager = KafkaConnectionManager(net, bootstrap_servers=f"127.0.0.1:{server.getsockname()[1]}")
    manager.get_connection("bootstrap-0")
    manager.close()
    net.close()
    del manager, net
    server.settimeout(10)
    accepted, _ = server.accept()
    with accepted:
        gc.collect()
        assert accepted.recv(1) == b"", "the dropped socket is still open"
    assert not dropped


def test_a_socket_of_our_own_does(server: socket.socket, dropped: list[object]) -> None:
    socket.create_connection(server.getsockname())
    gc.collect()
    assert any(isinstance(one, ResourceWarning) for one in dropped)
