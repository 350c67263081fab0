"""A file of the operator's that is read again when it changes; while its new content is wrong, the old one stays."""

from collections.abc import Callable
from os import stat_result
from pathlib import Path
from time import time
from typing import Final, Generic, TypeVar

from bridge.errors import StartupError
from bridge.telemetry import log

_T = TypeVar("_T")
_LOG = log.get(__name__)
MAX_BYTES: Final = 64 * 1024 * 1024
_SURE_SECONDS: Final = 2.0
"""A file changed twice within a tick of its file system's clock looks as if it had changed once."""


class ReloadedFile(Generic[_T]):
    """A file's content, read again when the file changes. `refresh` runs every second or so in a thread: a disk may be
    slow.

    A file is best replaced by a rename. One that is rewritten in place may be read half written; `parse` should refuse
    what is cut.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], _T], what: str) -> None:
        """`parse` raises ValueError with a reason that shows no secret. StartupError if the file is wrong now."""
        self._path = path
        self._parse = parse
        self._what = what
        self._identity: tuple[object, ...] | None = None
        self._settled = False
        self._logged: tuple[object, ...] | None = None
        try:
            self.value = self._read()
        except (OSError, ValueError) as error:
            raise StartupError(f"{what} {path}: {_reason(error)}") from None

    def refresh(self) -> bool:
        """Read the file if it has changed; whether its value is a new one."""
        try:
            if self._settled and _identity(self._path.stat()) == self._identity:
                return False
            value = self._read()
        except (OSError, ValueError) as error:
            self._log_once(_reason(error))
            return False
        self._logged = None
        if value == self.value:
            return False
        self.value = value
        _LOG.info("= file reloaded", extra={"file": str(self._path), "what": self._what})
        return True

    def _read(self) -> _T:
        """The identity is of before: what changes meanwhile is read again."""
        stat = self._path.stat()
        self._identity = _identity(stat)
        self._settled = time() - stat.st_mtime > _SURE_SECONDS
        if stat.st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        return self._parse(self._path.read_bytes())

    def _log_once(self, reason: str) -> None:
        """Once for each content that is wrong, not with each look at it."""
        if self._logged == (reason, self._identity):
            return
        self._logged = (reason, self._identity)
        fields = {"file": str(self._path), "what": self._what, "reason": reason}
        _LOG.error("! file refused, its old content stays", extra=fields)


def _identity(stat: stat_result) -> tuple[object, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
