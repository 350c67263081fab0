"""What kafka-python leaves open shall not fail whichever test runs when Python collects it.

kafka-python 3.0 drops the socket of a connection that was refused, and of one that its own `close` interrupts.
"""

import socket
from typing import Any

from kafka.net.inet import KafkaNetSocket


class _Socket(socket.socket):
    """One that is closed when nobody has it any more, without Python's warning."""

    def __del__(self) -> None:
        self.close()


def _socket(_: KafkaNetSocket, *kind: Any) -> socket.socket:
    return _Socket(*kind)


def forgive_leaks() -> None:
    """Have kafka-python's sockets, and only these, made such that dropping one is no error."""
    KafkaNetSocket.socket = _socket
