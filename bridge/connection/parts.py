"""Small things a connection is made with."""

import asyncio
import os
import socket
from typing import Any, Final

_TLS_HANDSHAKE = 0x1603
_HTTP = frozenset(int.from_bytes(method) for method in (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"PRI "))
_CORK = getattr(socket, "TCP_CORK", None)


_ADVICE: Final = {
    "http": "this port speaks Kafka's protocol: the status page and the metrics are at http.listen",
    "not_logged_in": "set security.protocol and sasl.mechanism of the client to the listener's",
    "tls_on_plaintext": "the listener has no TLS: set security.protocol of the client to the listener's",
}
"""What to do, by reasons that a mistake of a client's settings has."""


class Refused(Exception):
    """The connection must be closed; `reason` is one of `metrics.REJECTION_REASONS`."""

    def __init__(self, reason: str, **fields: object) -> None:
        super().__init__(reason)
        self.reason = reason
        # An exception among them would keep its frames for as long as a line of the log, and with them the connection.
        self.fields = {name: str(one) if isinstance(one, BaseException) else one for name, one in fields.items()}
        if reason in _ADVICE:
            self.fields["advice"] = _ADVICE[reason]


def cancelled_from_outside() -> bool:
    """Whether this task is being cancelled, not just something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def address_of(name: Any) -> str:
    """A socket's peer in words."""
    if isinstance(name, tuple) and len(name) >= 2:
        return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"
    return str(name or "")


def stranger(size: int) -> str | None:
    """Of which protocol the bytes are that were taken for the length of a frame, where that is known; as a reason.

    A TLS handshake (RFC 8446, 5.1) or a request of HTTP (RFC 9112, 3; RFC 9113, 3.4).
    """
    if size >> 16 == _TLS_HANDSHAKE:
        return "tls_on_plaintext"
    return "http" if size in _HTTP else None


def is_gone(transport: asyncio.Transport) -> bool:
    """Whether the client has hung up, with nothing left to read. Its socket is asked: no loop looks at it while it is
    not read."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return False
    try:
        with socket.socket(fileno=os.dup(sock.fileno())) as same:
            return not same.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def join_with_end(transport: asyncio.Transport) -> None:
    """Send what is written from now on with the end of the connection, in one piece (tcp(7), TCP_CORK)."""
    sock = transport.get_extra_info("socket")
    if _CORK is not None and sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, _CORK, 1)
