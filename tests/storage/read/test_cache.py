"""What is kept in memory, and what is dropped first; with batches made by hand, without Pulsar."""

from __future__ import annotations

import time

import pytest

from bridge.storage.read.batches import Batch
from bridge.storage.read.cache import Cache, CacheShare, OlderBatches
from bridge.telemetry.metrics import Metrics
from tests.storage.read.cached import batch


class Recent:
    """Stands for a tail: knows what it still has."""

    def __init__(self, share: CacheShare) -> None:
        self.share = share
        self.kept: list[Batch] = []

    def add(self, one: Batch) -> None:
        self.kept.append(one)
        self.share.add(self, one)

    def drop(self, batch: Batch) -> None:
        assert self.kept[0] is batch
        del self.kept[0]


def cache(limit: int = 1 << 40) -> Cache:
    return Cache(limit, Metrics().storage)


def bases(found: list[Batch]) -> list[int]:
    return [one.base for one in found]


def test_batches_are_found_by_any_offset_in_them() -> None:
    older = OlderBatches(cache())
    older.add(0, [batch(0), batch(10), batch(20)])
    assert bases(older.slice(0, 1 << 30)) == [0, 10, 20]
    assert bases(older.slice(19, 1 << 30)) == [10, 20]
    assert bases(older.slice(29, 1 << 30)) == [20]
    assert older.slice(30, 1 << 30) == []


def test_a_slice_holds_one_batch_at_least_and_no_more_than_was_asked_for() -> None:
    older = OlderBatches(cache())
    older.add(0, [batch(0), batch(10), batch(20)])
    assert bases(older.slice(5, 1)) == [0]
    assert bases(older.slice(5, 200_000)) == [0, 10]


def test_a_slice_ends_at_a_hole() -> None:
    older = OlderBatches(cache())
    older.add(30, [batch(30), batch(40)])
    older.add(0, [batch(0), batch(10)])
    assert bases(older.slice(0, 1 << 30)) == [0, 10]
    assert older.slice(20, 1 << 30) == [], "what is there was never read"
    older.add(20, [batch(20), batch(30)])
    assert bases(older.slice(0, 1 << 30)) == [0, 10, 20, 30, 40]


def test_offsets_that_hold_no_record_are_no_hole() -> None:
    older = OlderBatches(cache())
    older.add(0, [batch(3), batch(20)])  # compaction, markers, the beginning of a ledger
    assert bases(older.slice(0, 1 << 30)) == [3, 20]
    assert bases(older.slice(15, 1 << 30)) == [20]
    other = OlderBatches(cache())
    other.add(20, [batch(20)])
    assert other.slice(15, 1 << 30) == []
    other.add(12, [batch(20)])
    assert bases(other.slice(15, 1 << 30)) == [20], "met again from further in front"
    other.add(18, [batch(20)])
    assert bases(other.slice(15, 1 << 30)) == [20], "and what was known stays so"


def test_a_look_finds_what_a_slice_begins_with() -> None:
    older = OlderBatches(cache())
    assert older.look(0) is None
    older.add(0, [batch(0), batch(10)])
    older.add(30, [batch(30)])
    for offset in (0, 9, 10, 19, 20, 29, 30, 40):
        found = older.look(offset)
        assert ([] if found is None else [found]) == older.slice(offset, 1)


def test_partitions_close_without_a_look_at_what_others_have() -> None:
    shared = cache()
    partitions = [Recent(shared.recent) for _ in range(500)]
    for n in range(20_000):
        partitions[n % 500].add(batch(n, 1, size=50))
    began = time.process_time()
    for one in partitions[1:]:
        shared.recent.remove(one.kept)
    assert time.process_time() - began < 0.2
    assert len(shared.recent) == len(partitions[0].kept) == 40
    shared.recent.remove(partitions[0].kept)
    assert shared.recent.size == 0


def test_the_batch_added_first_is_dropped_first() -> None:
    shared = cache(5 * 110_000)
    one, other = OlderBatches(shared), OlderBatches(shared)
    one.add(0, [batch(0), batch(10)])
    other.add(0, [batch(0), batch(10), batch(20)])
    other.add(30, [batch(30)])
    assert one.slice(0, 1 << 30) == []
    assert bases(one.slice(10, 1 << 30)) == [10]
    assert bases(other.slice(0, 1 << 30)) == [0, 10, 20, 30]


def test_recent_and_older_batches_have_half_each_and_what_the_other_leaves() -> None:
    shared = cache(10 * 110_000)
    older, recent = OlderBatches(shared), Recent(shared.recent)
    older.add(0, [batch(10 * n) for n in range(20)])
    assert len(older.slice(100, 1 << 30)) == 10, "all of it"
    for n in range(20):
        recent.add(batch(10 * n))
    assert len(older.slice(150, 1 << 30)) == 5
    assert len(recent.kept) == 5
    older.add(200, [batch(200 + 10 * n) for n in range(20)])
    assert len(older.slice(350, 1 << 30)) == 5
    assert len(recent.kept) == 5, "reading old records takes no more from recent ones"
    older.close()
    for n in range(20):
        recent.add(batch(10 * n))
    assert len(recent.kept) == 10


def test_without_memory_only_the_last_recent_batch_stays() -> None:
    shared = cache(0)
    older, recent = OlderBatches(shared), Recent(shared.recent)
    older.add(0, [batch(0), batch(10)])
    assert older.slice(0, 1 << 30) == []
    recent.add(batch(0))
    recent.add(batch(10))
    assert bases(recent.kept) == [10]


def test_small_batches_count_for_what_their_objects_take() -> None:
    shared = cache(100_000)
    older = OlderBatches(shared)
    older.add(0, [batch(n, 1, size=50) for n in range(1000)])
    assert 40 <= len(older.slice(999 - 39, 1 << 30)) < 1000
    assert len([n for n in range(1000) if older.slice(n, 1)]) < 50


def test_a_closed_partition_leaves_nothing_in_memory() -> None:
    shared = cache()
    older, other = OlderBatches(shared), OlderBatches(shared)
    older.add(0, [batch(0)])
    other.add(0, [batch(0)])
    older.close()
    assert older.slice(0, 1 << 30) == []
    assert len(shared.older) == 1
    other.close()
    assert shared.older.size == 0


@pytest.mark.parametrize("limit", [0, 110_000, 330_000])
def test_the_metric_tells_what_is_held(limit: int) -> None:
    metrics = Metrics()
    shared = Cache(limit, metrics.storage)
    older = OlderBatches(shared)
    older.add(0, [batch(10 * n) for n in range(5)])
    assert metrics.storage.cache_bytes.value == shared.older.size <= limit
