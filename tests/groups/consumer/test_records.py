"""Groups of the new consumer protocol as bytes; what any history stores is what is read back."""

import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bridge.groups.classic.records import GroupRecord, encode
from bridge.groups.consumer.model import ConsumerMember, GroupSnapshot, MemberState, Pattern, TopicFacts, View
from bridge.groups.epochs.records import CONSUMER, encode_member
from bridge.groups.store.records import BadRecord, Key, StoredGroup
from tests.groups.consumer.machine import ConsumerMachine
from tests.support.effort import examples

T = uuid.UUID(int=7)
MEMBER = ConsumerMember(
    "m/é", "i", "r", "client", "/127.0.0.1", 300_000, frozenset({"b", "a"}), "x.*", "range", 5, 4,
    MemberState.UNREVOKED, {T: frozenset({1, 0})}, {T: frozenset({2})},
)  # fmt: skip
GROUP = GroupSnapshot(
    6,
    5,
    {MEMBER.id: MEMBER},
    View({"a": TopicFacts(T, 3)}, {Pattern("x.*"): frozenset({"xa"})}),
    {MEMBER.id: {T: frozenset({1})}},
)


def _store(stored: StoredGroup, records: Mapping[Key, bytes | None]) -> StoredGroup:
    for key, value in records.items():
        if key[0] == "group":
            stored.metadata = value
        elif key[0] == "member" and value is not None:
            stored.members[key[2]] = value
        else:
            del stored.members[str(key[2])]
    return stored


def test_a_group_comes_back() -> None:
    stored = _store(StoredGroup(), CONSUMER.changes("g", GroupSnapshot(), GROUP, 77))
    assert CONSUMER.is_one(stored.metadata)
    assert CONSUMER.decode(stored) == (GROUP, 77)


def test_what_is_stored_stays_readable() -> None:
    """Topics written by earlier versions must be read: these bytes are forever."""
    assert CONSUMER.encode_group(GROUP, 77) == (
        b'{"v":2,"epoch":6,"assignment":5,"since":77,"topics":{"a":["00000000000000000000000000000007",3]},'
        b'"resolved":{"x.*":["xa"]}}'
    )
    assert encode_member(MEMBER, {}) == (
        b'{"v":1,"instance":"i","rack":"r","client":"client","host":"/127.0.0.1","rebalance":300000,'
        b'"topics":["a","b"],"regex":"x.*","assignor":"range","epoch":5,"previous":4,"state":2,'
        b'"assigned":{"00000000000000000000000000000007":[0,1]},'
        b'"revoking":{"00000000000000000000000000000007":[2]},"target":{}}'
    )


def test_what_a_pattern_fits_for_some_clients_comes_back() -> None:
    view = View({"a": TopicFacts(T, 3)}, {Pattern("x.*", "User:a"): frozenset({"xa"}), **GROUP.view.resolved})
    member = replace(MEMBER, viewer="User:a")
    group = replace(GROUP, view=view, members={member.id: member})
    stored = _store(StoredGroup(), CONSUMER.changes("g", GroupSnapshot(), group, 77))
    assert CONSUMER.decode(stored) == (group, 77)


def test_only_what_changes_is_written() -> None:
    machine = ConsumerMachine(t=2)
    machine.join("m")
    machine.join("n")
    before = machine.group.snapshot
    machine.silent("m")
    assert list(CONSUMER.changes("g", before, machine.group.snapshot, 0)) == [("member", "g", "m")]
    assert CONSUMER.changes("g", before, before, 0) == {}


@pytest.mark.parametrize(
    ("metadata", "member"),
    [
        (b"", None),
        (b'{"v":2,"epoch":1}', None),
        (b'{"v":3}', None),
        (CONSUMER.encode_group(GROUP, 0), b"?"),
        (CONSUMER.encode_group(GROUP, 0), b'{"v":2}'),
        (CONSUMER.encode_group(GROUP, 0), b'{"v":1}'),
    ],
)
def test_other_bytes_are_refused(metadata: bytes, member: bytes | None) -> None:
    with pytest.raises(BadRecord):
        CONSUMER.decode(StoredGroup(metadata, members={} if member is None else {"m": member}))


