"""Tasks by role, and topologies as values."""

import pytest

from bridge.groups.consumer.model import MemberState
from bridge.groups.streams.model import NO_TASKS, StreamsMember, Subtopology, TopicInfo, Topology
from tests.groups.streams.tasks import roles, tasks

MIXED = roles("0_0 0_1", "1_0", "2_0")


def test_tasks_are_joined_and_parted_role_by_role() -> None:
    other = roles("0_1 1_0", "1_0 1_1", "0_0")
    assert MIXED | other == roles("0_0 0_1 1_0", "1_0 1_1", "0_0 2_0")
    assert MIXED & other == roles("0_1", "1_0")
    assert MIXED - other == roles("0_0", "", "2_0")
    assert MIXED.all == tasks("0_0 0_1 1_0 2_0")


@pytest.mark.parametrize("role", ["active", "standby", "warmup"])
def test_what_is_in_another_role_is_not_the_same(role: str) -> None:
    one = roles(**{role: "0_0"})
    for other_role in ("active", "standby", "warmup"):
        other = roles(**{other_role: "0_0 0_1"})
        assert one.within(other) == one.overlaps(other) == other.overlaps(one) == (role == other_role)
        assert not other.within(one)
    assert not one.is_empty
    assert NO_TASKS.is_empty and NO_TASKS.within(one) and not one.overlaps(NO_TASKS)


def test_topologies_are_the_same_whatever_the_order_of_their_subtopologies() -> None:
    first, second = Subtopology("0", ("a", "b")), Subtopology("1", ("c",))
    topology = Topology(3, (first, second))
    assert topology.same(Topology(3, (second, first)))
    assert not topology.same(Topology(4, (first, second)))
    assert not topology.same(Topology(3, (first,)))
    assert not topology.same(Topology(3, (first._replace(source_topics=("b", "a")), second)))


def test_the_topics_that_a_topology_reads_and_needs() -> None:
    writer = Subtopology("0", ("a",), repartition_sinks=("r",), changelogs=(TopicInfo("log"),))
    reader = Subtopology("1", repartition_sources=(TopicInfo("r"),))
    topology = Topology(0, (writer, reader))
    assert reader.sources == ("r",)
    assert topology.required == {"a", "r", "log"}
    assert topology.reader == {"a": "0", "r": "1"}


@pytest.mark.parametrize("state", MemberState)
@pytest.mark.parametrize("epoch", [6, 7, 8])
def test_a_member_has_its_target_when_it_is_stable_at_its_epoch(state: MemberState, epoch: int) -> None:
    member = StreamsMember("m", state=state, epoch=7)
    assert member.reconciled(epoch) == (state is MemberState.STABLE and epoch == 7)
