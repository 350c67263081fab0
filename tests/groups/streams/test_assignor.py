"""What the assignor of streams groups promises (the cases of Kafka's StickyTaskAssignorTest, and more)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.groups.streams import assignor
from bridge.groups.streams.assignor import AssignorMember, assign
from bridge.groups.streams.model import NO_TASKS, Task, Tasks
from tests.groups.streams.tasks import roles, tasks

Members = dict[str, AssignorMember]


def _all(counts: Mapping[str, int]) -> list[Task]:
    """All tasks of subtopologies with so many each."""
    return [Task(one, number) for one, count in counts.items() for number in range(count)]


def _fresh(*processes: int) -> Members:
    """Members m0, n0, o0 … of process p0, and so on: so many of each process."""
    return {
        f"{thread}{number}": AssignorMember(f"p{number}")
        for number, count in enumerate(processes)
        for thread in "mnopqr"[:count]
    }


def _again(members: Members, given: Mapping[str, Tasks]) -> Members:
    """The members with what they have been given."""
    return {name: AssignorMember(one.process_id, given.get(name, NO_TASKS)) for name, one in members.items()}


def _had(text: str) -> Members:
    """`m/p 0_1 | 0_2, n/q`: member m of process p had 0_1 as active and 0_2 as standby, n of q nothing."""
    members = {}
    for one in text.split(","):
        who, _, had = one.strip().partition(" ")
        member_id, _, process_id = who.partition("/")
        members[member_id] = AssignorMember(process_id, roles(*had.split("|")))
    return members


class Case(NamedTuple):
    name: str
    had: str
    tasks: dict[str, int]
    replicas: int = 0  # of all subtopologies
    active: Mapping[str, str] = MappingProxyType({})  # all that these members must have
    keeps: Mapping[str, str] = MappingProxyType({})  # what they must have at least
    lacks: Mapping[str, str] = MappingProxyType({})  # what they must not have as active
    counts: Mapping[str, int] = MappingProxyType({})  # how many active ones members, or processes, have
    standby: Mapping[str, str] = MappingProxyType({})


OLD = "m/p 0_1 1_2 1_3 | 0_0 1_1 2_0 2_1 2_3, n/q 0_0 1_1 2_2 | 0_1 0_2 0_3 1_0 1_2 1_3 2_0 2_1 2_3"
SIX = "a/p, b/p, c/q, d/q, e/r, f/r"
CASES = [
    Case("a task each", "m/p, n/q, o/r", {"0": 3}, counts={"m": 1, "n": 1, "o": 1}),
    Case("evenly with several threads", SIX, {"0": 3, "1": 3}, counts=dict.fromkeys("abcdef", 1)),
    Case("evenly with standbys", SIX, {"0": 3, "1": 3}, 1, counts=dict.fromkeys("abcdef", 1)),
    Case("no move to another process", "m/p 0_0, n/q 0_1", {"0": 3}, keeps={"m": "0_0", "n": "0_1"}),
    Case("no move, the other way round", "n/q 0_1, o/p 0_2", {"0": 3}, keeps={"n": "0_1", "o": "0_2"}),
    Case("one moves to a new process", "m/p 0_0 0_2, n/q 0_1, o/r", {"0": 3}, keeps={"n": "0_1"}, lacks={"m": "0_2"},
         active={"o": "0_2"}),
    Case("by the number of threads", "m/p, n/q, o/q", {"0": 3}, counts={"m": 1, "n": 1, "o": 1}),
    Case("subtopologies of unlike size", "m/p 0_0 0_1 0_2 0_3 0_4 0_5 1_0, n/q", {"0": 6, "1": 1},
         counts={"m": 4, "n": 3}),
    Case("more members than tasks", "a/p 0_0, b/q 0_2, c/r 0_1, d/s, e/t", {"0": 3},
         active={"a": "0_0", "b": "0_2", "c": "0_1", "d": "", "e": ""}),
    Case("more members than tasks, elsewhere", "a/p, b/q 0_0, c/r, d/s 0_2, e/t 0_1", {"0": 3},
         active={"a": "", "b": "0_0", "c": "", "d": "0_2", "e": "0_1"}),
    Case("to who had the standby", "m/p | 0_2, n/q | 0_1, o/r | 0_0", {"0": 3},
         active={"m": "0_2", "n": "0_1", "o": "0_0"}),
    Case("a standby that becomes active is one no more", "m/p | 0_0, n/q | 0_1", {"0": 2}, 1,
         active={"m": "0_0", "n": "0_1"}, standby={"m": "0_1", "n": "0_0"}),
    Case("to another thread of the process that had the standby", "a/p 0_0 | 0_1, b/q 0_2 | 0_1, c/q", {"0": 3},
         active={"a": "0_0", "b": "0_2", "c": "0_1"}),
    Case("to another thread of the process that had it", "m/p 0_0 0_1 0_2, n/p, o/q", {"0": 3}, active={"o": "0_2"},
         keeps={"m": "0_0", "n": "0_1"}),
    Case("standbys of two replicas", "m/p 0_0, n/q 0_1, o/r 0_2", {"0": 3}, 2,
         standby={"m": "0_1 0_2", "n": "0_0 0_2", "o": "0_0 0_1"}),
    Case("no standby beside the active one", "m/p", {"0": 1}, 1, standby={"m": ""}),
    Case("no standby on another thread of the process", "m/p, n/p", {"0": 4}, 3, standby={"m": "", "n": ""}),
    Case("each process has a task before one has two", "a/p, b/p, c/p, d/q, e/r", {"0": 3},
         counts={"p": 1, "q": 1, "r": 1}),
    Case("each task once", "a/p, b/q, c/r, d/s, e/t, f/u", {"0": 3}, counts={}),
    Case("twice as many for twice as many threads", "m/p, n/q, o/q", {"0": 3, "1": 3, "2": 3, "3": 3},
         counts={"p": 4, "q": 8}),
    Case("evened", "o/r 0_0 0_1 0_2 0_3, m/p, n/q, a/s", {"0": 4}, counts=dict.fromkeys("mnoa", 1)),
    Case("who had more keeps one more", "o/r 0_0 0_1 0_2 0_3, m/p, n/q", {"0": 4}, counts={"m": 1, "n": 1, "o": 2}),
    Case("a task is gone", "m/q 0_0 0_3 0_2, n/r, o/r", {"0": 3}, counts={"q": 1, "r": 2}),
    Case("a new process takes as little as it can", "m/p 0_0 0_2, n/q 0_1 0_3, o/r", {"0": 4}, counts={"o": 1},
         keeps={"n": "0_1"}),
    Case("new tasks move none", "m/p 0_0 0_1, n/q 0_2 0_3", {"0": 6}, keeps={"m": "0_0 0_1", "n": "0_2 0_3"}),
    Case("new tasks to the new process", "m/p 0_1 0_2, n/q 0_0 0_3, o/r", {"0": 6},
         active={"m": "0_1 0_2", "n": "0_0 0_3", "o": "0_4 0_5"}),
    Case("a new process takes what was nobody's", f"{OLD}, o/r 2_0 2_1 2_3 | 0_2 1_2, new/s | 0_0 0_1 0_2 0_3 1_0 1_1 "
         "1_2 1_3 2_0 2_1 2_2 2_3", {"0": 4, "1": 4, "2": 4},
         active={"m": "0_1 1_2 1_3", "n": "0_0 1_1 2_2", "o": "2_0 2_1 2_3", "new": "0_2 0_3 1_0"}),
    Case("two come back to their standbys", f"{OLD}, o/r | 2_0 2_1 2_3, new/s | 0_2 0_3 1_0", {"0": 4, "1": 4, "2": 4},
         active={"m": "0_1 1_2 1_3", "n": "0_0 1_1 2_2", "o": "2_0 2_1 2_3", "new": "0_2 0_3 1_0"}),
    Case("one of two to the new process", "m/p 0_1 0_2, n/q", {"0": 2}, counts={"m": 1, "n": 1}),
    Case("no exchange between those that were there", "m/p 0_0 0_1 0_2, n/q 0_3 0_4 0_5, new/r", {"0": 6},
         lacks={"m": "0_3 0_4 0_5", "n": "0_0 0_1 0_2"}, counts={"m": 2, "n": 2, "new": 2}),
    Case("no exchange with one that came back", "m/p 0_0 0_1 0_2 0_6, n/q | 0_3 0_4 0_5, new/r", {"0": 7},
         lacks={"m": "0_3 0_4 0_5", "n": "0_0 0_1 0_2"}, counts={"m": 3, "n": 2, "new": 2}),
    Case("each gives of each subtopology", "m/p 0_0 0_1 1_0 1_1, n/q", {"0": 2, "1": 2}, 1,
         active={"m": "0_0 1_0", "n": "0_1 1_1"}, standby={"m": "0_1 1_1", "n": "0_0 1_0"}),
    Case("each gets of each subtopology", "m/p, n/q", {"0": 2, "1": 2}, 1,
         active={"m": "0_0 1_0", "n": "0_1 1_1"}, standby={"m": "0_1 1_1", "n": "0_0 1_0"}),
    Case("a standby stays with who had it", "m/p 0_0 | 0_1, n/q 0_1, o/r", {"0": 2}, 1,
         active={"m": "0_0", "n": "0_1", "o": ""}, standby={"m": "0_1", "o": "0_0"}),
    Case("who had the active one has the standby", "m/p 0_0 0_1 0_2 0_3, n/q | 0_2, o/r", {"0": 2, "1": 2}, 1,
         keeps={"m": "0_0"}),
    Case("to the thread that had the standby", "a/p 0_0, b/q, c/q | 0_1", {"0": 3}, active={"b": "0_2", "c": "0_1"}),
    Case("of two that had the standby to the emptier", "m/p 1_0 | 0_0, a/p, b/p, n/q | 0_0, c/q 1_1", {"0": 1, "1": 9},
         keeps={"n": "0_0"}),
    Case("a standby that is new moves first", "m/p 0_0 1_0 | 0_1, n/q 0_1 | 0_0 1_0, o/r, x/q", {"0": 2, "1": 1}, 1,
         standby={"m": "0_1", "n": "0_0", "o": "1_0", "x": ""}),
    Case("a new process joins standbys too", "m/p 0_0 0_1 | 0_2 0_3, n/q 0_2 0_3 | 0_0 0_1, o/r", {"0": 4}, 1,
         counts={"m": 2, "n": 1, "o": 1}, active={"m": "0_0 0_1"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case(case: Case) -> None:
    members = _had(case.had)
    given = assign(members, _all(case.tasks), case.tasks, case.replicas)
    for name, expected in case.active.items():
        assert given[name].active == tasks(expected)
    for name, expected in case.keeps.items():
        assert given[name].active >= tasks(expected)
    for name, expected in case.lacks.items():
        assert given[name].active.isdisjoint(tasks(expected))
    for name, expected in case.standby.items():
        assert given[name].standby == tasks(expected)
    for name, count in case.counts.items():
        ones = [one for one in members if name in (one, members[one].process_id)]
        assert sum(len(given[one].active) for one in ones) == count
    _check(members, _all(case.tasks), set(case.tasks), case.replicas, given)


# processes, tasks, replicas | active tasks of each member, all tasks of each member
SIZES = [
    ((1,) * 6, {"0": 3}, 1, {0, 1}, {1}),
    ((1,) * 4, {"0": 4}, 1, {1}, {2}),
    ((1,) * 3, {"0": 3}, 1, {1}, {2}),
    ((1,) * 5, {"0": 100}, 2, {20}, {60}),
    ((1,) * 7, {"0": 14}, 1, {2}, {4}),
    ((1,) * 3, {"0": 6}, 5, {2}, {6}),
    ((1,) * 4, {str(number): 5 for number in range(10)}, 1, {12, 13}, {25}),
    ((1,), {"0": 10}, 3, {10}, {10}),
    ((1,) * 2, {"0": 4}, 5, {2}, {4}),
    ((3, 3), {"0": 12}, 1, {2}, {4}),
    ((1, 5), {"0": 6}, 1, {1}, {1, 2, 6}),  # the standbys of five must all be with the one
]


@pytest.mark.parametrize(("processes", "counts", "replicas", "active", "loads"), SIZES)
def test_who_starts_empty_is_given_as_much_as_others(
    processes: tuple[int, ...], counts: dict[str, int], replicas: int, active: set[int], loads: set[int]
) -> None:
    members = _fresh(*processes)
    given = assign(members, _all(counts), counts, replicas)
    assert {len(one.active) for one in given.values()} == active
    assert {len(one.all) for one in given.values()} == loads
    _check(members, _all(counts), set(counts), replicas, given)


def test_without_members_nobody_has_anything() -> None:
    assert assign({}, _all({"0": 3}), {"0"}, 1) == {}


def test_without_tasks_everybody_has_nothing() -> None:
    assert assign(_had("m/p 0_0 | 0_1, n/q"), [], set(), 2) == {"m": NO_TASKS, "n": NO_TASKS}


def test_tasks_without_state_have_no_standbys() -> None:
    given = assign(_had("m/p | 0_0, n/q"), _all({"0": 2, "1": 2}), {"1"}, 1)
    assert {task.subtopology for one in given.values() for task in one.standby} == {"1"}


def test_a_warm_up_task_is_a_copy_like_a_standby() -> None:
    members = {"m": AssignorMember("p"), "n": AssignorMember("q", roles(warmup="0_0"))}
    assert assign(members, _all({"0": 1}), {"0"}, 1) == {"m": roles("", "0_0"), "n": roles("0_0")}


def test_when_a_member_goes_only_what_it_had_moves() -> None:
    members = _fresh(1, 1, 1, 1)
    counts = {"0": 6, "1": 6}
    before = assign(members, _all(counts), counts, 1)
    gone = before["m3"]
    del members["m3"]
    after = assign(_again(members, before), _all(counts), counts, 1)
    for name in members:
        assert after[name].active >= before[name].active
        assert before[name].standby <= after[name].standby | (after[name].active & gone.active)


def test_fewer_replicas_leave_the_others_where_they_are() -> None:
    members = _fresh(1, 1, 1, 1)
    before = assign(members, _all({"0": 8}), {"0"}, 2)
    after = assign(_again(members, before), _all({"0": 8}), {"0"}, 1)
    for name in members:
        assert after[name].active == before[name].active
        assert after[name].standby < before[name].standby


# ---- any situation ---------------------------------------------------------------------------------------------------


def _check(
    members: Members, everything: list[Task], stateful: set[str], replicas: int, given: Mapping[str, Tasks]
) -> None:
    """What holds of every assignment, whatever was before."""
    assert given.keys() == members.keys()
    assert not any(one.warmup for one in given.values())
    assert sorted(task for one in given.values() for task in one.active) == sorted(everything)
    sizes = [len(one.active) for one in given.values()]
    assert max(sizes) - min(sizes) <= 1
    held: dict[str, list[Task]] = {one.process_id: [] for one in members.values()}
    for name, one in given.items():
        held[members[name].process_id] += [*one.active, *one.standby, *one.warmup]
    assert all(len(ones) == len(set(ones)) for ones in held.values())  # no task twice in a process
    standbys = sorted(task for one in given.values() for task in one.standby)
    wanted = [task for task in everything if task.subtopology in stateful for _ in range(min(replicas, len(held) - 1))]
    assert standbys == sorted(wanted)
    for name, one in given.items():
        for task in one.standby:
            for other, has in given.items():
                could = (
                    members[other].process_id == members[name].process_id or task not in held[members[other].process_id]
                )
                assert not could or len(one.all) - len(has.all) <= 1


@st.composite
def situations(draw: st.DrawFn) -> tuple[Members, dict[str, int], set[str], int]:
    """Members that have been given tasks when there were other members, tasks and replicas."""
    counts = {one: draw(st.integers(0, 5)) for one in "012"[: draw(st.integers(1, 3))]}
    stateful = draw(st.sets(st.sampled_from(sorted(counts))))
    members: Members = {}
    for _ in range(draw(st.integers(1, 2))):
        names = draw(st.sets(st.sampled_from("abcdefgh"), min_size=1))
        given = {name: one.had for name, one in members.items()}
        members = {name: AssignorMember(draw(st.sampled_from("pqrs"))) for name in sorted(names - given.keys())} | {
            name: members[name] for name in sorted(names & given.keys())
        }
        before = {one: draw(st.integers(0, 5)) for one in counts} if draw(st.booleans()) else counts
        members = _again(members, assign(members, _all(before), stateful, draw(st.integers(0, 2))))
    arrived = {name: AssignorMember(draw(st.sampled_from("pqrst"))) for name in draw(st.sets(st.sampled_from("ijk")))}
    stayed = {name: one for name, one in members.items() if not arrived or draw(st.integers(0, 3))}
    return arrived | stayed, counts, stateful, draw(st.integers(0, 2))


@given(situations())
def test_any_assignment_is_whole_even_and_apart(situation: tuple[Members, dict[str, int], set[str], int]) -> None:
    members, counts, stateful, replicas = situation
    _check(members, _all(counts), stateful, replicas, assign(members, _all(counts), stateful, replicas))


@given(situations())
def test_the_order_does_not_count_and_nothing_moves_at_rest(
    situation: tuple[Members, dict[str, int], set[str], int],
) -> None:
    members, counts, stateful, replicas = situation
    given = assign(members, _all(counts), stateful, replicas)
    assert assign(dict(reversed(members.items())), _all(counts)[::-1], stateful, replicas) == given
    assert assign(_again(members, given), _all(counts), stateful, replicas) == given


@given(situations())
def test_as_few_active_tasks_move_as_can_be(situation: tuple[Members, dict[str, int], set[str], int]) -> None:
    members, counts, stateful, replicas = situation
    everything = set(_all(counts))
    given = assign(members, _all(counts), stateful, replicas)
    fewest, more = divmod(len(everything), len(members))
    had = {name: one.had.active & everything for name, one in members.items()}
    could_stay = sum(min(len(ones), fewest) for ones in had.values())
    could_stay += min(more, sum(len(ones) > fewest for ones in had.values()))
    assert sum(len(given[name].active & ones) for name, ones in had.items()) == could_stay


@given(situations())
def test_a_task_moves_to_a_copy_of_its_state_if_there_is_room(
    situation: tuple[Members, dict[str, int], set[str], int],
) -> None:
    members, counts, stateful, replicas = situation
    given = assign(members, _all(counts), stateful, replicas)
    fewest = sum(counts.values()) // len(members)
    for name, one in given.items():
        for task in one.active:
            copies = {other.process_id for other in members.values() if task in other.had.all}
            if members[name].process_id not in copies:
                near = [other for other in members if members[other].process_id in copies]
                assert all(len(given[other].active) >= fewest for other in near)


had_anything = st.builds(
    Tasks, *(st.frozensets(st.builds(Task, st.sampled_from("012"), st.integers(0, 4)), max_size=6) for _ in range(3))
)


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.builds(AssignorMember, st.sampled_from("pqr"), had_anything), min_size=1
    ),
    st.dictionaries(st.sampled_from("012"), st.integers(0, 5)),
    st.sets(st.sampled_from("012")),
    st.integers(0, 3),
)
def test_what_was_before_may_be_anything(
    members: Members, counts: dict[str, int], stateful: set[str], replicas: int
) -> None:
    given = assign(members, _all(counts), stateful, replicas)
    _check(members, _all(counts), stateful, replicas, given)
    assert assign(_again(members, given), _all(counts), stateful, replicas) == given


def test_many_members_of_one_process_do_not_hold_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a process were looked at for each task: 1,000 members with 20,000 tasks took six seconds."""
    looks = 0

    class Loads(dict[str, int]):
        def __getitem__(self, member_id: str) -> int:
            nonlocal looks
            looks += 1
            return super().__getitem__(member_id)

    made = assignor._Sticky.__init__

    def counted(self: Any, members: Any) -> None:
        made(self, members)
        self._load = Loads(self._load)

    monkeypatch.setattr(assignor._Sticky, "__init__", counted)
    members = {f"m{number}": AssignorMember("p") for number in range(200)}
    tasks = [Task("0", number) for number in range(1000)]
    had = assignor.assign(members, tasks, [], 0)
    again = {name: AssignorMember("p", had[name]) for name in [*members][1:]} | {"n": AssignorMember("p")}
    assert sum(len(one.active) for one in assignor.assign(again, tasks, [], 0).values()) == 1000
    assert looks < 40 * len(tasks)
