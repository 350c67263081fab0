"""Small things a connection is made with."""

import asyncio
import socket
from typing import Any

_CORK = getattr(socket, "TCP_CORK", None)


class Refused(Exception):
    """The connection must be closed; `reason` is one of `metrics.REJECTION_REASONS`."""

    def __init__(self, reason: str, **fields: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fields = fields


def cancelled_from_outside() -> bool:
    """Whether this task is being cancelled, not just something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def address_of(name: Any) -> str:
    """A socket's peer in words."""
    if isinstance(name, tuple) and len(name) >= 2:
        return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"
    return str(name or "")


def join_with_end(transport: asyncio.Transport) -> None:
    """Send what is written from now on with the end of the connection, in one piece (tcp(7), TCP_CORK)."""
    sock = transport.get_extra_info("socket")
    if _CORK is not None and sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, _CORK, 1)
