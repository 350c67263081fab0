"""Which older batches make room for others, so that a scan does not take the place of all that was there before.

A scan a little larger than memory would find nothing of itself the second time, if what came first left first. So runs
of batches are judged (2Q: Johnson and Shasha, 1994):

- What comes goes to the end of a queue, which may fill all memory that nothing better takes. It leaves in the order in
  which it came. Who follows another reader finds it there.
- Where something is read again that has just left, the queue's newest run makes room for it and not its oldest: it is a
  scan that has begun again, and the oldest is what it will come to next.
- What has left the queue is remembered, without its records, for as long as the same amount again has left. If it is
  read again meanwhile, it is kept by when it was last read (LRU), and the queue has to leave it space: all but a
  quarter.
"""

from collections import OrderedDict
from itertools import islice
from typing import Final, Protocol

from bridge.storage.read.batches import Batch

_RUN_BYTES: Final = 4 << 20
"""Of a run that goes as one. A gap costs a reader as much as reading a megabyte or two."""
_QUEUE: Final = 4  # a quarter
_LOOKS: Final = 16  # for a run that does not grow any more
_MOST_REMEMBERED: Final = 1 << 16
_BATCH_OVERHEAD_BYTES: Final = 2048
"""The Python objects of one batch, as measured before its conversion; afterwards half of it is left."""


def weight(batch: Batch) -> int:
    """The bytes that a batch takes in memory, about."""
    return batch.size + _BATCH_OVERHEAD_BYTES


class CachedPartition(Protocol):
    """A partition's batches in one share of the cache."""

    def drop(self, batch: Batch) -> None:
        """Drop this batch."""


_Place = tuple[CachedPartition, int]


class Run:
    """Consecutive batches of one partition, which go together."""

    __slots__ = ("batches", "is_kept", "owner", "size")

    def __init__(self, owner: CachedPartition, *, is_kept: bool) -> None:
        """`is_kept`: it was read twice, and is not in the queue."""
        self.owner = owner
        self.is_kept = is_kept
        self.batches: list[Batch] = []
        self.size = 0

    @property
    def next(self) -> int:
        """The offset after the last batch."""
        return self.batches[-1].next


class Runs:
    """All runs in memory, and which of them goes next; every step takes constant time for each batch."""

    def __init__(self, run_bytes: int) -> None:
        """`run_bytes`: of a run, at most 4 MiB."""
        self._run_bytes = min(run_bytes, _RUN_BYTES)
        self._queue: OrderedDict[Run, None] = OrderedDict()  # as they came
        self._kept: OrderedDict[Run, None] = OrderedDict()  # as they were read
        self._growing: dict[tuple[_Place, bool], Run] = {}  # by the place at which the run goes on
        self._remembered: OrderedDict[_Place, int] = OrderedDict()  # batches that have left the queue: their bytes
        self._remembered_size = 0
        self._is_again = False  # what came last had been here before
        self._queue_size = 0
        self._batches = 0
        self.size = 0  # bytes

    def __len__(self) -> int:
        return self._batches

    def add(self, owner: CachedPartition, batch: Batch) -> Run:
        """A batch was read from Pulsar; the run in which it is now."""
        place = owner, batch.base
        remembered = self._remembered.pop(place, 0)
        self._remembered_size -= remembered
        self._is_again = remembered > 0
        run = self._growing.pop((place, remembered > 0), None)
        if run is None:
            run = Run(owner, is_kept=remembered > 0)
            (self._kept if run.is_kept else self._queue)[run] = None
        size = weight(batch)
        run.batches.append(batch)
        run.size += size
        self._count(run, size, 1)
        if run.size < self._run_bytes:
            self._growing[(owner, batch.next), run.is_kept] = run
        return run

    def touch(self, run: Run, batch: Batch) -> None:
        """This batch of it was read from memory; the first one counts for all."""
        if run.is_kept and batch is run.batches[0]:
            self._kept.move_to_end(run)

    def drop_first(self) -> None:
        """Drop a run; there is one at least."""
        run = self._choose()
        self._forget(run)
        for batch in run.batches:
            if not run.is_kept:
                self._remember((run.owner, batch.base), weight(batch))
            run.owner.drop(batch)

    def remove(self, owner: CachedPartition) -> None:
        """Remove all that is known of a partition that closes."""
        for run in [run for runs in (self._queue, self._kept) for run in runs if run.owner is owner]:
            self._forget(run)
        for place in [place for place in self._remembered if place[0] is owner]:
            self._remembered_size -= self._remembered.pop(place)

    def _choose(self) -> Run:
        if self._kept and self._queue_size * _QUEUE <= self.size:
            return next(iter(self._kept))
        if self._is_again:
            whole = (run for run in islice(reversed(self._queue), _LOOKS) if run.size >= self._run_bytes)
            return next(whole, None) or next(iter(self._queue or self._kept))
        return next(iter(self._queue or self._kept))

    def _remember(self, place: _Place, size: int) -> None:
        self._remembered[place] = size
        self._remembered_size += size
        while self._remembered_size > self.size or len(self._remembered) > _MOST_REMEMBERED:
            self._remembered_size -= self._remembered.popitem(last=False)[1]

    def _forget(self, run: Run) -> None:
        del (self._kept if run.is_kept else self._queue)[run]
        self._count(run, -run.size, -len(run.batches))
        goes_on = (run.owner, run.next), run.is_kept
        if self._growing.get(goes_on) is run:
            del self._growing[goes_on]

    def _count(self, run: Run, size: int, batches: int) -> None:
        self.size += size
        self._batches += batches
        if not run.is_kept:
            self._queue_size += size
