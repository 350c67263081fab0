"""A Kafka server as clients meet it, be it a bridge or Kafka itself: started, asked, stopped, started again."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from bridge.apis import api_versions
from bridge.errors import StartupError
from bridge.standalone.child import Child

_TIMEOUT_SECONDS = 60.0
_EVERY = 0.002
_REQUEST = struct.pack(">ihhih", 10, api_versions.KEY, 0, 1, 0)


@dataclass(frozen=True, slots=True)
class KafkaServer:
    """One process that serves an address."""

    child: Child
    launch: Callable[[], None]
    """Starts it without waiting."""
    address: str

    def start(self) -> float:
        """Start it and wait for its first answer; the seconds that took."""
        begin = time.monotonic()
        self.launch()
        while not answers(self.address):
            if not self.child.running or time.monotonic() - begin > _TIMEOUT_SECONDS:
                ended = self.child.exit_description()
                raise StartupError(f"{self.child.name} does not answer: it {ended}\n{self.child.last_lines()}")
            time.sleep(_EVERY)
        return time.monotonic() - begin

    def stop(self) -> float:
        """SIGTERM, and wait for its end; the seconds that took."""
        begin = time.monotonic()
        assert self.child.stop(_TIMEOUT_SECONDS), (
            f"{self.child.name} did not stop in time:\n{self.child.last_lines(40)}"
        )
        return time.monotonic() - begin


def answers(address: str) -> bool:
    """Whether an ApiVersions request is answered; waits where the port is open already."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_TIMEOUT_SECONDS) as connection:
            connection.sendall(_REQUEST)
            return len(connection.recv(4)) == 4
    except OSError:
        return False
