"""How the lag of groups was in the last hour: from the numbers of the metrics, at the node that coordinates each."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from bridge.telemetry.metrics import Lag

SAMPLE_SECONDS: Final = 30.0
MOST_SAMPLES: Final = 120
_TREND: Final = 40
"""So many of the newest samples are shown in the list."""


class LagHistory:
    """One number for each group and half minute: of the groups of which the metrics tell the lag, and no others."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, str], deque[tuple[float, int]]] = {}

    def add(self, now: float, lags: Iterable[Lag]) -> None:
        """The lags at a moment (Unix time). A group that is not among them any more is forgotten."""
        sums: dict[tuple[str, str], int] = {}
        for lag in lags:
            if lag.records is not None:
                key = lag.namespace, lag.group
                sums[key] = sums.get(key, 0) + max(0, lag.records)
        before = self._samples
        self._samples = {key: before.get(key) or deque(maxlen=MOST_SAMPLES) for key in sums}
        for key, records in sums.items():
            self._samples[key].append((now, records))

    def points(self, namespace: str, group: str) -> list[tuple[float, int]]:
        """Times and lags of a group, the oldest first; `namespace`: empty of the bridge's own."""
        return list(self._samples.get((namespace, group), ()))

    def trend(self, namespace: str, group: str) -> str:
        """The newest lags, by spaces."""
        found = self._samples.get((namespace, group), ())
        return " ".join(str(records) for _, records in list(found)[-_TREND:])
