"""What is read of `__consumer_offsets`: every record that KoP writes, and none of what it does not."""

from __future__ import annotations

import struct

import pytest

from bridge.cli.kop.records import Commit, KopOffsets, NotKops, Place, decode_record, group_partition
from bridge.codec import Record
from bridge.errors import BridgeError
from tests.cli.kop.kop_log import (
    NEVER,
    Sent,
    batch,
    commit,
    commit_key,
    commit_value,
    ended,
    forgotten_group,
    java_partition,
    metadata_of,
    text,
)

TOPIC = "persistent://public/default/orders"
AT = 1_700_000_000_000


def fold(*sent: Sent, partition: int | None = None) -> KopOffsets:
    found = KopOffsets(50)
    for key, value in sent:
        found.fold(java_partition("g") if partition is None else partition, Record(0, 0, key, value, ()))
    return found


def last(*sent: Sent) -> dict[int, int]:
    return {place.partition: one.offset for place, one in fold(*sent).commits.items()}


@pytest.mark.parametrize(
    ("group", "code"),
    [
        ("", 0),
        ("abc", 96354),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),
        ("😀", 0xD83D * 31 + 0xDE00),
        ("größe", 98762257),
    ],
)
def test_a_group_is_in_the_partition_that_java_says(group: str, code: int) -> None:
    for partitions in (1, 7, 50):
        assert group_partition(group, partitions) == code % partitions


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        (commit_key("g", TOPIC, 3), commit_value(42, "m", AT, AT + 5), Commit(42, "m", AT, AT + 5)),
        (commit_key("g", TOPIC, 3, 0), commit_value(42, "m", AT, AT + 5), Commit(42, "m", AT, AT + 5)),
        (commit_key("g", TOPIC, 3), struct.pack(">hqhq", 0, 42, 0, AT), Commit(42, "", AT, -1)),
        (commit_key("g", TOPIC, 3), commit_value(42, "größe", AT, -7), Commit(42, "größe", AT, -1)),
        (commit_key("g", TOPIC, 3), None, None),
    ],
)  # fmt: skip
def test_a_commit(key: bytes, value: bytes | None, found: Commit | None) -> None:
    assert decode_record(Record(0, 0, key, value, ())) == (Place("g", TOPIC, 3), found)


def test_a_record_of_a_group_is_no_commit() -> None:
    assert decode_record(Record(0, 0, b"\0\2" + text("g"), b"any", ())) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\0", b""),
        (b"\0\3" + text("g"), b""),
        (b"\xff\xff" + text("g"), b""),
        (commit_key("", TOPIC, 3), commit_value(1)),
        (commit_key("g", TOPIC, -1), commit_value(1)),
        (commit_key("g", TOPIC, 3)[:-1], commit_value(1)),
        (commit_key("g", TOPIC, 3) + b"\0", commit_value(1)),
        (b"\0\1\x7f\xffg", commit_value(1)),
        (commit_key("g", TOPIC, 3), b""),
        (commit_key("g", TOPIC, 3), commit_value(1)[:-1]),
        (commit_key("g", TOPIC, 3), commit_value(1) + b"\0"),
        (commit_key("g", TOPIC, 3), commit_value(-1)),
        (commit_key("g", TOPIC, 3), b"\0\2" + commit_value(1)[2:]),
        (commit_key("g", TOPIC, 3), b"\0\1" + bytes(8) + b"\xff\xff" + bytes(16)),
    ],
)
def test_what_kop_does_not_write_is_refused(key: bytes | None, value: bytes) -> None:
    with pytest.raises(BridgeError):
        decode_record(Record(0, 0, key, value, ()))
    if key is not None:
        good = commit("g", TOPIC, {0: 7})
        found = fold((b"k", batch([(key, value), (commit_key("g", TOPIC, 1), commit_value(8))])), good)
        assert {place.partition: one.offset for place, one in found.commits.items()} == {0: 7, 1: 8}
        assert found.counts["unreadable"] == 1


def test_refusals_say_so() -> None:
    with pytest.raises(NotKops, match="offset -5"):
        decode_record(Record(0, 0, commit_key("g", TOPIC, 0), commit_value(-5), ()))


def test_the_last_in_the_log_counts_whatever_its_time_and_offset() -> None:
    late = commit_key("g", "", -1), batch([(commit_key("g", TOPIC, 0), commit_value(9, at=AT + 10))])
    early = commit_key("g", "", -1), batch([(commit_key("g", TOPIC, 0), commit_value(4, at=AT))])
    assert last(late, early) == {0: 4}
    assert last(early, late) == {0: 9}


def test_a_commit_of_some_partitions_leaves_the_others() -> None:
    assert last(commit("g", TOPIC, {0: 1, 1: 1, 2: 1}), commit("g", TOPIC, {1: 5})) == {0: 1, 1: 5, 2: 1}


def test_what_was_forgotten_is_gone_until_it_is_committed_again() -> None:
    first, gone, again = commit("g", TOPIC, {0: 1, 1: 1}), commit("g", TOPIC, {0: None}), commit("g", TOPIC, {0: 3})
    assert last(first, gone) == {1: 1}
    assert last(first, gone, again) == {0: 3, 1: 1}
    assert last(gone) == {}


def test_records_of_groups_and_empty_messages_lie_between() -> None:
    found = fold(
        metadata_of("g"), commit("g", TOPIC, {0: 1}, "text"), (None, b"placeholder"), (b"k", b""), forgotten_group("g")
    )
    assert found.commits == {Place("g", TOPIC, 0): Commit(1, "text", AT, NEVER)}
    assert found.counts == {"groups": 2, "commits": 1, "empty": 2}


@pytest.mark.parametrize(
    "garbage",
    [
        b"x",
        bytes(200),
        commit("g", TOPIC, {0: 99})[1][:-1],
        commit("g", TOPIC, {0: 99})[1] + b"x",
        commit("g", TOPIC, {0: 99})[1][:-1] + b"\xff",
        commit("g", TOPIC, {0: 99})[1][:8] + b"\x7f\xff\xff\xff" + commit("g", TOPIC, {0: 99})[1][12:],
        commit("g", TOPIC, {0: 99})[1][:16] + b"\1" + commit("g", TOPIC, {0: 99})[1][17:],
    ],
)
def test_garbage_is_passed_over_and_counted(garbage: bytes) -> None:
    found = fold(commit("g", TOPIC, {0: 1}), (b"key", garbage), commit("g", TOPIC, {1: 2}))
    assert {place.partition: one.offset for place, one in found.commits.items()} == {0: 1, 1: 2}
    assert found.counts["unreadable"] == 1


def test_a_group_counts_in_its_own_partition_alone() -> None:
    found = fold(commit("g", TOPIC, {0: 1}), partition=java_partition("g") + 1)
    assert not found.commits
    assert found.counts == {"misplaced": 1}


def test_what_a_transaction_commits_counts_once_it_is_committed() -> None:
    plain, sent = commit("g", TOPIC, {0: 1, 1: 1}), commit("g", TOPIC, {0: 5, 2: 5}, producer=9)
    other = commit("g", TOPIC, {0: 7}, producer=10)
    assert last(plain, sent) == {0: 1, 1: 1}
    assert {place.partition for place in fold(plain, sent).undecided} == {0, 2}
    assert last(plain, sent, ended("g", 9, committed=True)) == {0: 5, 1: 1, 2: 5}
    assert last(plain, sent, other, ended("g", 9, committed=False)) == {0: 1, 1: 1}
    assert last(plain, sent, other, ended("g", 10, committed=True)) == {0: 7, 1: 1}
    assert not fold(sent, ended("g", 9, committed=True)).undecided
