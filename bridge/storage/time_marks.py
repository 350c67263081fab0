"""What each append promises of the timestamps before it, so that look-ups by time can search (`storage/read/search`).

A mark says that no record before the offset `complete` is newer than the timestamp `newest`. Between `complete` and
the append itself stand those that were on their way at the same time, in whatever order they came to be stored.
`newest` may be more than what is stored: what was on its way may have failed.

The promise can be made where every entry is known. Entries of other writers, and of appends whose outcome was lost with
a connection, are holes in what is known: they are read where they are few (`hole`, `fill`). Where they are many,
nothing is promised until the log is opened anew behind an entry that promises something.
"""

from typing import Final

from bridge.codec import NO_TIMESTAMP
from bridge.storage.entries import NO_PROMISE, UNSAID, TimeMark

_MOST_IN_A_HOLE: Final = 20_000  # offsets that are read to keep the promise; reading them takes some 100 ms


class TimeMarks:
    """One partition's, as this process knows it."""

    def __init__(self) -> None:
        self._complete: int = NO_PROMISE
        self._stored = NO_TIMESTAMP  # the newest of what is stored, or may be
        self._under_way: dict[int, int] = {}  # how many appends have this as their newest timestamp
        self._newest = NO_TIMESTAMP  # of both
        self._beyond: list[tuple[int, int]] = []  # stretches known behind holes, in order: from an offset up to another

    def load(self, mark: TimeMark, base: int, end: int) -> None:
        """Begin with the last entry stored, at `base` … `end` − 1, and what it promises."""
        self._include(mark.newest)
        self._complete = base if mark.complete == UNSAID else mark.complete
        self._known(base, end)

    def place(self, timestamp: int) -> TimeMark:
        """The mark of an append whose newest record has this timestamp; it is under way until told otherwise."""
        self._under_way[timestamp] = self._under_way.get(timestamp, 0) + 1
        self._newest = max(self._newest, timestamp)
        return TimeMark(self._newest, self._complete)

    def stored(self, timestamp: int, base: int, end: int) -> None:
        """An append is stored at these offsets."""
        self._take(timestamp)
        self._include(timestamp)
        self._known(base, end)

    def failed(self, timestamp: int, *, maybe_stored: bool) -> None:
        """An append has failed; it may be stored all the same where its outcome was lost."""
        self._take(timestamp)
        if maybe_stored:
            self._include(timestamp)
        elif timestamp == self._newest > self._stored:
            self._newest = max(self._under_way, default=NO_TIMESTAMP)
            self._include(self._stored)

    @property
    def hole(self) -> tuple[int, int] | None:
        """The first stretch of which nothing is known although records behind it are: its begin and end."""
        if not self._beyond:
            return None
        return self._complete, self._beyond[0][0]

    def fill(self, newest: int, base: int, end: int) -> None:
        """An entry in a hole was read."""
        self._include(newest)
        self._known(base, end)

    def give_up(self) -> None:
        """A hole cannot be read, or is not worth it: promise nothing any more."""
        self._complete = NO_PROMISE
        self._beyond.clear()

    def _known(self, base: int, end: int) -> None:
        if self._complete == NO_PROMISE:
            return
        if base <= self._complete and not self._beyond:
            self._complete = max(self._complete, end)
            return
        known = [(self._complete, self._complete)]
        for first, last in sorted([*self._beyond, (base, end)]):
            if first <= known[-1][1]:
                known[-1] = known[-1][0], max(known[-1][1], last)
            else:
                known.append((first, last))
        (_, self._complete), *self._beyond = known
        if self._beyond and self._beyond[0][0] - self._complete > _MOST_IN_A_HOLE:
            self.give_up()

    def _take(self, timestamp: int) -> None:
        left = self._under_way.get(timestamp, 0) - 1
        if left > 0:
            self._under_way[timestamp] = left
        else:
            self._under_way.pop(timestamp, None)

    def _include(self, timestamp: int) -> None:
        self._stored = max(self._stored, timestamp)
        self._newest = max(self._newest, timestamp)
