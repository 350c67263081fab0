"""The watch finds what it is for: each kind of answer that cannot be."""

from __future__ import annotations

import pytest

from tests.faults.nodes.answers import ClusterAnswer, Partition
from tests.faults.nodes.watch import Watch

A, B = ("topic", 0), ("topic", 1)
BROKERS = ((0, "host:1"), (1, "host:2"))


def answer(leaders: dict[Partition, tuple[int, int]], controller: int = 0) -> ClusterAnswer:
    return ClusterAnswer(BROKERS, controller, leaders, frozenset({"topic"}))


def judged(*answers: tuple[str, ClusterAnswer]) -> Watch:
    watch = Watch()
    for name, one in answers:
        watch.told(name, one)
    return watch


def test_a_move_that_every_node_learns_of_in_its_time_is_right() -> None:
    before, after = answer({A: (0, 5), B: (0, 5)}), answer({A: (1, 6), B: (0, 5)})
    judged(("x", before), ("y", after), ("x", before), ("x", after)).check()


def test_a_partition_without_a_leader_just_now_is_right() -> None:
    judged(("x", answer({A: (-1, 6)})), ("y", answer({A: (1, 6)}, controller=-1))).check()


@pytest.mark.parametrize(
    ("told", "answers"),
    [
        ("is not among", [("x", answer({A: (2, 5)}))]),
        ("controller 2", [("x", answer({}, controller=2))]),
        ("back to 5", [("x", answer({A: (0, 6)})), ("x", answer({A: (0, 5)}))]),
        ("in which 0 led it", [("x", answer({A: (0, 6)})), ("y", answer({A: (1, 6)}))]),
        (
            "still 5",
            [("x", answer({A: (0, 5), B: (0, 5)})), ("x", answer({A: (1, 7), B: (1, 6)})),
             ("y", answer({A: (1, 7), B: (0, 5)}))],
        ),
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_is_found(told: str, answers: list[tuple[str, ClusterAnswer]]) -> None:
    with pytest.raises(AssertionError, match=told):
        judged(*answers).check()


def test_an_end_before_what_was_acknowledged_is_found() -> None:
    watch = judged(("x", answer({})))
    watch.ends_told("x", {0: 10}, acked={0: 9}, told={})
    watch.check()
    watch.ends_told("x", {0: 10}, acked={0: 10}, told={})
    with pytest.raises(AssertionError, match="10 is acknowledged"):
        watch.check()


def test_an_end_that_goes_back_is_found() -> None:
    watch = judged(("x", answer({})))
    watch.ends_told("x", {0: 10}, acked={}, told={0: 11})
    with pytest.raises(AssertionError, match="told to end at 11"):
        watch.check()
