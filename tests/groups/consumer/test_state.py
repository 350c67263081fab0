"""Groups of the new consumer protocol, heartbeat by heartbeat."""

import pytest

from bridge.errors import KafkaError
from bridge.groups.classic.events import Leave
from bridge.groups.consumer.model import ConsumerGroupState, MemberState
from bridge.kafka.error_codes import ErrorCode
from tests.groups.consumer.machine import SESSION, ConsumerMachine

NONE = ErrorCode.NONE


def test_the_first_member_gets_all_at_once() -> None:
    machine = ConsumerMachine(t=3)
    assert machine.state is ConsumerGroupState.EMPTY
    beat = machine.join("m")
    assert (beat.member_id, beat.epoch, machine.partitions("m")) == ("m", 1, {"t": [0, 1, 2]})
    assert (machine.state, machine.beat("m").assignment) == (ConsumerGroupState.STABLE, None)


def test_a_second_member_waits_for_what_the_first_gives_back() -> None:
    machine = ConsumerMachine(t=4)
    machine.join("m")
    beat = machine.join("n")
    assert (beat.epoch, machine.partitions("n"), machine.member("n").state) == (2, {}, MemberState.UNRELEASED)
    assert machine.group.snapshot.state.value == "Reconciling"
    told = machine.silent("m")
    assert (told.epoch, machine.member("m").state) == (1, MemberState.UNREVOKED)
    assert len(machine.partitions("m")["t"]) == 2
    assert machine.silent("n").assignment is None
    assert machine.silent("m").epoch == 1  # it has not said that it has given back
    assert machine.beat("m").epoch == 2
    assert machine.silent("n").assignment is not None
    assert sorted(machine.partitions("m")["t"] + machine.partitions("n")["t"]) == [0, 1, 2, 3]
    assert machine.state is ConsumerGroupState.STABLE


def test_who_leaves_frees_its_partitions_at_once() -> None:
    machine = ConsumerMachine(t=4)
    machine.join("m")
    machine.join("n")
    machine.settle()
    assert machine.leave("n").epoch == -1
    assert machine.state is ConsumerGroupState.ASSIGNING
    machine.silent("m")
    assert machine.partitions("m") == {"t": [0, 1, 2, 3]}
    machine.leave("m")
    assert (machine.state, machine.epoch) == (ConsumerGroupState.EMPTY, 4)


