"""Messages between a supervisor and its worker."""

from __future__ import annotations

import socket

import pytest

from bridge.config import Settings, load_text
from bridge.node.workers.control import Ready, WorkerOrder, decode_ready, encode, receive_order


def test_an_order_arrives_with_its_settings() -> None:
    settings = Settings().with_values(pulsar={"token": 'se"cret\\'}, cluster={"name": "ä#1"})
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(encode(WorkerOrder(1, settings.to_toml(), {"B": [7, 8], "A": [9]})))
        order = receive_order(theirs)
    assert (order.worker, order.shared, load_text(order.settings)) == (1, {"B": [7, 8], "A": [9]}, settings)


def test_a_supervisor_that_ends_is_told() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(encode(WorkerOrder(0, "", {}))[:-1])
        ours.close()
        with pytest.raises(EOFError):
            receive_order(theirs)


def test_ports_are_known_once_all_has_come() -> None:
    sent = encode(Ready({"B": 9093, "A": 9092}, 40000))
    assert [decode_ready(sent[:length]) for length in range(len(sent))] == [None] * len(sent)
    found = decode_ready(sent)
    assert found == ({"B": 9093, "A": 9092}, 40000)
    assert found.kafka == 9093  # of the first
