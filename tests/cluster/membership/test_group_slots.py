"""Which group slots a node is to hold, view by view."""

from bridge.cluster.membership.group_slots import GroupAssignment, GroupSlots
from bridge.cluster.membership.view import NO_NODE, ClusterView, NodeRegistration

A, B, C = 0, 1, 2


def view(groups: tuple[int, ...], **incarnations: int) -> ClusterView:
    members = {
        id_: NodeRegistration(name, incarnation, id_)
        for id_, (name, incarnation) in zip((A, B, C), incarnations.items(), strict=False)
    }
    return ClusterView(1, A, members, {}, (), (), groups)


def given(assignment: GroupAssignment) -> tuple[set[int], set[int]]:
    return set(assignment.slots), set(assignment.orphaned)


def test_a_node_that_starts_holds_what_an_earlier_life_of_it_may_still_have() -> None:
    assert given(GroupSlots().update(view((A, A), a=1), A)) == ({0, 1}, {0, 1})


def test_a_slot_of_a_living_member_is_waited_for() -> None:
    slots = GroupSlots()
    assert given(slots.update(view((A, A, A), a=1), B)) == (set(), set())
    assert given(slots.update(view((A, B, B), a=1, b=1), B)) == ({1, 2}, set())
    assert given(slots.update(view((A, B, B), a=1, b=1), B)) == ({1, 2}, set())


def test_a_former_owner_that_dies_while_it_holds_a_slot_leaves_an_orphan() -> None:
    slots = GroupSlots()
    slots.update(view((A, A), a=1, b=1), B)
    assert given(slots.update(view((A, B), a=1, b=1), B)) == ({1}, set())
    gone = ClusterView(3, B, {B: NodeRegistration("b", 1, B)}, {}, (), (), (B, B))
    assert given(slots.update(gone, B)) == ({0, 1}, {0, 1})


def test_a_former_owner_that_comes_back_as_another_life_leaves_an_orphan() -> None:
    slots = GroupSlots()
    slots.update(view((A, A), a=1, b=1), B)
    slots.update(view((A, B), a=1, b=1), B)
    assert given(slots.update(view((A, B), a=2, b=1), B)) == ({1}, {1})


def test_a_slot_that_comes_back_has_the_last_owner_for_its_former_one() -> None:
    slots = GroupSlots()
    slots.update(view((B,), a=1, b=1), B)
    assert given(slots.update(view((A,), a=1, b=1), B)) == (set(), set())
    assert given(slots.update(view((B,), a=1, b=1), B)) == ({0}, set())


def test_a_node_that_is_no_member_holds_nothing() -> None:
    slots = GroupSlots()
    slots.update(view((A,), a=1), A)
    assert given(slots.update(view((B,), a=1, b=1), NO_NODE)) == (set(), set())
    assert given(slots.update(view((-1, -1)[:1], a=1), NO_NODE)) == (set(), set())


def test_a_slot_that_no_node_ever_had_is_free() -> None:
    slots = GroupSlots()
    slots.update(view((-1,), a=1), B)
    assert given(slots.update(view((B,), a=1, b=1), B)) == ({0}, {0})
