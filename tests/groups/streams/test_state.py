"""The state machine of a streams group: joins, topologies, topics, delays, fences, time."""

from dataclasses import replace

import pytest

from bridge.errors import KafkaError
from bridge.groups.streams.model import NO_TASKS, Endpoint, Task
from bridge.groups.streams.snapshot import StreamsGroupState
from bridge.groups.streams.topology import StatusCode
from bridge.kafka.error_codes import ErrorCode
from tests.groups.fake_topics import FakeTopic
from tests.groups.streams.group_machine import COUNT, DELAY, PLAIN, SESSION, GroupMachine, codes, tasks


def state_of(machine: GroupMachine) -> StreamsGroupState:
    return machine.group.snapshot.state


ALL = ("0_0", "0_1", "0_2", "0_3")


def test_the_first_member_has_all_tasks_and_epochs_begin_as_kafkas() -> None:
    machine = GroupMachine()
    answer = machine.join("m")
    assert (answer.epoch, answer.tasks, answer.statuses) == (2, tasks(*ALL), ())
    assert state_of(machine) is StreamsGroupState.STABLE
    again = machine.beat("m")
    assert (again.epoch, again.tasks) == (2, None)


def test_a_second_member_gets_what_the_first_has_given_back() -> None:
    machine = GroupMachine()
    machine.join("m")
    machine.now += 1
    assert (machine.join("n").tasks, machine.epochs["n"]) == (NO_TASKS, 3)
    kept = machine.beat("m").tasks
    assert kept is not None
    assert (len(kept.active), machine.epochs["m"]) == (2, 2)
    assert machine.beat("n").tasks is None  # not yet
    machine.beat("m")
    given = machine.beat("n").tasks
    assert given is not None
    assert given.active | kept.active == tasks(*ALL).active
    assert state_of(machine) is StreamsGroupState.STABLE
    assert set(machine.epochs.values()) == {3}


def test_no_target_is_computed_twice_within_the_assignment_interval() -> None:
    machine = GroupMachine()
    machine.join("m")
    answer = machine.join("n")
    assert (answer.tasks, codes(answer), answer.epoch) == (NO_TASKS, [StatusCode.ASSIGNMENT_DELAYED], 2)
    assert state_of(machine) is StreamsGroupState.ASSIGNING
    machine.now += 1
    assert codes(machine.beat("n")) == []
    assert machine.epochs["n"] == 3


def test_a_group_that_was_empty_waits_for_more_members() -> None:
    machine = GroupMachine(delay=DELAY)
    answer = machine.join("m")
    assert (answer.epoch, answer.tasks, codes(answer)) == (1, NO_TASKS, [StatusCode.ASSIGNMENT_DELAYED])
    machine.now += 1
    assert machine.join("n").epoch == 1
    machine.now += DELAY - 1
    counts = sorted(len((machine.beat(name).tasks or NO_TASKS).active) for name in "mn")
    assert counts == [2, 2]
    machine.now += 1
    assert codes(machine.join("o")) == []


def test_tasks_are_given_when_all_topics_are_there() -> None:
    machine = GroupMachine(COUNT, **{"other": 1})
    answer = machine.join("m")
    assert (answer.tasks, codes(answer), answer.to_create) == (NO_TASKS, [StatusCode.MISSING_SOURCE_TOPICS], ())
    assert state_of(machine) is StreamsGroupState.NOT_READY
    machine.topics.here["in"] = FakeTopic(3)
    machine.now += 1
    answer = machine.beat("m")
    assert codes(answer) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert {one.name: one.partitions for one in answer.to_create} == {"by-key": 3, "log": 3}
    machine.make_internal_topics()
    machine.now += 1
    answer = machine.beat("m")
    assert answer.tasks == tasks("0_0", "0_1", "0_2", "1_0", "1_1", "1_2")
    assert (codes(answer), answer.to_create) == ([], ())
    assert state_of(machine) is StreamsGroupState.STABLE


def test_a_topic_that_goes_takes_the_tasks_away_and_one_that_grows_brings_more() -> None:
    machine = GroupMachine()
    machine.join("m")
    machine.topics.here["in"].partitions = 5
    machine.now += 1
    assert machine.beat("m").tasks == tasks(*ALL, "0_4")
    gone = machine.topics.here.pop("in")
    machine.now += 1
    answer = machine.beat("m")
    assert (answer.tasks, codes(answer)) == (NO_TASKS, [StatusCode.MISSING_SOURCE_TOPICS])
    machine.topics.here["in"] = gone
    machine.settle()
    assert machine.has["m"] == tasks(*ALL, "0_4")


