"""Takes the Kafka ports, before the rest of the bridge is even imported.

Clients that come back while the bridge starts wait for its first answer, where a refusal would send them away for up to
a second or ten (`reconnect.backoff.max.ms` of the Java client and of librdkafka).
"""

import errno
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TypeAlias

from bridge.config import Address, Settings
from bridge.errors import StartupError

_BACKLOG = 1024  # as many clients as a restart brings back at once
_REMEDIES = {
    errno.EADDRINUSE: "stop what has the port (`ss -ltnp` shows it), or choose another one",
    errno.EACCES: "choose a port from 1024 on, or give the process the capability CAP_NET_BIND_SERVICE",
    errno.EADDRNOTAVAIL: "choose an address of this machine (`ip address` shows them), or 0.0.0.0 for all of them",
}
_UNKNOWN_NAME = "choose an address of this machine, or 0.0.0.0 for all of them"


Sockets: TypeAlias = Mapping[str, Sequence[socket.socket]]
"""Listening sockets by the names of the listeners."""


def open_listeners(settings: Settings) -> dict[str, list[socket.socket]]:
    """The sockets of all listeners; StartupError where one is not to be had."""
    setting = "kafka.listeners: {}" if settings.kafka.listeners else "kafka.listen"
    opened: dict[str, list[socket.socket]] = {}
    try:
        for one in settings.listeners:
            opened[one.name] = listen(one.listen, setting.format(one.name))
    except BaseException:
        for sock in chain(*opened.values()):
            sock.close()
        raise
    return opened


def listen(address: Address, setting: str = "kafka.listen") -> list[socket.socket]:
    """A listening socket for each address of the host; StartupError where one is not to be had."""
    with ExitStack() as opened:
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            sockets = [opened.enter_context(_listen(family, where)) for family, _, _, _, where in dict.fromkeys(found)]
        except OSError as error:
            raise cannot_listen(setting, address, error) from None
        opened.pop_all()
    return sockets


def cannot_listen(setting: str, address: Address | str, error: OSError) -> StartupError:
    """Why a server cannot listen there, and what to do."""
    number = error.errno or 0
    reason = os.strerror(number) if number > 0 else error.strerror or str(error)  # asyncio's text repeats the address
    remedy = _UNKNOWN_NAME if isinstance(error, socket.gaierror) else _REMEDIES.get(number, "")
    return StartupError(f"{setting} = {address}: cannot listen there: {reason}{remedy and f'; {remedy}'}")


def _listen(family: int, where: object) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # an IPv4 address is a socket of its own
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(where)  # type: ignore[arg-type]
        made.listen(_BACKLOG)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