def test_a_classic_group_is_none() -> None:
    assert not CONSUMER.is_one(encode(GroupRecord(1, "consumer")))
    assert not CONSUMER.is_one(None)


def test_members_that_would_share_a_partition_begin_again() -> None:
    """Written in two entries, of which only one was stored."""
    stored = _store(StoredGroup(), CONSUMER.changes("g", GroupSnapshot(), GROUP, 0))
    stored.members["n"] = encode_member(ConsumerMember("n", assigned={T: frozenset({2})}), {})
    stored.members["o"] = encode_member(ConsumerMember("o", assigned={T: frozenset({9})}), {})
    group, _ = CONSUMER.decode(stored)
    assert (list(group.members), group.epoch) == (["o"], 7)


def test_targets_that_overlap_are_made_again() -> None:
    stored = _store(StoredGroup(), CONSUMER.changes("g", GroupSnapshot(), GROUP, 0))
    stored.members["n"] = encode_member(ConsumerMember("n"), {T: frozenset({1})})
    group, _ = CONSUMER.decode(stored)
    assert (len(group.members), group.epoch) == (2, 7)


class Histories(RuleBasedStateMachine):
    """Members come, go, are lost and come back, topics change, the bridge restarts: no partition is shared."""

    names = st.sampled_from("mnop")

    def __init__(self) -> None:
        super().__init__()
        self.machine = ConsumerMachine(t=5, u=2)
        self.kept = GroupSnapshot()
        self.stored = StoredGroup()

    def _here(self, name: str) -> bool:
        return name in self.machine.group.snapshot.members and name in self.machine.epochs

    @rule(
        name=names, topics=st.sampled_from(["t", "u", "tu", ""]), assignor=st.sampled_from([None, "range", "uniform"])
    )
    def join(self, name: str, topics: str, assignor: str | None) -> None:
        self.machine.owned[name] = {}
        self.machine.join(name, topics, assignor=assignor)

    @rule(name=names)
    def beat(self, name: str) -> None:
        if self._here(name):
            self.machine.beat(name)

    @rule(name=names)
    def silent(self, name: str) -> None:
        if self._here(name):
            self.machine.silent(name)

    @rule(name=names)
    def leave(self, name: str) -> None:
        if self._here(name):
            self.machine.leave(name)
            self.machine.owned.pop(name)

    @rule(name=names)
    def change(self, name: str) -> None:
        if self._here(name):
            self.machine.beat(name, topics=frozenset("tu"))

    @rule(topic=st.sampled_from("tu"))
    def grow(self, topic: str) -> None:
        self.machine.topics.here[topic].partitions += 1

    @rule()
    @precondition(lambda self: self.machine.group.snapshot.members)
    def time_out(self) -> None:
        self.machine.now = self.machine.group.deadline()
        for name in self.machine.group.expire(self.machine.now):
            self.machine.owned.pop(name, None)

    @rule()
    def restart(self) -> None:
        self.keep()
        snapshot, _ = CONSUMER.decode(self.stored) if self.kept.epoch else (GroupSnapshot(), 0)
        assert snapshot.members == self.kept.members
        assert CONSUMER.changes("g", snapshot, self.kept, 0) == {}
        self.machine.restarted()

    def keep(self) -> None:
        after = self.machine.group.snapshot
        _store(self.stored, CONSUMER.changes("g", self.kept, after, 0))
        self.kept = after

    @invariant()
    def no_client_shares_a_partition(self) -> None:
        self.keep()
        members = self.machine.group.snapshot.members.values()
        held = [
            (t, p) for one in members for part in (one.assigned, one.revoking) for t, ps in part.items() for p in ps
        ]
        assert len(held) == len(set(held))

    @invariant()
    def a_settled_group_has_everything(self) -> None:
        snapshot = self.machine.group.snapshot
        assert snapshot.targets.keys() <= snapshot.members.keys()
        if snapshot.state.value == "Stable":
            for name, member in snapshot.members.items():
                assert member.assigned == snapshot.targets.get(name, {})

    def teardown(self) -> None:
        for _ in range(30):
            for name in list(self.machine.group.snapshot.members):
                self.machine.beat(name)
        assert self.machine.state.value in ("Stable", "Empty")


Histories.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestHistories = Histories.TestCase
