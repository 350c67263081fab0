"""The records kept in memory: the most recent ones of each partition, and older ones that were read."""

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable

from bridge.storage.read.batches import Batch
from bridge.storage.read.replacement import CachedPartition, Run, Runs, weight
from bridge.telemetry.metrics import StorageMetrics

_RUNS = 64


class CacheShare:
    """The recent batches' share: half of the cache, and what the other half leaves free; first in, first out."""

    def __init__(self, cache: "Cache") -> None:
        self._cache = cache
        self._order: OrderedDict[Batch, CachedPartition] = OrderedDict()
        self.size = 0  # bytes

    def __len__(self) -> int:
        return len(self._order)

    def add(self, partition: CachedPartition, batch: Batch) -> None:
        """Account for a batch; others are dropped if there is no memory left."""
        self._order[batch] = partition
        self.size += weight(batch)
        self._cache.shrink()

    def drop_first(self) -> None:
        """Let its partition drop the batch that was added first."""
        batch, partition = self._order.popitem(last=False)
        self.size -= weight(batch)
        partition.drop(batch)

    def remove(self, batches: Iterable[Batch]) -> None:
        """Remove what a partition that closes still has; the others are not gone through: a thousand may close."""
        for batch in batches:
            del self._order[batch]
            self.size -= weight(batch)
        self._cache.shrink()


class Cache:
    """The memory that all partitions share; a scan of old records takes at most half of it from recent ones.

    Which of the older ones stay, `replacement` decides.
    """

    def __init__(self, limit: int, metrics: StorageMetrics) -> None:
        self._limit = limit
        self._metrics = metrics
        self.recent = CacheShare(self)
        self.older = Runs(limit // _RUNS)

    def shrink(self) -> None:
        """Drop what is above the limit, but never the last recent batch: consumers are about to ask for it."""
        recent, older = self.recent, self.older
        while recent.size + older.size > self._limit:
            if older and (older.size > self._limit // 2 or len(recent) <= 1):
                older.drop_first()
            elif len(recent) > 1:
                recent.drop_first()
            else:
                break
        self._metrics.cache_bytes.set(recent.size + older.size)


class OlderBatches:
    """Batches of one partition that were read behind the tail, wherever in the log they are."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._bases: list[int] = []  # sorted
        self._batches: dict[
            int, tuple[int, Batch, Run]
        ] = {}  # by base offset, with the offset from which on it is the next batch

    def __bool__(self) -> bool:
        return bool(self._bases)

    def keep(self, batch: Batch) -> Batch:
        """Add a batch that a reader has read; the one of this place that is in memory already, if there is one."""
        known = self._batches.get(batch.base)
        if known is not None:
            return known[1]
        if batch.certain_from > batch.base:  # it may claim more than is its own
            return batch
        insort(self._bases, batch.base)
        self._batches[batch.base] = batch.base, batch, self._cache.older.add(self, batch)
        self._cache.shrink()
        return batch

    def add(self, offset: int, batches: list[Batch]) -> None:
        """Add what a reader has read from `offset` on, with nothing left out."""
        for batch in batches:
            self.keep(batch)
            known = self._batches.get(batch.base)
            if known is not None:  # else there is no memory for it
                self._batches[batch.base] = min(offset, known[0]), known[1], known[2]
            offset = batch.next

    def slice(self, offset: int, max_bytes: int) -> list[Batch]:
        """The batches from the one with `offset`, or the next one, up to the first gap.

        Up to `max_bytes`, but at least one if the first is in memory.
        """
        bases = self._bases
        found: list[Batch] = []
        size = 0
        runs = self._cache.older
        for number in range(self._index(offset), len(bases)):
            after, batch, run = self._batches[bases[number]]
            size += batch.size
            if after > offset or (found and size > max_bytes):
                break
            found.append(batch)
            runs.touch(run, batch)
            offset = batch.next
        return found

    def look(self, offset: int) -> Batch | None:
        """The first batch of `slice`; it does not count as read."""
        at = self._index(offset)
        after, batch, _ = self._batches[self._bases[at]] if at < len(self._bases) else (offset + 1, None, None)
        return batch if after <= offset else None

    def _index(self, offset: int) -> int:
        """Of the batch with `offset`, or of the next one."""
        at = max(bisect_right(self._bases, offset) - 1, 0)
        if at < len(self._bases) and self._batches[self._bases[at]][1].next <= offset:
            at += 1
        return at

    def follows(self, offset: int, count: int) -> bool:
        """Whether so many bytes are in memory from `offset` on without a gap; looks at runs, not at batches."""
        while count > 0:
            found = self._batches.get(offset)
            if found is None:
                return False
            run = found[2]
            count -= run.size
            offset = run.next
        return True

    def drop(self, batch: Batch) -> None:
        """Drop a batch: the cache has chosen it."""
        del self._batches[batch.base]
        del self._bases[bisect_right(self._bases, batch.base) - 1]

    def close(self) -> None:
        """Free the memory."""
        if self._bases:
            self._bases.clear()
            self._batches.clear()
            self._cache.older.remove(self)
            self._cache.shrink()
