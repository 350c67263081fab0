"""What each member of a group has, of every protocol, as who only looks sees it."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from bridge.groups.consumer.model import ConsumerMember, GroupSnapshot, TopicFacts, View
from bridge.groups.streams.model import StreamsMember, Subtopology, Task, Tasks, Topology
from bridge.groups.streams.snapshot import StreamsSnapshot
from bridge.groups.summary import Assigned, LoadedGroups
from bridge.kafka import consumer_protocol
from tests.groups.classic.machine import Machine

ID = UUID(int=7)


class Loaded:
    """A group in memory, as far as it is looked at."""

    def __init__(self, stored: Any = None, group: Any = None) -> None:
        self.stored, self.group = stored, group


def loaded(classic: Any = None, **with_epochs: Any) -> LoadedGroups:
    """With one group of one protocol, `g`."""
    of = {protocol: {"g": cast(Any, Loaded(stored))} for protocol, stored in with_epochs.items()}
    return LoadedGroups({} if classic is None else {"g": cast(Any, Loaded(group=classic))}, of)


def test_of_the_classic_protocol_what_their_leader_gave_them() -> None:
    machine = Machine()
    first, second = machine.formed(2)
    machine.group.protocol_type = consumer_protocol.TYPE
    by_id = {one.id: one for one in machine.group.members}
    machine.group.members.assign(by_id[first], consumer_protocol.write_assignment({"b": [0], "a": [2, 1]}, 3))
    machine.group.members.assign(by_id[second], b"\xff")  # clients write what they like
    found = loaded(machine.group).assigned("g")
    assert found == {first: Assigned((("a", 1), ("a", 2), ("b", 0)))}
    machine.group.protocol_type = "connect"
    assert loaded(machine.group).assigned("g") == {}


def test_of_the_new_protocol_and_of_share_groups_by_the_topics_names() -> None:
    member = ConsumerMember("m", assigned={ID: frozenset({1, 0}), UUID(int=8): frozenset({0})})
    snapshot = GroupSnapshot(members={"m": member}, view=View({"orders": TopicFacts(ID, 2)}))
    for protocol in ("consumer", "share"):
        assert loaded(**{protocol: snapshot}).assigned("g") == {"m": Assigned((("orders", 0), ("orders", 1)))}


def test_of_streams_groups_the_partitions_of_their_tasks_and_what_they_stand_by_for() -> None:
    tasks = Tasks(frozenset({Task("0", 1)}), frozenset({Task("0", 0)}), frozenset({Task("1", 0)}))
    topology = Topology(1, (Subtopology("0", ("left", "right")),))
    topics = {"left": TopicFacts(ID, 2), "right": TopicFacts(UUID(int=8), 1)}
    snapshot = StreamsSnapshot(members={"m": StreamsMember("m", assigned=tasks)}, topology=topology, topics=topics)
    assert loaded(streams=snapshot).assigned("g") == {"m": Assigned((("left", 1),), ("0_0", "1_0"))}


def test_of_a_group_that_is_not_in_memory_nothing() -> None:
    assert loaded().assigned("g") == {}
