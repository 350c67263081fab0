"""The heap of deadlines says what looking through all of them would."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from bridge.groups.deadlines import KeyDeadlines

KEYS = "abcdef"
_STEP = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(KEYS), st.integers(0, 30)),
    st.tuples(st.just("move away"), st.sampled_from(KEYS), st.integers(0, 30)),
    st.tuples(st.just("remove"), st.sampled_from(KEYS), st.just(0)),
    st.tuples(st.just("pass"), st.just(""), st.integers(0, 20)),
)


@given(st.lists(_STEP, max_size=60))
def test_nothing_comes_due_too_early_or_is_missed(steps: list[tuple[str, str, int]]) -> None:
    present: dict[str, float] = {}
    deadlines = KeyDeadlines(present.get)
    now = 0.0
    for what, key, value in steps:
        if what == "set":
            present[key] = now + value
            deadlines.watch(key, present[key])
        elif what == "move away" and key in present:
            present[key] += value
            deadlines.watch(key, present[key])
        elif what == "remove":
            present.pop(key, None)
        elif what == "pass":
            now += value
            due = deadlines.due(now)
            assert sorted(due) == sorted((at, key) for key, at in present.items() if at <= now)
            for _, one in due:
                del present[one]
        assert deadlines.first() <= min(present.values(), default=inf)
    assert present or deadlines.first() == inf


def test_those_who_come_and_go_take_no_memory() -> None:
    present: dict[int, float] = {}
    deadlines = KeyDeadlines(present.get)
    for number in range(10_000):
        present[number] = 300.0 + number
        deadlines.watch(number, present[number])
        del present[number]
    assert len(deadlines._heap) < 200


def test_a_heartbeat_adds_nothing() -> None:
    present = {"a": 10.0}
    deadlines = KeyDeadlines(present.get)
    deadlines.watch("a", 10.0)
    for second in range(1000):
        present["a"] = 10.0 + second
        deadlines.watch("a", present["a"])
    assert len(deadlines._heap) == 1
    assert deadlines.due(500.0) == []
    assert deadlines.first() == 1009.0
