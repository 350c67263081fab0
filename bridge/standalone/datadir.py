"""The directory a standalone keeps its data in, used by one run at a time."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from bridge.errors import StartupError

_LOCK = "pulsar-kafka-bridge.lock"
# A killed run's Pulsar is stopped by the guard within ten seconds and then lets go of the lock.
_LEFTOVER_SECONDS = 20.0


def default_data_dir(kind: str = "standalone") -> Path:
    """Where this user's data of this kind lives, as the XDG base directory specification says."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base, "pulsar-kafka-bridge", kind)


class DataDir:
    """Locked while in use; an ephemeral one is removed at the end.

    Children inherit the lock's descriptor (`lock`): it is free only when the last process that writes here has ended.
    """

    def __init__(self, path: Path | None, say: Callable[[str], None]) -> None:
        self.ephemeral = path is None
        self._say = say
        try:
            if path is None:
                self.path = Path(tempfile.mkdtemp(prefix="pulsar-kafka-bridge-"))
            else:
                self.path = path.absolute()
                self.path.mkdir(parents=True, exist_ok=True)
            self.lock = self._take()
        except OSError as error:
            raise StartupError(f"cannot use the data directory {path or 'in the temporary one'}: {error}") from None

    def must_not_hold(self, name: str, what: str) -> None:
        """StartupError where this is inside: another kind of run would ignore it."""
        if (self.path / name).exists():
            raise StartupError(f"the data directory {self.path} holds {what}: name another")

    def _take(self) -> int:
        marker = self.path / _LOCK
        if not marker.exists() and any(self.path.iterdir()):
            # What we write and clear away here must not be a home directory given by mistake.
            raise StartupError(
                f"the data directory {self.path} holds files that are not ours: name an empty or a new one"
            )
        lock = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not self._locked(lock):
            holder = os.read(lock, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise StartupError(f"the data directory {self.path} is in use by process {holder}: stop it or name another")
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return lock

    def _locked(self, lock: int) -> bool:
        told = False
        end = time.monotonic() + _LEFTOVER_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if _alive(os.pread(lock, 32, 0)) or time.monotonic() > end:
                    return False
            if not told:
                told = True
                self._say("waiting for the Pulsar of an earlier, killed run to stop")
            time.sleep(0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.lock)
        if self.ephemeral:
            shutil.rmtree(self.path, ignore_errors=True)


def _alive(pid: bytes) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