@pytest.mark.parametrize(
    ("epoch", "fields", "error"),
    [
        (2, {}, ErrorCode.FENCED_MEMBER_EPOCH),
        (-1, {"member": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (1, {"member": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (1, {"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, {"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (1, {}, NONE),
        (0, {"owned": {}}, NONE),
    ],
)
def test_epochs_and_ids_are_checked(epoch: int, fields: dict[str, str], error: ErrorCode) -> None:
    machine = ConsumerMachine()
    machine.join("m")
    fields = dict(fields)
    assert machine.refusal(fields.pop("member", "m"), epoch, **fields) is error


def test_the_epoch_before_is_taken_from_who_has_nothing_it_should_not_have() -> None:
    machine = ConsumerMachine(t=2)
    machine.join("m")
    machine.join("n")
    had = machine.owned["m"]
    machine.silent("m")
    machine.beat("m")
    assert machine.member("m").epoch == 2
    assert machine.refusal("m", 1) is ErrorCode.FENCED_MEMBER_EPOCH  # it does not say what it has
    assert machine.refusal("m", 1, owned=had) is ErrorCode.FENCED_MEMBER_EPOCH
    assert machine.send("m", 1, owned=machine.owned["m"]).epoch == 2


def test_a_member_that_joins_again_keeps_its_place() -> None:
    machine = ConsumerMachine(t=4)
    machine.join("m")
    machine.join("n")
    machine.settle()
    beat = machine.join("m")
    assert (beat.epoch, len(beat.assignment or {})) == (2, 1)
    assert machine.epoch == 2


def test_a_changed_subscription_raises_the_epoch() -> None:
    machine = ConsumerMachine(t=1, u=1)
    machine.join("m", "t")
    assert machine.beat("m", topics=frozenset("t")).epoch == 1
    machine.beat("m", topics=frozenset("tu"))
    assert (machine.epoch, machine.partitions("m")) == (2, {"t": [0], "u": [0]})
    machine.beat("m", topics=frozenset("u"))
    machine.settle()
    assert (machine.epoch, machine.partitions("m")) == (3, {"u": [0]})


def test_topics_that_come_go_and_grow_raise_the_epoch() -> None:
    machine = ConsumerMachine(t=1)
    machine.join("m", "tu")
    machine.topics.here["t"].partitions = 2
    machine.settle()
    assert (machine.epoch, machine.partitions("m")) == (2, {"t": [0, 1]})
    machine.topics.here |= ConsumerMachine(u=1).topics.here
    assert machine.silent("m").epoch == 2  # no client has looked
    machine.settle()
    assert (machine.epoch, machine.partitions("m")) == (3, {"t": [0, 1], "u": [0]})
    del machine.topics.here["t"]
    machine.settle()
    assert (machine.epoch, machine.partitions("m")) == (4, {"u": [0]})


def test_a_topic_made_again_is_another_one() -> None:
    machine = ConsumerMachine(t=1)
    machine.join("m")
    first = machine.owned["m"]
    machine.topics.here = ConsumerMachine(t=1).topics.here
    machine.settle()
    assert machine.partitions("m") == {"t": [0]}
    assert machine.owned["m"] != first


def test_a_pattern_takes_in_new_topics() -> None:
    machine = ConsumerMachine(ta=1, x=1)
    machine.join("m", None, regex="t.*")
    assert machine.partitions("m") == {"ta": [0]}
    machine.topics.here |= ConsumerMachine(tb=2).topics.here
    machine.settle()
    assert machine.partitions("m") == {"ta": [0], "tb": [0, 1]}
    machine.beat("m", regex="x")
    machine.settle()
    assert machine.partitions("m") == {"x": [0]}
    machine.beat("m", regex="", topics=frozenset(["ta"]))
    machine.settle()
    assert machine.partitions("m") == {"ta": [0]}
    assert machine.group.snapshot.view.resolved == {}


def test_most_members_choose_the_assignor() -> None:
    machine = ConsumerMachine(t=2, u=2)
    machine.join("a", "tu", assignor="range")
    machine.join("b", "tu", assignor="range")
    machine.join("c", "tu", assignor="uniform")
    machine.settle()
    assert machine.group.snapshot.assignor() == "range"
    assert machine.partitions("a") == {"t": [0], "u": [0]}
    assert machine.partitions("c") == {}
    machine.beat("a", assignor="uniform")
    assert machine.epoch == 3  # by itself no reason to assign again
    machine.leave("b")
    machine.settle()
    assert [sum(map(len, machine.partitions(name).values())) for name in "ac"] == [2, 2]


def test_a_group_may_be_full() -> None:
    machine = ConsumerMachine(most_members=1)
    machine.join("m")
    assert machine.refusal("n", 0) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert machine.silent("m").epoch == 1


def test_members_may_subscribe_to_nothing_and_to_what_is_not() -> None:
    machine = ConsumerMachine(t=1)
    assert machine.join("m", None).epoch == 1
    assert machine.join("n", "zz").epoch == 2
    machine.settle()
    assert machine.state is ConsumerGroupState.STABLE
    assert machine.owned == {"m": {}, "n": {}}


# ---- static members --------------------------------------------------------------------------------------------------


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance() -> None:
    machine = ConsumerMachine(t=4)
    machine.join("m", instance_id="i")
    machine.join("n", instance_id="j")
    machine.settle()
    had = machine.partitions("m")
    beat = machine.leave("m", "i", -2)
    assert (beat.epoch, machine.state) == (-2, ConsumerGroupState.RECONCILING)
    machine.settle("n")
    assert len(machine.partitions("n")["t"]) == 2
    assert machine.join("m2", instance_id="i").epoch == 2
    assert (machine.partitions("m2"), machine.epoch, machine.state) == (had, 2, ConsumerGroupState.STABLE)
    assert machine.refusal("m", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert machine.refusal("m", -1, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    machine.now += SESSION
    assert machine.group.deadline() == machine.now


def test_no_client_can_be_an_instance_that_is_there() -> None:
    machine = ConsumerMachine()
    machine.join("m", instance_id="i")
    assert machine.refusal("n", 0, instance_id="i", topics=frozenset("t")) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert machine.join("m", instance_id="i").epoch == 1  # it is the same one
    machine.leave("m", "i")
    assert machine.join("n", instance_id="i").epoch == 3


def test_a_static_member_that_does_not_come_back_is_removed() -> None:
    machine = ConsumerMachine(t=2)
    machine.join("m", instance_id="i")
    machine.leave("m", "i", -2)
    machine.now += SESSION
    assert list(machine.group.expire(machine.now)) == ["m"]
    assert machine.state is ConsumerGroupState.EMPTY


def test_a_static_member_may_come_back_with_another_subscription() -> None:
    machine = ConsumerMachine(t=1, u=1)
    machine.join("m", "t", instance_id="i")
    machine.leave("m", "i", -2)
    machine.join("m2", "u", instance_id="i")
    machine.settle()
    assert (machine.epoch, machine.partitions("m2")) == (2, {"u": [0]})


# ---- time ------------------------------------------------------------------------------------------------------------


def test_a_session_goes_on_with_each_heartbeat() -> None:
    machine = ConsumerMachine(t=2)
    machine.join("m")
    machine.join("n")
    machine.settle()
    machine.now += SESSION - 1
    machine.silent("m")
    machine.now += 1
    assert machine.group.expire(machine.now) == {"n": "its session is over"}
    machine.settle()
    assert machine.partitions("m") == {"t": [0, 1]}
    assert machine.refusal("n", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_give_back_in_time_is_removed() -> None:
    machine = ConsumerMachine(t=2)
    machine.join("m", rebalance_timeout_ms=10_000)
    machine.join("n")
    machine.silent("m")
    assert machine.group.deadline() == machine.now + 10
    machine.now += 9
    machine.silent("m")  # heartbeats are no help
    machine.now += 1
    assert machine.group.expire(machine.now) == {"m": "it does not revoke"}
    machine.settle()
    assert machine.partitions("n") == {"t": [0, 1]}


def test_giving_back_stops_the_clock() -> None:
    machine = ConsumerMachine(t=2)
    machine.join("m", rebalance_timeout_ms=10_000)
    machine.join("n")
    machine.silent("m")
    machine.beat("m")
    assert machine.group.deadline() == machine.now + SESSION


def test_a_restart_gives_all_members_time_again() -> None:
    machine = ConsumerMachine(t=2)
    machine.join("m", rebalance_timeout_ms=10_000)
    machine.join("n")
    machine.silent("m")
    machine.now += 9
    machine.restarted()
    assert machine.group.deadline() == machine.now + 10
    machine.settle()
    assert machine.state is ConsumerGroupState.STABLE
    assert machine.epochs == {"m": 2, "n": 2}


def test_going_back_to_what_is_stored_undoes_everything() -> None:
    machine = ConsumerMachine(t=2)
    machine.join("m")
    stored = machine.group.snapshot
    machine.join("n")
    machine.leave("m")
    machine.group.restore(stored, machine.now)
    assert machine.silent("m").epoch == 1
    assert machine.refusal("n", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert machine.group.deadline() == machine.now + SESSION


# ---- what others ask -------------------------------------------------------------------------------------------------


def _code(machine: ConsumerMachine, kind: str, *arguments: object) -> int:
    try:
        getattr(machine.group, f"check_{kind}")(*arguments)
    except KafkaError as error:
        return error.code
    return 0


def test_commits_and_fetches_name_the_epoch() -> None:
    machine = ConsumerMachine()
    assert _code(machine, "commit", "", -1, 9) == NONE
    assert _code(machine, "commit", "m", 1, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    machine.join("m")
    assert _code(machine, "commit", "m", 1, 9) == NONE
    assert _code(machine, "commit", "m", 0, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert _code(machine, "commit", "m", 1, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert _code(machine, "commit", "", -1, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert _code(machine, "fetch", "m", 1) == NONE
    assert _code(machine, "fetch", None, -1) == NONE
    assert _code(machine, "fetch", "m", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert _code(machine, "fetch", "n", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_administrators_remove_members_by_id_or_instance() -> None:
    machine = ConsumerMachine()
    machine.join("m")
    machine.join("n", instance_id="i")
    machine.join("o", instance_id="j")
    leaving = [Leave("stranger"), Leave("m"), Leave("", "i"), Leave("x", "j"), Leave("", "k")]
    assert machine.group.remove(leaving) == [
        ErrorCode.UNKNOWN_MEMBER_ID, NONE, NONE, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID,
    ]  # fmt: skip
    assert list(machine.group.snapshot.members) == ["o"]
    assert machine.epoch == 4
