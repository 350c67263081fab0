"""When Pulsar is started again: when it has ended or stays unhealthy, after what pause, and if there is space."""

import shutil
from pathlib import Path

_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 60.0
_RESET_AFTER_SECONDS = 600.0
_CHECK_INTERVAL_SECONDS = 10.0
_MAX_FAILED_CHECKS = 3
_MIN_FREE_FRACTION = 100  # a bookie takes nothing when less than a hundredth is free (diskUsageThreshold)
_MIN_FREE_BYTES = 16 << 20


class RestartBackoff:
    """None before the first restart, then longer and longer ones; none again when it has run for ten minutes."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._pause = 0.0

    def next(self, now: float) -> float:
        """Seconds to wait before the restart that is due now."""
        if now - self._last > _RESET_AFTER_SECONDS:
            self._pause = 0.0
        pause = self._pause
        self._last = now + pause
        self._pause = min(max(_FIRST_PAUSE_SECONDS, 2 * pause), _MAX_PAUSE_SECONDS)
        return pause


class PulsarHealth:
    """Says when to check a running process, and when it has failed too many checks in a row."""

    def __init__(self, now: float) -> None:
        self._next = now + _CHECK_INTERVAL_SECONDS
        self._failed = 0

    def due(self, now: float) -> bool:
        """Whether a check is due."""
        return now >= self._next

    def record(self, now: float, problem: str | None) -> bool:
        """Record the result of a check; whether the process must be started again."""
        self._next = now + _CHECK_INTERVAL_SECONDS
        self._failed = 0 if problem is None else self._failed + 1
        return self._failed >= _MAX_FAILED_CHECKS


def full_disk(directory: Path) -> str | None:
    """What an operator should know of a disk on which no bookie can write."""
    disk = shutil.disk_usage(directory)
    if disk.free >= max(disk.total // _MIN_FREE_FRACTION, _MIN_FREE_BYTES):
        return None
    return f"the disk of {directory} is full: {disk.free // 1_000_000:,} of {disk.total // 1_000_000:,} MB are left"
