"""The arithmetic of the benchmark: medians of paired ratios, percentiles, and what a process has used."""

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over the rounds of ours / theirs: what slows a whole round down does not show in it."""
    return statistics.median(our / their for our, their in zip(ours, theirs, strict=True))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def counted_percentile(counts: Mapping[int, int], percent: float) -> int:
    """The same of values that are given with how often each occurs."""
    left = max(1, math.ceil(sum(counts.values()) * percent / 100))
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    raise ValueError("nothing was counted")


def cpu_seconds(stat: str) -> float:
    """User and system time in the text of a /proc/<pid>/stat, its children's not included (proc(5))."""
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_megabytes(status: str) -> float:
    """VmRSS in the text of a /proc/<pid>/status."""
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024 / 1e6


class Cpu:
    """The processor time of several processes since it was made."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._before = self._now()

    def used(self) -> dict[str, float]:
        """Seconds of each."""
        now = self._now()
        return {name: now[name] - before for name, before in self._before.items()}

    def _now(self) -> dict[str, float]:
        return {
            name: cpu_seconds(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")) for name, pid in self._pids.items()
        }


def memory(pid: int) -> float:
    """A process's resident megabytes now."""
    return resident_megabytes(Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
