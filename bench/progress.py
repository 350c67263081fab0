"""What `make bench` shows on a terminal while a part runs: which one, how many are done, how long it still takes."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from bridge.standalone.waiting import TimeBar

_EVERY_SECONDS = 0.2


class PartsProgress:
    """Parts one after the other; a part takes what it took the last time, or what those before it took."""

    def __init__(self, names: Sequence[str], usual: Mapping[str, float]) -> None:
        """`usual`: seconds of those that were measured before."""
        self._names = list(names)
        self._usual = usual
        self._took: dict[str, float] = {}

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """A part runs, whatever comes of it; a thread writes the line again and again."""
        began = time.monotonic()
        what = f"{len(self._took)} of {len(self._names)} parts, {name}"
        bar = TimeBar(what, sum(map(self.expected, self._names)) or None, sum(self._took.values()))
        over = threading.Event()

        def show() -> None:
            while not over.wait(_EVERY_SECONDS):
                bar.show()

        thread = threading.Thread(target=show, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            bar.close()
            self._took[name] = time.monotonic() - began

    def expected(self, name: str) -> float:
        """How many seconds a part takes; 0: it is not known."""
        if name in self._took:
            return self._took[name]
        known = self._took.values() or self._usual.values()
        return self._usual.get(name) or (sum(known) / len(known) if known else 0.0)
