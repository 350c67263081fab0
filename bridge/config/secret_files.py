"""Which files with secrets others on this machine can read or change: those of every setting that names such a file."""

import os
import stat
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridge.config.sections import SECTIONS, Settings

_OTHERS: Final = stat.S_IROTH | stat.S_IWOTH


class OpenFile(NamedTuple):
    """A file with a secret that others can read, or change."""

    setting: str
    path: str
    mode: str

    @property
    def remedy(self) -> str:
        """The command that closes it."""
        return f"chmod o-rwx {self.path}"


def open_files(settings: Settings, file: Path | None = None) -> list[OpenFile]:
    """Those of the settings, and the `file` of the settings where a secret stands in it.

    A file that cannot be looked at is told of elsewhere.
    """
    found = []
    for setting, path in _named(settings, file):
        try:
            mode = _mode(path)
        except OSError:
            continue
        if mode & _OTHERS:
            found.append(OpenFile(setting, path, f"{stat.S_IMODE(mode):04o}"))
    return found


def _named(settings: Settings, file: Path | None) -> Iterator[tuple[str, str]]:
    """Which files to look at, and by which setting each is named."""
    text = "" if file is None else file.read_text(encoding="utf-8")
    tables: dict[str, Any] = {name: getattr(settings, name) for name in SECTIONS}
    tables |= {f"listener.{name}": table for name, table in settings.listener.items()}
    for table, values in tables.items():
        for setting in fields(values):
            value = getattr(values, setting.name)
            if setting.metadata.get("holds_secret") and value:
                yield f"{table}.{setting.name}", value
            elif setting.metadata.get("secret") and value and value in text:  # not in the environment
                yield f"{table}.{setting.name}", str(file)


def _mode(path: str) -> int:
    """The file's own mode; 0 where others do not come as far as it."""
    real = Path(path).resolve()
    if not all(os.stat(folder).st_mode & stat.S_IXOTH for folder in real.parents):
        return 0
    return real.stat().st_mode
