"""Streams groups in bytes: they come back, the bytes stay readable, what cannot be is refused."""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from bridge.groups.consumer.model import MemberState, TopicFacts
from bridge.groups.store.records import BadRecord, StoredGroup
from bridge.groups.streams.model import (
    CopartitionGroup,
    Endpoint,
    StreamsMember,
    Subtopology,
    Task,
    Tasks,
    TopicInfo,
    Topology,
)
from bridge.groups.streams.records import STREAMS, encode_group, encode_member
from bridge.groups.streams.snapshot import StreamsSnapshot
from tests.groups.streams.group_machine import GroupMachine, tasks

T = uuid.UUID(int=7)
TARGET = tasks("0_0", "0_1", standby="0_3")
MEMBER = StreamsMember(
    "m/é", "p", "r", "client", "/127.0.0.1", 300_000, 1, Endpoint("host", 65_535), {"zone": "a"}, 5, 4,
    MemberState.UNREVOKED, tasks("0_0", standby="0_2"), tasks("0_1"), {Task("0", 0): 3, Task("0", 1): 2},
)  # fmt: skip
PART = Subtopology(
    "0", ("in",), (), ("by-key",), (TopicInfo("log", 0, 1, (("cleanup.policy", "compact"),)),),
    (TopicInfo("by-key", 3),), (CopartitionGroup((0,), (), (0,)),),
)  # fmt: skip
GROUP = StreamsSnapshot(
    6, 5, {MEMBER.id: MEMBER}, {MEMBER.id: TARGET}, Topology(1, (PART,)), {"in": TopicFacts(T, 3)}, -1, 1
)  # fmt: skip
GROUP_BYTES = (
    b'{"v":4,"epoch":6,"assignment":5,"since":77,"topology":{"epoch":1,"parts":[["0",["in"],[],["by-key"],'
    b'[["log",0,1,[["cleanup.policy","compact"]]]],[["by-key",3,0,[]]],[[[0],[],[0]]]]]},'
    b'"topics":{"in":["00000000000000000000000000000007",3]},"ready":-1,"standby":1}'
)
MEMBER_BYTES = (
    b'{"v":1,"process":"p","rack":"r","client":"client","host":"/127.0.0.1","rebalance":300000,"topology":1,'
    b'"endpoint":["host",65535],"tags":{"zone":"a"},"epoch":5,"previous":4,"state":2,'
    b'"assigned":[{"0":[0]},{"0":[2]},{}],"revoking":[{"0":[1]},{},{}],"target":[{"0":[0,1]},{"0":[3]},{}],'
    b'"given":{"0":[[0,3],[1,2]]}}'
)


def stored_of(group: StreamsSnapshot) -> StoredGroup:
    """As the store has it."""
    stored = StoredGroup()
    for key, value in STREAMS.changes("g", StreamsSnapshot(), group, 77).items():
        if key[0] == "group":
            stored.metadata = value
        elif value is not None:
            stored.members[str(key[2])] = value
    return stored


def test_a_group_comes_back() -> None:
    stored = stored_of(GROUP)
    assert STREAMS.is_one(stored.metadata)
    assert STREAMS.decode(stored) == (GROUP, 77)


def test_what_is_stored_stays_readable() -> None:
    """Topics written by earlier versions must be read: these bytes are forever."""
    assert encode_group(GROUP, 77) == GROUP_BYTES
    assert encode_member(MEMBER, TARGET) == MEMBER_BYTES
    assert STREAMS.decode(StoredGroup(GROUP_BYTES, members={MEMBER.id: MEMBER_BYTES})) == (GROUP, 77)


def test_a_record_has_a_subtopology_s_id_a_few_times_however_many_tasks_it_has() -> None:
    name = "s" * 249
    active = frozenset(Task(name, number) for number in range(1000))
    member = StreamsMember("m", assigned=Tasks(active), since=dict.fromkeys(active, 1))
    written = encode_member(member, member.assigned)
    assert written.count(name.encode()) == 3
    assert STREAMS.decode(StoredGroup(GROUP_BYTES, members={"m": written}))[0].members["m"] == member


def test_only_what_changes_is_written() -> None:
    machine = GroupMachine()
    machine.join("m")
    machine.now += 1
    machine.join("n")
    before = machine.group.snapshot
    machine.beat("m")
    assert list(STREAMS.changes("g", before, machine.group.snapshot, 0)) == [("member", "g", "m")]
    assert STREAMS.changes("g", before, before, 0) == {}
    after = machine.group.snapshot
    machine.leave("m")
    gone = STREAMS.changes("g", after, machine.group.snapshot, 0)
    assert (list(gone), gone["member", "g", "m"]) == ([("group", "g"), ("member", "g", "m")], None)
    assert STREAMS.record(("member", "g", "m"), machine.group.snapshot, 0) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"v":4', b'"v":5'),
        (b'"in":["0', b'"in":["x'),
        (b'"parts":[[', b'"parts":[[1,'),
        (b'[[0],[],[0]]', b'[[0],[0]]'),
        (b'[[0],[],[0]]', b'[[1],[],[0]]'),  # no such topic
        (b'"log",0', b'"log",4'),  # a changelog has no number
        (b'"epoch":6', b'"epoch":6.5'),
    ],
)  # fmt: skip
def test_other_bytes_of_a_group_are_refused(old: bytes, new: bytes) -> None:
    assert old in GROUP_BYTES
    with pytest.raises(BadRecord):
        STREAMS.decode(StoredGroup(GROUP_BYTES.replace(old, new)))


@pytest.mark.parametrize(
    "member", [b"?", b'{"v":2}', b'{"v":1}', MEMBER_BYTES.replace(b"[{}", b"["), MEMBER_BYTES.replace(b'"m', b"1")]
)
def test_other_bytes_of_a_member_are_refused(member: bytes) -> None:
    changed = member.replace(b'{},{}]', b'{}]') if member == MEMBER_BYTES else member  # fmt: skip
    with pytest.raises(BadRecord):
        STREAMS.decode(StoredGroup(GROUP_BYTES, members={"m": changed}))


def test_groups_of_other_types_are_none() -> None:
    for version in (1, 2, 3):
        assert not STREAMS.is_one(b'{"v":%d,"epoch":1}' % version)
    assert not STREAMS.is_one(None)


@pytest.mark.parametrize(
    ("other", "target", "left"),
    [
        ({"assigned": tasks("0_1")}, tasks(), ["o"]),  # what `m` gives back
        ({}, tasks("0_0"), [MEMBER.id, "n", "o"]),  # overlapping targets are made again
    ],
)
def test_members_that_would_share_a_task_begin_again(other: dict[str, Any], target: Any, left: list[str]) -> None:
    """Written in two entries, of which only one was stored."""
    stored = stored_of(GROUP)
    stored.members["n"] = encode_member(StreamsMember("n", **other), target)
    stored.members["o"] = encode_member(StreamsMember("o", assigned=tasks("0_9", standby="0_0")), tasks())
    group, _ = STREAMS.decode(stored)
    assert (list(group.members), group.epoch) == (left, 7)
    again = stored_of(replace(GROUP, members={"o": StreamsMember("o")}, targets={"o": tasks("0_0")}))
    assert STREAMS.decode(again)[0].epoch == 6
