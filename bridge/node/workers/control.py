"""What a supervisor and its worker tell each other over the socket that both hold: settings down, ports up.

The socket ends when the process at the other end does, however it ends: a worker whose supervisor was killed stops, and
a supervisor whose worker was killed starts another. Settings hold the login, so they are never in a file or argument.
"""

import json
import socket
from typing import NamedTuple

_LENGTH_BYTES = 4


class WorkerOrder(NamedTuple):
    """What a worker is started with: its number, settings as TOML, and the shared descriptors by listener."""

    worker: int
    settings: str
    shared: dict[str, list[int]]


class Ready(NamedTuple):
    """A worker's word that it serves, with its ports."""

    ports: dict[str, int]
    """By listener, in the order of the settings."""
    http: int

    @property
    def kafka(self) -> int:
        """That of the first listener."""
        return next(iter(self.ports.values()))


def encode(message: WorkerOrder | Ready) -> bytes:
    """With its length before it."""
    text = json.dumps(message._asdict()).encode()
    return len(text).to_bytes(_LENGTH_BYTES, "big") + text


def receive_order(control: socket.socket) -> WorkerOrder:
    """Wait for it; EOFError when the supervisor is gone."""
    size = int.from_bytes(_exactly(control, _LENGTH_BYTES), "big")
    return WorkerOrder(**json.loads(_exactly(control, size)))


def decode_ready(received: bytes) -> Ready | None:
    """The message, once all of it has come."""
    size = int.from_bytes(received[:_LENGTH_BYTES], "big")
    if len(received) < _LENGTH_BYTES or len(received) < _LENGTH_BYTES + size:
        return None
    return Ready(**json.loads(received[_LENGTH_BYTES : _LENGTH_BYTES + size]))


def _exactly(control: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = control.recv(size - len(received))
        if not part:
            raise EOFError("the supervisor is gone")
        received += part
    return received
