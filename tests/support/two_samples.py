"""Whether two samples of times come from one distribution: the rank-sum test, and how far apart they may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from statistics import median, quantiles

_DEVIATIONS_OF_99_PERCENT = 2.5758


@dataclass(frozen=True)
class Comparison:
    """Two samples, of at least some twenty values each."""

    first: Sequence[float]
    second: Sequence[float]

    @property
    def p(self) -> float:
        """How often samples of one distribution differ as much as these (Mann and Whitney, both sides)."""
        below = sum((a > b) + (a == b) / 2 for a in self.first for b in self.second)
        return erfc(abs(below - self._pairs / 2) / self._deviation / sqrt(2))

    @property
    def shift(self) -> tuple[float, float, float]:
        """How much the second is above the first (Hodges and Lehmann), between its bounds of 99 %."""
        differences = sorted(b - a for a in self.first for b in self.second)
        left_out = max(int(self._pairs / 2 - _DEVIATIONS_OF_99_PERCENT * self._deviation), 0)
        return differences[left_out], median(differences), differences[-1 - left_out]

    @property
    def _pairs(self) -> int:
        return len(self.first) * len(self.second)

    @property
    def _deviation(self) -> float:
        return sqrt(self._pairs * (len(self.first) + len(self.second) + 1) / 12)


def p99(values: Sequence[float]) -> float:
    """What one in a hundred exceeds."""
    return quantiles(values, n=100)[98]
