"""Share groups, heartbeat by heartbeat."""

import pytest

from bridge.groups.consumer.model import ConsumerGroupState
from bridge.kafka.error_codes import ErrorCode
from tests.groups.fake_topics import FakeTopic
from tests.groups.share.machine import SESSION, ShareMachine


def test_the_first_member_gets_all() -> None:
    machine = ShareMachine(t=3)
    assert machine.group.state is ConsumerGroupState.EMPTY
    assert (machine.join("m").epoch, machine.partitions("m")) == (1, {"t": [0, 1, 2]})
    assert (machine.group.state, machine.beat("m").assignment) == (ConsumerGroupState.STABLE, None)


def test_nobody_waits_for_what_another_has() -> None:
    machine = ShareMachine(t=4)
    machine.join("m")
    assert (machine.join("n").epoch, machine.partitions("n")) == (2, {"t": [2, 3]})
    assert machine.partitions("m") == {"t": [0, 1, 2, 3]}
    assert machine.group.state is ConsumerGroupState.STABLE
    assert (machine.beat("m", look=False).epoch, machine.partitions("m")) == (2, {"t": [0, 1]})


def test_more_members_than_partitions_share_one() -> None:
    machine = ShareMachine(t=1)
    for name in "mno":
        assert machine.join(name).assignment
    for name in "mno":
        machine.beat(name)
        assert machine.partitions(name) == {"t": [0]}


def test_what_a_member_leaves_goes_to_the_others_with_their_next_heartbeat() -> None:
    machine = ShareMachine(t=4)
    machine.join("m")
    machine.join("n")
    machine.beat("m")
    assert machine.leave("n").epoch == -1
    assert (machine.beat("m", look=False).epoch, machine.partitions("m")) == (3, {"t": [0, 1, 2, 3]})
    machine.leave("m")
    assert machine.group.state is ConsumerGroupState.EMPTY


def test_members_that_join_together_are_one_change() -> None:
    machine = ShareMachine(t=4, interval=1.0)
    assert (machine.join("m").wait, machine.partitions("m")) == (0.0, {"t": [0, 1, 2, 3]})
    machine.now += 0.25
    assert [(one.epoch, one.wait) for one in map(machine.join, "nop")] == [(1, 0.75)] * 3
    assert machine.partitions("p") == {}
    assert (machine.beat("m").assignment, machine.beat("m").wait) == (None, 0.75)
    machine.now += 0.75
    told = {name: (machine.beat(name, look=False).wait, machine.partitions(name)["t"]) for name in "mnop"}
    assert sorted(told.values()) == [(0.0, [number]) for number in range(4)]
    assert machine.epochs == dict.fromkeys("mnop", 4)


def test_what_a_member_leaves_waits_for_the_interval_as_well() -> None:
    machine = ShareMachine(t=2, interval=1.0)
    machine.join("m")
    machine.now += 1
    machine.join("n")
    machine.beat("m")
    machine.leave("n")
    assert (machine.beat("m").wait, machine.partitions("m")) == (1.0, {"t": [0]})
    machine.now += 1
    machine.beat("m")
    assert machine.partitions("m") == {"t": [0, 1]}


def test_a_lost_answer_is_told_again() -> None:
    machine = ShareMachine(t=4)
    machine.join("m")
    machine.join("n")
    lost = machine.send("m", 1, look=False)
    again = machine.send("m", 1, look=False)
    assert (lost.epoch, again) == (2, lost)
    assert machine.send("m", 2, look=False).assignment is None


GREATER = "The share group member has a greater member epoch (9) than the one known by the group coordinator (3). "
SMALLER = (
    "The share group member has a smaller member epoch (1) than the one known by the group coordinator (3), "
    "and it does not match the previous member epoch (2). "
)
REJOIN = "The member must abandon all its partitions and rejoin."


@pytest.mark.parametrize(
    ("name", "epoch", "refusal"),
    [
        ("m", 9, (ErrorCode.FENCED_MEMBER_EPOCH, GREATER + REJOIN)),
        ("m", 1, (ErrorCode.FENCED_MEMBER_EPOCH, SMALLER + REJOIN)),
        ("m", 2, (ErrorCode.NONE, "")),
        ("m", 0, (ErrorCode.NONE, "")),
        ("z", 3, (ErrorCode.UNKNOWN_MEMBER_ID, "Member z is not a member of group g.")),
        ("z", -1, (ErrorCode.UNKNOWN_MEMBER_ID, "Member z is not a member of group g.")),
    ],
)
def test_who_is_refused(name: str, epoch: int, refusal: tuple[ErrorCode, str]) -> None:
    machine = ShareMachine()
    machine.join("m")
    machine.join("n")
    machine.beat("m")
    machine.join("o")
    machine.beat("m")
    assert machine.refusal(name, epoch) == refusal


def test_a_group_is_full() -> None:
    machine = ShareMachine(most_members=2)
    machine.join("m")
    machine.join("n")
    full = "The share group has reached its maximum capacity of 2 members."
    assert machine.refusal("o", 0, topics=frozenset("t")) == (ErrorCode.GROUP_MAX_SIZE_REACHED, full)
    assert machine.join("m").epoch == 2


def test_a_session_that_is_over_frees_what_it_had() -> None:
    machine = ShareMachine(t=2)
    machine.join("m")
    machine.now += SESSION / 2
    machine.join("n")
    machine.now += SESSION / 2
    assert machine.group.deadline() == machine.now
    assert machine.group.expire(machine.now) == {"m": "its session is over"}
    machine.beat("n")
    assert machine.partitions("n") == {"t": [0, 1]}


def test_topics_that_grow_come_or_go_are_a_new_epoch() -> None:
    machine = ShareMachine(t=1)
    machine.join("m", "tu")
    assert machine.beat("m").assignment is None
    machine.topics.here["t"].partitions = 2
    assert (machine.beat("m").epoch, machine.partitions("m")) == (2, {"t": [0, 1]})
    machine.topics.here["u"] = FakeTopic(1)
    assert (machine.beat("m").epoch, machine.partitions("m")) == (3, {"t": [0, 1], "u": [0]})
    del machine.topics.here["t"]
    assert (machine.beat("m").epoch, machine.partitions("m")) == (4, {"u": [0]})


def test_members_go_on_after_a_restart() -> None:
    machine = ShareMachine(t=4)
    machine.join("m")
    machine.join("n")
    machine.restarted()
    assert machine.beat("n", look=False).assignment is None
    assert machine.group.deadline() == machine.now + SESSION
    assert machine.beat("m", look=False).epoch == 2


def test_what_cannot_be_stored_is_taken_back() -> None:
    machine = ShareMachine()
    machine.join("m")
    before = machine.group.snapshot
    machine.join("n")
    machine.group.restore(before, machine.now)
    assert machine.refusal("n", 2)[0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert machine.group.expire(machine.now + SESSION) == {"m": "its session is over"}
