"""What the alerts of a Prometheus did while faults came and went, and the table of it for docs/alerts.md."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.pages import put_between
from tests.support.prometheus import Prometheus

BEGIN, END = "<!-- time line: begin -->", "<!-- time line: end -->"
_LOOK_EVERY_SECONDS = 0.2
_AFTER_SECONDS = 120.0


@dataclass
class Seen:
    """When an alert was first pending, first firing, and when it was last seen; by the monotonic clock."""

    pending: float | None = None
    firing: float | None = None
    last: float = 0.0


@dataclass
class Period:
    """A fault, or a time without one."""

    what: str
    begin: float
    over: float = 0.0
    seen: dict[str, Seen] = field(default_factory=dict)

    @property
    def fired(self) -> set[str]:
        """The alerts that fired."""
        return {name for name, seen in self.seen.items() if seen.firing is not None}

    def rows(self) -> Iterator[str]:
        """Rows of a table: seconds since the fault began, and since it was over."""
        lasted = self.over - self.begin
        for name, seen in sorted(self.seen.items(), key=lambda one: one[1].pending or one[1].firing or 0.0):
            came = [_since(self.begin, seen.pending), _since(self.begin, seen.firing) or "never"]
            ended = _since(self.over, seen.last) if seen.firing is not None else ""
            yield _row([self.what, f"{lasted:.0f}", name, *came, ended])
        if not self.seen:
            yield _row([self.what, f"{lasted:.0f}", "none", "", "", ""])


class TimeLine:
    """Looks at the alerts all the time, in a thread."""

    def __init__(self, prometheus: Prometheus) -> None:
        self.periods: list[Period] = []
        self._prometheus = prometheus
        self._changed = threading.Condition()
        self._active: dict[str, str] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="alerts")

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While this lasts."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    @contextmanager
    def period(self, what: str) -> Iterator[Period]:
        """A fault lasts as long as this does; afterwards all alerts are waited for to end."""
        made = Period(what, time.monotonic())
        with self._changed:
            self.periods.append(made)
        yield made
        made.over = time.monotonic()
        self._until("no alert is left", lambda: not self._active)

    def wait_for(self, names: Iterable[str]) -> None:
        """Wait until these fire."""
        wanted = set(names)
        self._until(f"{sorted(wanted)} fire", lambda: wanted <= self.periods[-1].fired)

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        with self._changed:
            held = self._changed.wait_for(holds, _AFTER_SECONDS)
        assert held, f"not within {_AFTER_SECONDS:.0f} s: {what}; {self._active}; {self.periods[-1]}"

    def _look(self) -> None:
        while not self._over.wait(_LOOK_EVERY_SECONDS):
            active = self._prometheus.alerts()
            now = time.monotonic()
            with self._changed:
                self._active = active
                for name, state in active.items() if self.periods else ():
                    self._note(self.periods[-1].seen.setdefault(name, Seen()), state, now)
                self._changed.notify_all()

    @staticmethod
    def _note(seen: Seen, state: str, now: float) -> None:
        seen.last = now
        if state == "firing":
            seen.firing = seen.firing or now
        else:
            seen.pending = seen.pending or now


def _since(begin: float, at: float | None) -> str:
    return "" if at is None else f"{at - begin:.1f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write(periods: Iterable[Period], page: Path) -> None:
    """Put the table into a document."""
    head = ["fault", "lasted, s", "alert", "pending after, s", "firing after, s", "ended, s after the fault"]
    rule = ["---", "---:", "---", "---:", "---:", "---:"]
    lines = [_row(head), _row(rule).replace(" ", ""), *(row for period in periods for row in period.rows())]
    put_between(page, BEGIN, END, "\n".join(lines))