def test_internal_topics_of_another_size_are_told() -> None:
    machine = GroupMachine(COUNT, **{"in": 3, "by-key": 3, "log": 2})
    answer = machine.join("m")
    assert codes(answer) == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert answer.to_create == ()


def test_the_topology_is_the_first_ones() -> None:
    machine = GroupMachine()
    machine.topology = PLAIN._replace(epoch=2)
    machine.join("m")
    machine.now += 1
    machine.topology = PLAIN
    answer = machine.join("n")
    assert codes(answer) == [StatusCode.STALE_TOPOLOGY]
    assert codes(machine.beat("n"))[0] == StatusCode.STALE_TOPOLOGY
    said = {"rebalance_timeout_ms": 1, "process_id": "p", "owned": NO_TASKS}
    for other in (COUNT._replace(epoch=2), PLAIN._replace(epoch=3)):
        assert machine.refusal("o", 0, topology=other, **said) == (
            ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.",
        )  # fmt: skip
    machine.leave("m")
    machine.leave("n")
    assert machine.refusal("o", 0, topology=COUNT._replace(epoch=2), **said)[0] == ErrorCode.INVALID_REQUEST


def test_standby_replicas_are_a_config_whose_change_makes_new_targets() -> None:
    machine = GroupMachine(COUNT, **{"in": 2, "by-key": 2, "log": 2})
    machine.join("m")
    machine.join("n")
    machine.settle()
    epoch = machine.group.snapshot.epoch
    machine.limits = replace(machine.limits, standby_replicas=1)
    machine.settle()
    assert machine.group.snapshot.epoch == epoch + 1
    active = {name: {task for task in has.active if task.subtopology == "1"} for name, has in machine.has.items()}
    assert {name: has.standby for name, has in machine.has.items()} == {"m": active["n"], "n": active["m"]}


def test_other_epochs_are_fenced_but_for_one_whose_answer_was_lost() -> None:
    machine = GroupMachine()
    machine.join("m")
    machine.now += 1
    machine.join("n")
    machine.settle()
    has, epoch = machine.has["n"], machine.epochs["n"]
    assert machine.refusal("n", epoch + 1)[0] == ErrorCode.FENCED_MEMBER_EPOCH
    assert machine.refusal("x", 3)[0] == ErrorCode.UNKNOWN_MEMBER_ID
    previous = machine.group.snapshot.members["n"].previous_epoch
    assert machine.refusal("n", previous)[0] == (ErrorCode.NONE if previous == epoch else ErrorCode.FENCED_MEMBER_EPOCH)
    machine.leave("m")
    machine.now += 1
    lost = machine.send("n", epoch, owned=has)
    assert lost.epoch == epoch + 1
    assert machine.refusal("n", epoch, owned=tasks("0_0", "0_1", "0_2", "0_3", "0_9"))[0] != ErrorCode.NONE
    told = machine.send("n", epoch, owned=has)
    assert (told.epoch, told.tasks) == (epoch + 1, tasks(*ALL))


def test_tasks_that_the_topology_does_not_have_are_refused() -> None:
    machine = GroupMachine()
    machine.join("m")
    for owned in (tasks("0_4"), tasks("1_0"), tasks("0_-1")):
        assert machine.refusal("m", 2, owned=owned)[0] == ErrorCode.INVALID_REQUEST


def test_a_member_that_is_known_joins_again_and_is_told_its_tasks() -> None:
    machine = GroupMachine()
    machine.join("m")
    again = machine.join("m")
    assert (again.epoch, again.tasks) == (2, tasks(*ALL))


def test_what_a_member_says_of_itself_is_news_once() -> None:
    machine = GroupMachine()
    machine.join("m")
    epoch = machine.group.snapshot.epoch
    machine.beat("m", rack_id="r")
    machine.beat("m", rack_id="r")
    assert machine.group.snapshot.epoch == epoch + 1


