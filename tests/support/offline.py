"""`--offline` keeps the promise of `make unit`: no network but loopback, and no program that only `make test` needs.

It holds in this process and its children. A refused attempt fails the test that made it, even where the code under test
goes on without.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PROGRAMS = Path(__file__).with_name("programs.txt").read_text(encoding="utf-8")
_REFUSED_PROGRAMS = frozenset(line.split()[0] for line in _PROGRAMS.splitlines())
_IN_CHILDREN = Path(__file__).parent / "in_children"

refused: list[str] = []
"""What was refused in this process since it was last cleared."""


class OfflineError(OSError):
    """A test that should run anywhere wants the network, Java or the like."""


def enforce() -> None:
    """Refuse from now on; an audit hook cannot be taken out again."""
    sys.addaudithook(_hook)
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{_IN_CHILDREN}{os.pathsep}{path}" if path else str(_IN_CHILDREN)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    check = _CHECKS.get(event)
    what = check(arguments) if check is not None else None
    if what is not None:
        refused.append(what)
        raise OfflineError(f"{what}: refused by --offline")


def _connection(arguments: tuple[Any, ...]) -> str | None:
    address = arguments[1]
    # a path is a Unix socket's; None is that of a socket that is connected already
    host = address[0] if isinstance(address, tuple) else None
    return None if host is None or _is_loopback(host) else f"a connection to {host}"


def _lookup(arguments: tuple[Any, ...]) -> str | None:
    host = arguments[0]
    if isinstance(host, bytes):
        host = host.decode()
    nowhere = not host or host.endswith(".invalid")  # RFC 6761: such names never exist
    return None if nowhere or _is_number(host) or _is_loopback(host) else f"a look-up of {host}"


def _program(arguments: tuple[Any, ...]) -> str | None:
    _, command, _, environment = arguments
    program = os.fsdecode(command if isinstance(command, str | bytes) else command[0])
    return (
        f"a start of {program}" if Path(program).name in _REFUSED_PROGRAMS and _is_real(program, environment) else None
    )


def _is_real(program: str, environment: Mapping[str, str] | None) -> bool:
    """Whether it is installed; scripts that a test has written in its place may run."""
    found = shutil.which(program, path=(environment or os.environ).get("PATH"))
    return found is not None and not Path(found).is_relative_to(tempfile.gettempdir())


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_number(host: str) -> bool:
    """An address in any form that resolvers take: `127.1` is one."""
    try:
        socket.inet_aton(host)
    except OSError:
        return _is_address(host)
    return True


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


_CHECKS: Mapping[str, Callable[[tuple[Any, ...]], str | None]] = {
    "socket.connect": _connection,
    "socket.sendto": _connection,
    "socket.getaddrinfo": _lookup,
    "socket.gethostbyname": _lookup,
    "subprocess.Popen": _program,
}
