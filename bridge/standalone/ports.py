"""Choose the local ports: the one asked for, or a free one."""

import socket
from collections.abc import Collection
from dataclasses import dataclass

from bridge.errors import StartupError

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class PortOption:
    """What was asked for: a number (0 = any), or None for the default if it is free."""

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
    """A port that is free now and not in `taken`; another process may still be quicker."""
    # All are held until the choice is made: the kernel would otherwise offer a port in `taken` again and again.
    held: list[socket.socket] = []
    try:
        while True:
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.append(probe)
            probe.bind((HOST, 0))
            port: int = probe.getsockname()[1]
            if port not in taken:
                return port
    finally:
        for probe in held:
            probe.close()