def test_all_are_asked_to_shut_down_until_nobody_is_left() -> None:
    machine = GroupMachine()
    machine.join("m")
    machine.join("n")
    assert machine.refusal("x", -1, shutdown=True)[0] == ErrorCode.UNKNOWN_MEMBER_ID
    assert StatusCode.SHUTDOWN_APPLICATION not in codes(machine.beat("m"))
    machine.leave("n", shutdown=True)
    assert StatusCode.SHUTDOWN_APPLICATION in codes(machine.beat("m"))
    machine.leave("m")
    machine.now += 1
    assert codes(machine.join("m")) == []


def test_endpoints_are_told_whenever_they_have_changed() -> None:
    machine = GroupMachine()
    first = machine.join("m", endpoint=Endpoint("a", 1))
    assert first.endpoints is not None
    assert [(one.endpoint, dict(one.active)) for one in first.endpoints] == [(Endpoint("a", 1), {"in": (0, 1, 2, 3)})]
    assert machine.beat("m").endpoints is None
    machine.now += 1
    machine.join("n", endpoint=Endpoint("b", 2))
    machine.settle()
    told = machine.beat("m", endpoint_epoch=0).endpoints
    assert told is not None
    assert [len(one.active["in"]) for one in told] == [2, 2]
    assert machine.beat("m").endpoints is None
    assert len(machine.restarted().beat("m").endpoints or ()) == 2  # another coordinator counts from the start


def test_silent_members_go_and_those_that_do_not_revoke() -> None:
    machine = GroupMachine()
    machine.join("m", rebalance_timeout_ms=10_000)
    machine.now += 1
    machine.join("n")
    machine.beat("m")  # has to give back two
    machine.now += 11
    assert machine.group.expire(machine.now) == {"m": "it does not revoke"}
    machine.beat("n")
    assert machine.has["n"] == tasks(*ALL)
    machine.now += SESSION
    assert machine.group.deadline() <= machine.now
    assert machine.group.expire(machine.now) == {"n": "its session is over"}
    assert state_of(machine) is StreamsGroupState.EMPTY
    assert machine.group.snapshot.topology == PLAIN


def test_there_is_room_for_so_many_members() -> None:
    machine = GroupMachine()
    machine.limits = replace(machine.limits, most_members=1)
    machine.join("m")
    machine.join("m")
    said = {"topology": PLAIN, "rebalance_timeout_ms": 1, "owned": NO_TASKS}
    assert machine.refusal("n", 0, **said)[0] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert machine.refusal("n", 2)[0] == ErrorCode.UNKNOWN_MEMBER_ID


def _commit(machine: GroupMachine, *asked: object) -> ErrorCode:
    try:
        machine.group.check_commit(*asked)  # type: ignore[arg-type]
    except KafkaError as error:
        return ErrorCode(error.code)
    return ErrorCode.NONE


def test_commits_are_taken_by_epoch_and_older_ones_for_tasks_that_were_the_members_then() -> None:
    machine = GroupMachine()
    machine.join("m")
    machine.now += 1
    machine.join("n")
    machine.settle()
    old, epoch = 2, machine.epochs["m"]
    (kept, *_), (given, *_) = (sorted(machine.has[name].active) for name in "mn")
    assert _commit(machine, "m", epoch, 9, [("in", kept.partition)]) == ErrorCode.NONE
    assert _commit(machine, "m", old, 9, [("in", kept.partition)]) == ErrorCode.NONE
    assert _commit(machine, "m", old, 9, [("in", given.partition)]) == ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(machine, "m", old, 9, [("other", 0)]) == ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(machine, "n", old, 9, [("in", given.partition)]) == ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(machine, "m", epoch + 1, 9, [("in", kept.partition)]) == ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(machine, "m", epoch, 8, [("in", 0)]) == ErrorCode.UNSUPPORTED_VERSION
    assert _commit(machine, "", -1, 9, [("in", 0)]) == ErrorCode.UNKNOWN_MEMBER_ID
    assert machine.group.snapshot.members["m"].since[Task("0", kept.partition)] == old
    for name in "mn":
        machine.leave(name)
    assert _commit(machine, "", -1, 9, [("in", 0)]) == ErrorCode.NONE


def test_offsets_are_fetched_with_the_members_epoch_or_without_any() -> None:
    machine = GroupMachine()
    machine.join("m")
    machine.group.check_fetch(None, -1)
    machine.group.check_fetch("m", 2)
    for member, epoch, code in (("m", 1, ErrorCode.STALE_MEMBER_EPOCH), ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID)):
        with pytest.raises(KafkaError) as raised:
            machine.group.check_fetch(member, epoch)
        assert raised.value.code == code
