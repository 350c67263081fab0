"""Choose the local ports: the one asked for, or a free one."""

import secrets
import socket
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bridge.errors import StartupError

HOST = "127.0.0.1"
_LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST, _HIGHEST = 10_000, 65_535
_TRIES = 1000
_places = count(secrets.randbelow(_HIGHEST))
"""Where this process looks next. Each begins somewhere and goes on from there: what two choose at one time, and open
only seconds later, is seldom the same, and nothing is chosen twice."""


@dataclass(frozen=True, slots=True)
class PortOption:
    """The port that was asked for: a number (0: any), or None for the default if that is free."""

    flag: str
    default: int
    asked: int | None = None


def choose(option: PortOption, taken: set[int] | None = None) -> tuple[int, str | None]:
    """The port, and what to tell the user when it is not the one expected; the choice is added to `taken`."""
    taken = set() if taken is None else taken
    note: str | None = None
    if option.asked:
        if option.asked in taken or not is_free(option.asked):
            raise StartupError(f"{option.flag} {option.asked}: the port is taken; name another, or 0 for any free one")
        port = option.asked
    elif option.asked is None and option.default not in taken and is_free(option.default):
        port = option.default
    else:
        port = any_free(taken)
        what = option.flag.removeprefix("--").replace("-", " ")
        why = "" if option.asked == 0 else f": the default {option.default} is taken"
        note = f"{what} is {port}{why}"
    taken.add(port)
    return port, note


def is_free(port: int) -> bool:
    """Whether a server could listen on it now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do, so that connections in TIME_WAIT from the last run do not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def any_free(taken: Collection[int] = ()) -> int:
    """A port that is free now, not in `taken`, and not given before; another process may still be quicker to open it.

    It is one of `ports_for_servers`: a JVM opens it seconds later, and a connection could be given another.
    """
    ports = ports_for_servers()
    for _ in range(_TRIES):
        if (port := ports[next(_places) % len(ports)]) not in taken and is_free(port):
            return port
    raise StartupError(f"none of {_TRIES} ports from {ports.start} to {ports.stop - 1} is free; name the ports")


def ports_for_servers() -> range:
    """What the kernel gives to no connection: the larger part outside of `ip_local_port_range` (Linux) or IANA's."""
    low, high = 49152, _HIGHEST
    with suppress(OSError, ValueError):
        low, high = map(int, _LOCAL_PORTS.read_text().split())
    return max(range(_LOWEST, low), range(high + 1, _HIGHEST + 1), key=len) or range(_LOWEST, _HIGHEST + 1)
