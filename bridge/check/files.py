"""Whether others on this machine can read the files with secrets, or change them."""

from pathlib import Path

from bridge.check.findings import Finding, Severity
from bridge.config import Settings
from bridge.config.secret_files import open_files


def examine_files(settings: Settings, file: Path | None = None) -> list[Finding]:
    """A finding for each of them; `file`: that of the settings."""
    return [
        Finding(
            "secret file",
            Severity.RISK,
            f"{one.path} ({one.setting}) has the mode {one.mode}: others on this machine can read or change it",
            one.remedy,
        )
        for one in open_files(settings, file)
    ]
