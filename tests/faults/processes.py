"""Faults done to processes of the tests' own, by their pids, and what is measured of them."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def let_pass(seconds: float) -> None:
    """How long a fault lasts: the one thing here that time itself decides."""
    threading.Event().wait(seconds)


def resident_bytes(pid: int) -> int:
    """A process's memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files(pid: int) -> int:
    """A process's open descriptors."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
