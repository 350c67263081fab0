"""Random histories of a share group: members join, leave, crash, answers are lost, topics change, bridges restart."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bridge.groups.epochs.records import SHARE
from bridge.groups.store.records import StoredGroup
from tests.groups.fake_topics import FakeTopic
from tests.groups.share.machine import SESSION, ShareMachine

NAMES = st.sampled_from("mnopqr")
TOPICS = st.sets(st.sampled_from("tuv"), min_size=1).map("".join)


class Histories(RuleBasedStateMachine):
    """One group and its members."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = ShareMachine(t=3, u=1)
        self.highest = (0, 0)
        self.member_epochs: dict[str, int] = {}

    @rule(name=NAMES, topics=TOPICS)
    def joins(self, name: str, topics: str) -> None:
        self.machine.join(name, topics)

    @precondition(lambda self: self.machine.epochs)
    @rule(data=st.data(), look=st.booleans())
    def beats(self, data: st.DataObject, look: bool) -> None:
        self.machine.beat(data.draw(st.sampled_from(sorted(self.machine.epochs))), look)

    @precondition(lambda self: self.machine.epochs)
    @rule(data=st.data())
    def loses_an_answer(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.machine.epochs)))
        if self.machine.group.snapshot.members[name].epoch == self.machine.epochs[name]:  # a second one would fence it
            self.machine.send(name, self.machine.epochs[name])

    @precondition(lambda self: self.machine.epochs)
    @rule(data=st.data(), topics=TOPICS)
    def subscribes_anew(self, data: st.DataObject, topics: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.machine.epochs)))
        self.machine.beat(name, topics=frozenset(topics))

    @precondition(lambda self: self.machine.epochs)
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.machine.epochs)))
        self.machine.leave(name)
        self.member_epochs.pop(name, None)

    @precondition(lambda self: self.machine.epochs)
    @rule(data=st.data())
    def crashes(self, data: st.DataObject) -> None:
        """Its session is over; the others send heartbeats in time."""
        name = data.draw(st.sampled_from(sorted(self.machine.epochs)))
        machine = self.machine
        del machine.epochs[name], machine.has[name]
        self.member_epochs.pop(name, None)
        for _ in range(2):
            machine.now += SESSION / 2
            for other in machine.epochs:
                machine.beat(other)
        gone = machine.group.expire(machine.now)
        assert gone.keys() <= {name}
        assert machine.group.snapshot.members.keys() == machine.epochs.keys()

    @rule(name=st.sampled_from("tuv"), partitions=st.integers(0, 6))
    def a_topic_changes(self, name: str, partitions: int) -> None:
        if not partitions:
            self.machine.topics.here.pop(name, None)
        elif name in self.machine.topics.here:
            topic = self.machine.topics.here[name]
            topic.partitions = max(topic.partitions, partitions)
        else:
            self.machine.topics.here[name] = FakeTopic(partitions)

    @rule()
    def the_bridge_restarts(self) -> None:
        snapshot, stored = self.machine.group.snapshot, StoredGroup()
        for key, value in SHARE.changes("g", SHARE.snapshot(), snapshot, 7).items():
            if key[0] == "group":
                stored.metadata = value
            elif value is not None:
                stored.members[key[2]] = value
        if stored.metadata is not None:
            found, _ = SHARE.decode(stored)
            assert (found.members, found.targets) == (snapshot.members, snapshot.targets)
            self.machine.group.snapshot = found
        self.machine.restarted()

    @rule()
    def all_send_heartbeats(self) -> None:
        """Then every partition is assigned, members have what they should, and epochs are one."""
        machine = self.machine
        for _ in range(2):
            for name in sorted(machine.epochs):
                machine.beat(name)
        snapshot = machine.group.snapshot
        assert {one.epoch for one in snapshot.members.values()} <= {snapshot.epoch}
        wanted = {topic for one in snapshot.members.values() for topic in one.topics}
        places = {
            (topic.id, number)
            for name, topic in machine.topics.here.items()
            if name in wanted
            for number in range(topic.partitions)
        }
        has = {(topic, one) for parts in machine.has.values() for topic, numbers in parts.items() for one in numbers}
        assert has == places
        for name, member in snapshot.members.items():
            assert machine.has[name] == member.assigned == snapshot.targets[name]
            there = [topic for topic in member.topics if topic in machine.topics.here]
            assert bool(member.assigned) == bool(there)

    @invariant()
    def no_epoch_goes_back(self) -> None:
        snapshot = self.machine.group.snapshot
        assert snapshot.assignment_epoch <= snapshot.epoch
        assert (snapshot.epoch, snapshot.assignment_epoch) >= self.highest
        self.highest = snapshot.epoch, snapshot.assignment_epoch
        for name, epoch in self.machine.epochs.items():
            assert epoch >= self.member_epochs.get(name, 0)
        self.member_epochs = dict(self.machine.epochs)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
