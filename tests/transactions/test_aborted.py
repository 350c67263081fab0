"""Which transactions are aborted, however that is stored."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from bridge.storage.visibility import Identity
from bridge.transactions import records
from bridge.transactions.aborted import MOST_ALONE, AbortedIdentities, AbortedRecords
from bridge.transactions.records import AbortedKey, AbortedRecord, BlockKey, IdKey, Named
from bridge.transactions.state import Status, TransactionRecord
from tests.transactions.examples import IDENTITIES

Entry: TypeAlias = list[tuple[str, bytes | None]]

FEW: Final = st.builds(
    Identity, st.sampled_from([5, 6]), st.sampled_from([0, 3, 1023, 1024]), st.sampled_from([0, 1, 2, 1023, 1024, 1025])
)
"""Of few blocks, so that those fill."""
LATER: Final = b'{"v":2,"news":true}'


def open_record(identity: Identity, topic: str = "orders", index: int = 0, group: str = "g") -> TransactionRecord:
    partitions = {(topic, "0a"): ((index, index),)}
    protocol = 1 if identity.n else 2
    return TransactionRecord(
        1, *identity, Status.OPEN, protocol, 60_000, 0, 0, None, partitions, {}, frozenset({group})
    )  # fmt: skip


def value_of(identity: Identity, decided_ms: int = 5) -> bytes:
    return records.encode_aborted(decided_ms, open_record(identity))


def parsed(key: str) -> AbortedKey | BlockKey:
    found = records.parse_key(key)
    assert found is not None
    assert not isinstance(found, IdKey)
    return found


def log_of(identities: Iterable[Identity], most_alone: int) -> list[Entry]:
    """What a holder stores, one entry for each abort."""
    holder, log = AbortedRecords(most_alone), []
    for identity in identities:
        entry = holder.to_store(identity, value_of(identity))
        log.append(entry)
        for key, value in entry:
            holder.apply(parsed(key), value)
    return log


def read(entries: Iterable[Entry]) -> AbortedIdentities:
    found = AbortedIdentities()
    for entry in entries:
        for key, value in entry:
            found.apply(parsed(key), value)
    return found


def compacted(log: Iterable[Entry]) -> Entry:
    """The last value of each key, at its place in the log."""
    last: dict[str, bytes | None] = {}
    for entry in log:
        for key, value in entry:
            last.pop(key, None)
            last[key] = value
    return [(key, value) for key, value in last.items() if value is not None]


@given(identities=st.lists(FEW, unique=True), others=st.lists(FEW | IDENTITIES), most_alone=st.integers(0, 3))
def test_each_abort_is_known_at_once_and_for_ever(
    identities: list[Identity], others: list[Identity], most_alone: int
) -> None:
    log = log_of(identities, most_alone)
    found, aborted = AbortedIdentities(), set()
    for identity, entry in zip(identities, log, strict=True):
        aborted.add(identity)
        for key, value in entry:
            found.apply(parsed(key), value)
            assert all(each in found for each in aborted - {identity})  # within an entry, too
        assert {each for each in {*identities, *others} if each in found} == aborted


@given(identities=st.lists(FEW, unique=True), most_alone=st.integers(0, 3), data=st.data())
def test_a_compacted_view_says_the_same(identities: list[Identity], most_alone: int, data: st.DataObject) -> None:
    log = log_of(identities, most_alone)
    horizon = data.draw(st.integers(0, len(log)))
    found = read([compacted(log[:horizon]), *log[horizon:]])
    assert all(identity in found for identity in identities)
    assert found.live() == read(log).live() == len(compacted(log))


@given(identities=st.lists(FEW, unique=True), most_alone=st.integers(0, 3), data=st.data())
def test_what_was_stored_twice_changes_nothing(
    identities: list[Identity], most_alone: int, data: st.DataObject
) -> None:
    found = AbortedIdentities()
    for entry in log_of(identities, most_alone):
        for _ in range(data.draw(st.integers(1, 2))):
            for key, value in entry:
                found.apply(parsed(key), value)
    assert all(identity in found for identity in identities)
    assert found.live() == read(log_of(identities, most_alone)).live()


@given(identities=st.lists(FEW, unique=True), most_alone=st.integers(0, 3), data=st.data())
def test_a_new_holder_goes_on(identities: list[Identity], most_alone: int, data: st.DataObject) -> None:
    """It knows what it has read, and no more."""
    half = data.draw(st.integers(0, len(identities)))
    log = log_of(identities[:half], most_alone)
    holder, found = AbortedRecords(most_alone), read(log)
    for key, value in compacted(log):
        holder.apply(parsed(key), value)
    for identity in identities[half:]:
        for key, value in holder.to_store(identity, value_of(identity)):
            holder.apply(parsed(key), value)
            found.apply(parsed(key), value)
    assert all(identity in found for identity in identities)
    assert all(holder.value(key) == value for key, value in holder)


def test_more_than_some_of_a_block_are_stored_together() -> None:
    identities = [Identity(5, 7, n) for n in range(1, 2 * MOST_ALONE + 4)]
    log = log_of(identities, MOST_ALONE)
    alone, block = records.aborted_key, "A/5/7/0"
    first, second = MOST_ALONE, 2 * MOST_ALONE + 1
    assert [key for key, _ in log[first - 1]] == [alone(identities[first - 1])]
    assert [key for key, _ in log[first]] == [block, *(alone(each) for each in identities[:first])]
    assert [value for _, value in log[first][1:]] == [None] * first
    assert [key for key, _ in log[second - 1]] == [alone(identities[second - 1])]
    assert [key for key, _ in log[second]] == [block, *(alone(each) for each in identities[first + 1 : second])]
    assert read(log).live() == 2


def test_a_block_names_what_its_transactions_named() -> None:
    holder = AbortedRecords(2)
    for n, (topic, index, decided) in enumerate([("a", 0, 30), ("a", 1, 50), ("b", 4, 40)], 1):
        identity = Identity(5, 7, n)
        value = records.encode_aborted(decided, open_record(identity, topic, index, f"g{n}"))
        for key, stored in holder.to_store(identity, value):
            holder.apply(parsed(key), stored)
    ((block, data),) = holder
    assert records.encode_key(block) == "A/5/7/0"
    record = records.decode_block(data)
    assert record is not None
    assert record.decided_ms == 50
    assert record.named == Named({("a", "0a"): ((0, 1),), ("b", "0a"): ((4, 4),)}, frozenset({"g1", "g2", "g3"}))


def test_what_names_too_much_to_be_merged_is_not_read_for_that() -> None:
    """Each abort of a client that writes to thousands of topics would keep the event loop for seconds."""
    partitions = {(f"{number:0200}", f"{number:032x}"): ((0, 0),) for number in range(1000)}
    record = replace(open_record(Identity(5, 7, 1)), partitions=partitions)
    holder = AbortedRecords()
    for n in range(1, 8 * MOST_ALONE + 1):
        holder.apply(AbortedKey(Identity(5, 7, n)), records.encode_aborted(n, record))
    last = Identity(5, 7, 8 * MOST_ALONE + 1)
    value = records.encode_aborted(100, record)
    tracemalloc.start()
    try:
        stored = holder.to_store(last, value)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stored == [(records.aborted_key(last), value)]
    assert most <= 12 * len(value)  # once


def test_an_abort_that_is_stored_already_is_stored_as_before() -> None:
    holder = AbortedRecords(1)
    identity = Identity(5, 7, 1)
    holder.apply(AbortedKey(identity), value_of(identity))
    assert holder.to_store(identity, value_of(identity)) == [("a/5/7/1", value_of(identity))]


def test_deletions_take_away() -> None:
    first, second = Identity(5, 7, 1), Identity(5, 7, 2)
    found, holder = AbortedIdentities(), AbortedRecords(1)

    def apply(key: str, value: bytes | None) -> None:
        found.apply(parsed(key), value)
        holder.apply(parsed(key), value)

    for key, value in [("a/5/7/1", value_of(first)), log_of([first, second], 1)[1][0]]:
        apply(key, value)
    assert [first in found, second in found, found.live()] == [True, True, 2]
    apply("A/5/7/0", b"")
    assert [first in found, second in found, found.live()] == [True, False, 1]
    for _ in range(2):
        apply("a/5/7/1", None)
        assert [first in found, second in found, found.live()] == [False, False, 0]
        assert list(holder) == []


def test_a_value_of_a_later_version_aborts_by_its_key() -> None:
    identity = Identity(5, 7, 1)
    assert identity in read([[("a/5/7/1", LATER)]])


def test_a_block_of_a_later_version_leaves_all_of_it_in_doubt() -> None:
    found = read([[("A/5/7/0", LATER)]])
    assert found.is_in_doubt(Identity(5, 7, 1023))
    assert not found.is_in_doubt(Identity(5, 7, 1024))
    assert not found.is_in_doubt(Identity(5, 7, 0))
    assert found.live() == 1
    found.apply(BlockKey(5, 7, 0), None)
    assert not found.is_in_doubt(Identity(5, 7, 1023))
    assert found.live() == 0


def test_a_later_version_of_a_block_takes_none_away() -> None:
    log = log_of([Identity(5, 7, 1)], 0)
    found = read([*log, [("A/5/7/0", LATER)]])
    assert Identity(5, 7, 1) in found
    assert found.live() == 1
    found.apply(BlockKey(5, 7, 0), log[0][0][1])
    assert not found.is_in_doubt(Identity(5, 7, 2))


def test_what_cannot_be_read_is_not_merged() -> None:
    holder = AbortedRecords(1)
    holder.apply(AbortedKey(Identity(5, 7, 1)), LATER)
    assert list(holder) == [(AbortedKey(Identity(5, 7, 1)), LATER)]
    new = Identity(5, 7, 2)
    assert holder.to_store(new, value_of(new)) == [("a/5/7/2", value_of(new))]
    holder.apply(AbortedKey(Identity(5, 7, 1)), value_of(Identity(5, 7, 1)))
    holder.apply(BlockKey(5, 7, 0), LATER)
    assert holder.to_store(new, value_of(new)) == [("a/5/7/2", value_of(new))]
    assert [records.encode_key(key) for key, _ in holder] == ["a/5/7/1", "A/5/7/0"]
    holder.apply(BlockKey(5, 7, 0), b"")
    assert len(holder.to_store(new, value_of(new))) == 2


def bytes_each(count: int, build: Callable[[], AbortedIdentities]) -> float:
    tracemalloc.start()
    try:
        kept = build()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept.live()
    return used / count


def test_many_alone_take_little_memory() -> None:
    def build() -> AbortedIdentities:
        found = AbortedIdentities()
        value = value_of(Identity(5, 7, 1))
        for number in range(20_000):
            found.apply(AbortedKey(Identity((1 << 40) + number * 1_000_003, 1000, 5000)), value)
        return found

    assert bytes_each(20_000, build) <= 200


def test_what_a_holder_keeps_of_many_alone_takes_little_memory() -> None:
    """All of an application name the same few partitions, and are decided at other times."""
    count = 20_000
    tracemalloc.start()
    try:
        holder = AbortedRecords()
        for number in range(count):
            identity = Identity((1 << 40) + number * 1_000_003, 1000, 5000)
            named = open_record(identity, f"topic-{number % 10}")
            holder.apply(AbortedKey(identity), records.encode_aborted(1_764_000_000_000 + number, named))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / count <= 200
    assert len(list(holder)) == count


def test_going_through_what_a_holder_keeps_takes_the_memory_of_one() -> None:
    """What many name is held once, and would be there for each of them."""
    groups = frozenset(f"{number:01000}" for number in range(100))
    holder = AbortedRecords()
    for n in range(1, 65):
        record = replace(open_record(Identity(5, 7, n)), groups=groups)
        holder.apply(AbortedKey(Identity(5, 7, n)), records.encode_aborted(n, record))
    tracemalloc.start()
    try:
        assert sum(len(value) > 100_000 for _, value in holder) == 64
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * 100_000


@given(values=st.lists(st.binary(max_size=20) | st.builds(value_of, IDENTITIES, st.integers(0, 2**62)), max_size=8))
def test_what_is_kept_comes_back_byte_for_byte(values: list[bytes]) -> None:
    holder = AbortedRecords()
    keys = [AbortedKey(Identity(5, 7, n)) for n in range(1, len(values) + 1)]
    for _ in range(2):
        for key, value in zip(keys, values, strict=True):
            holder.apply(key, value)
    assert [holder.value(key) for key in keys] == [value or None for value in values]
    for key in keys:
        holder.apply(key, None)
    assert list(holder) == []
    assert not holder._names._held


def test_many_of_a_block_take_next_to_none() -> None:
    full = records.encode_block(AbortedRecord(5, Named({}, frozenset()), bytes([255]) * 128))

    def build() -> AbortedIdentities:
        found = AbortedIdentities()
        for block in range(200):
            found.apply(BlockKey(1 << 40, 7, block), full)
        return found

    assert bytes_each(200 * records.BLOCK_SIZE, build) <= 2
