"""Sockets that notice when the other side is gone without a word (tcp(7)); accepted ones inherit it."""

import socket
from contextlib import suppress
from typing import Final

_KEEPALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
_UNACKNOWLEDGED_MS: Final = 30_000


def notice_silence(sock: socket.socket, *, unacknowledged: bool = False) -> None:
    """Have the kernel end a connection to what does not answer: after 11 seconds without data.

    `unacknowledged`: also where sent bytes find no taker, after 30. Not for clients: they may leave answers unread.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = dict(_KEEPALIVE)
    if unacknowledged:
        options["TCP_USER_TIMEOUT"] = _UNACKNOWLEDGED_MS
    for name, value in options.items():
        option = getattr(socket, name, None)  # Linux has them all
        if option is not None:
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
