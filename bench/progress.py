"""What `make bench` shows on a terminal while a part runs: which one, how many are done, how long it still takes."""

import time
from collections.abc import Callable, Mapping, Sequence

from bridge.standalone.maven import bar, duration


class PartsProgress:
    """Parts one after the other; a part takes what it took the last time, or what those before it took."""

    def __init__(
        self, names: Sequence[str], usual: Mapping[str, float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`usual`: seconds of those that were measured before."""
        self._names = list(names)
        self._usual = usual
        self._clock = clock
        self._took: dict[str, float] = {}
        self._now: str | None = None
        self._began = clock()

    def begin(self, name: str) -> None:
        """A part begins."""
        self._now, self._began = name, self._clock()

    def end(self) -> None:
        """It has ended, whatever came of it."""
        if self._now is not None:
            self._took[self._now] = self._clock() - self._began
            self._now = None

    def text(self) -> str:
        """The line."""
        here = self._clock() - self._began
        expected = {name: self._expected(name) for name in self._names}
        whole = sum(expected.values())
        done = sum(self._took.values()) + (min(here, expected[self._now]) if self._now else 0.0)
        doing = f", {self._now} for {duration(here)}" if self._now else ""
        left = f", about {duration(whole - done)} left" if whole else ""
        share = bar(done, whole) if whole else bar(len(self._took), len(self._names))
        return f"{share}  {len(self._took)} of {len(self._names)} parts{doing}{left}"

    def _expected(self, name: str) -> float:
        if name in self._took:
            return self._took[name]
        known = self._took.values() or self._usual.values()
        return self._usual.get(name) or (sum(known) / len(known) if known else 0.0)
