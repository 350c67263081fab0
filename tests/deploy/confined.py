"""Runs a command under the unit's filters, as systemd would, but that a refused call kills: nothing may depend on one.

`python -m tests.deploy.confined COMMAND …`. It is libseccomp, which systemd itself filters with.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys

from tests.deploy.unit import allowed_calls, settings

ALLOW, KILL_PROCESS = 0x7FFF0000, 0x80000000
MASKED_EQUAL = 7
WRITE, EXECUTE, SHARED_EXECUTE = 0x2, 0x4, 0o100000


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp`: one argument of a call, compared."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


class Filter:
    """A filter of this process and of all that it becomes."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libseccomp.so.2")
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(KILL_PROCESS)))

    def allow(self, name: str, *comparisons: Comparison) -> None:
        """Let a call pass, if these hold. A name that this machine does not have is nothing."""
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return
        array = (Comparison * len(comparisons))(*comparisons)
        add = self._library.seccomp_rule_add_array
        assert add(self._context, ctypes.c_uint32(ALLOW), number, len(comparisons), array) == 0, name

    def load(self) -> None:
        """Have the kernel obey it; it also takes away the right to gain any."""
        assert self._library.seccomp_load(self._context) == 0


def unset(argument: int, bits: int) -> Comparison:
    """Whether none of these bits is set."""
    return Comparison(argument, MASKED_EQUAL, bits, 0)


def confine() -> None:
    """Allow the calls of the unit, memory that is writable or executable, and its families of sockets."""
    assert settings()["MemoryDenyWriteExecute"] == ["true"]
    one = Filter()
    conditional = {"mmap", "mprotect", "pkey_mprotect", "shmat", "socket"}
    for name in allowed_calls() - conditional:
        one.allow(name)
    one.allow("mmap", unset(2, WRITE))
    one.allow("mmap", unset(2, EXECUTE))
    one.allow("mprotect", unset(2, EXECUTE))
    one.allow("pkey_mprotect", unset(2, EXECUTE))
    one.allow("shmat", unset(2, SHARED_EXECUTE))
    for family in settings()["RestrictAddressFamilies"][0].split():
        one.allow("socket", Comparison(0, MASKED_EQUAL, 0xFFFFFFFF, getattr(socket, family)))
    one.load()


if __name__ == "__main__":
    confine()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - it takes this place
