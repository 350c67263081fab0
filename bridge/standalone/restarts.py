"""When Pulsar is started again: if it is gone or has been sick for a while, after what pause, and if there is space."""

import shutil
from pathlib import Path

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_FORGOTTEN_AFTER = 600.0
_EVERY = 10.0
_SICK_LOOKS = 3
_LEAST_SHARE = 100  # a bookie takes nothing when less than a hundredth is free (diskUsageThreshold)
_LEAST_BYTES = 16 << 20


class Pauses:
    """None before the first restart, then longer and longer ones; none again when it has run for ten minutes."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._pause = 0.0

    def next(self, now: float) -> float:
        """Seconds to wait before the restart that is due now."""
        if now - self._last > _FORGOTTEN_AFTER:
            self._pause = 0.0
        pause = self._pause
        self._last = now + pause
        self._pause = min(max(_FIRST_PAUSE, 2 * pause), _LONGEST_PAUSE)
        return pause


class Health:
    """Says when to look after a process that runs, and when it has been sick for so long that it will not mend."""

    def __init__(self, now: float) -> None:
        self._next = now + _EVERY
        self._sick = 0

    def due(self, now: float) -> bool:
        """Whether to look now."""
        return now >= self._next

    def looked(self, now: float, problem: str | None) -> bool:
        """Take down what was found; whether that is too much."""
        self._next = now + _EVERY
        self._sick = 0 if problem is None else self._sick + 1
        return self._sick >= _SICK_LOOKS


def full_disk(directory: Path) -> str | None:
    """What an operator should know of a disk on which no bookie can write."""
    disk = shutil.disk_usage(directory)
    if disk.free >= max(disk.total // _LEAST_SHARE, _LEAST_BYTES):
        return None
    return f"the disk of {directory} is full: {disk.free // 1_000_000:,} of {disk.total // 1_000_000:,} MB are left"
