"""End the children of a parent that was killed, so that nothing is ever left running.

Why not prctl(PR_SET_PDEATHSIG): it is Linux only, follows the thread that forked rather than the process, needs code
between fork and exec, and knows only one signal. Here a tiny `sh` in a session of its own reads a pipe that only the
parent (and a child that has not yet exec'd) holds open. However the parent ends, the pipe ends, and the guard stops
what was registered: TERM, some seconds, KILL. A child registers itself before it execs, so there is no moment at which
it is unguarded.
"""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

_GUARD = """
trap '' HUP INT TERM
pids=
while read -r operation pid; do
  case $operation in
    +) pids="$pids $pid" ;;
    -) kept=; for p in $pids; do [ "$p" = "$pid" ] || kept="$kept $p"; done; pids=$kept ;;
  esac
done
for p in $pids; do kill -s TERM -- "-$p" 2>/dev/null; done
left=$1
while [ "$left" -gt 0 ]; do
  alive=
  for p in $pids; do kill -s 0 -- "-$p" 2>/dev/null && alive=1; done
  [ -n "$alive" ] || exit 0
  sleep 1
  left=$((left - 1))
done
for p in $pids; do kill -s KILL -- "-$p" 2>/dev/null; done
"""
# Standard input is the guard's pipe until the exec; one `echo` of a few bytes is written whole (POSIX, PIPE_BUF).
_REGISTER = 'echo "+ $$" >&0 && exec "$@" </dev/null'


class Guard:
    """Watches over this process for the children started through it."""

    def __init__(self, timeout: int = 10) -> None:
        """`timeout`: seconds between TERM and KILL."""
        self._timeout = timeout
        self._children: set[int] = set()
        self._process, self._write = self._start()

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        read, write = os.pipe()
        try:
            process = subprocess.Popen(  # noqa: S603 - a constant
                ["/bin/sh", "-c", _GUARD, "bridge-guard", str(self._timeout)],
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        except BaseException:
            os.close(write)
            raise
        finally:
            os.close(read)
        return process, write

    def _replace_if_killed(self) -> None:
        """Without a guard no child could register itself, and so none could be started."""
        if self._process.poll() is None:
            return
        former = self._write
        self._process, self._write = self._start()
        os.close(former)
        for pid in self._children:
            os.write(self._write, f"+ {pid}\n".encode())

    @property
    def pid(self) -> int:
        """The guard's own process id."""
        return self._process.pid

    def popen(
        self,
        command: Sequence[str],
        *,
        output: IO[bytes],
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        keep_open: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a child in a process group of its own; its pid stays the same over the exec."""
        self._replace_if_killed()
        child = subprocess.Popen(  # noqa: S603 - commands are made by this package
            ["/bin/sh", "-c", _REGISTER, "bridge-child", *command],
            stdin=self._write,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=cwd,
            env=environment,
            pass_fds=keep_open,
        )
        self._children.add(child.pid)
        return child

    def forget(self, pid: int) -> None:
        """The child has ended and its pid may be used again."""
        self._children.discard(pid)
        with contextlib.suppress(BrokenPipeError):  # the guard itself was killed: nothing to keep right
            os.write(self._write, f"- {pid}\n".encode())

    def close(self) -> None:
        """No children are left: let the guard go."""
        os.close(self._write)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
