"""What each append promises of the timestamps before it, so that look-ups by time can search (`storage/read/search`).

A mark says that no record before the offset `complete` is newer than the timestamp `newest`. Between `complete` and
the append itself are those that were in flight at the same time, in any order. `newest` may be above all that is
stored: what was in flight may have failed.

The promise needs every entry to be known. Entries of other writers, and appends whose outcome was lost with a
connection, are holes in what is known. Few of them are read (`hole`, `fill`). If they are many, nothing is promised
until the log is opened again behind an entry that promises something.
"""

from typing import Final

from bridge.codec import NO_TIMESTAMP
from bridge.storage.entries import NO_PROMISE, TimeMark

_MAX_OFFSETS_IN_HOLE: Final = 20_000  # offsets that are read to keep the promise; reading them takes some 100 ms


class TimeMarks:
    """The time marks of one partition, as this process knows them."""

    def __init__(self) -> None:
        self._complete: int = NO_PROMISE
        self._stored = NO_TIMESTAMP  # the newest of what is stored, or may be
        self._in_flight: dict[int, int] = {}  # how many appends have this as their newest timestamp
        self._newest = NO_TIMESTAMP  # of both
        self._after_holes: list[tuple[int, int]] = []  # known ranges of offsets behind holes, in order

    def load(self, mark: TimeMark, base: int, end: int) -> None:
        """Begin with the last entry stored, at `base` … `end` − 1, and with its promise."""
        self._include(mark.newest)
        self._complete = mark.complete
        self._note_known(base, end)

    def start_append(self, timestamp: int) -> TimeMark:
        """The mark of an append whose newest record has this timestamp; in flight until stored or failed."""
        self._in_flight[timestamp] = self._in_flight.get(timestamp, 0) + 1
        self._newest = max(self._newest, timestamp)
        return TimeMark(self._newest, self._complete)

    def note_stored(self, timestamp: int, base: int, end: int) -> None:
        """An append is stored at these offsets."""
        self._end_append(timestamp)
        self._include(timestamp)
        self._note_known(base, end)

    def note_failed(self, timestamp: int, *, maybe_stored: bool) -> None:
        """An append has failed; if its outcome was lost, it may be stored nevertheless."""
        self._end_append(timestamp)
        if maybe_stored:
            self._include(timestamp)
        elif timestamp == self._newest > self._stored:
            self._newest = max(self._in_flight, default=NO_TIMESTAMP)
            self._include(self._stored)

    @property
    def hole(self) -> tuple[int, int] | None:
        """The first range of offsets of which nothing is known, with known ones behind it: its begin and end."""
        if not self._after_holes:
            return None
        return self._complete, self._after_holes[0][0]

    def fill(self, newest: int, base: int, end: int) -> None:
        """An entry in a hole was read."""
        self._include(newest)
        self._note_known(base, end)

    def give_up(self) -> None:
        """A hole cannot be read, or costs too much to read: promise nothing any more."""
        self._complete = NO_PROMISE
        self._after_holes.clear()

    def _note_known(self, base: int, end: int) -> None:
        if self._complete == NO_PROMISE:
            return
        if base <= self._complete and not self._after_holes:
            self._complete = max(self._complete, end)
            return
        known = [(self._complete, self._complete)]
        for first, last in sorted([*self._after_holes, (base, end)]):
            if first <= known[-1][1]:
                known[-1] = known[-1][0], max(known[-1][1], last)
            else:
                known.append((first, last))
        (_, self._complete), *self._after_holes = known
        if self._after_holes and self._after_holes[0][0] - self._complete > _MAX_OFFSETS_IN_HOLE:
            self.give_up()

    def _end_append(self, timestamp: int) -> None:
        left = self._in_flight.get(timestamp, 0) - 1
        if left > 0:
            self._in_flight[timestamp] = left
        else:
            self._in_flight.pop(timestamp, None)

    def _include(self, timestamp: int) -> None:
        self._stored = max(self._stored, timestamp)
        self._newest = max(self._newest, timestamp)
