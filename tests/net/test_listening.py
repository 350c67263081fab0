"""The Kafka port is taken and clients wait in it."""

import socket

import pytest

from bridge.config import Address
from bridge.errors import StartupError
from bridge.net.listening import listen


def test_clients_wait_before_the_bridge_serves() -> None:
    (listening,) = listen(Address("127.0.0.1", 0))
    with listening, socket.create_connection(listening.getsockname(), timeout=10) as client:
        client.sendall(b"a request")
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.recv(100) == b"a request"


def test_a_taken_port_is_named() -> None:
    (listening,) = listen(Address("127.0.0.1", 0))
    with listening:
        port = listening.getsockname()[1]
        with pytest.raises(StartupError, match=f"kafka.listen = 127.0.0.1:{port}: cannot listen there: Address"):
            listen(Address("127.0.0.1", port))


def test_a_host_that_is_not_there_is_named() -> None:
    with pytest.raises(StartupError, match=r"kafka.listen = nowhere.invalid:9092: cannot listen there"):
        listen(Address("nowhere.invalid", 9092))


def test_every_address_of_a_host_is_listened_on() -> None:
    expected = {where[0] for *_, where in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}
    sockets = listen(Address("localhost", 0))
    assert {one.getsockname()[0] for one in sockets} == expected
    for one in sockets:
        one.close()
