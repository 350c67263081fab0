"""The log checker sees what it is there to see."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.faults.checker import Verdict, judge

GOOD = {0: b"w:0", 1: b"w:1", 2: b"w:2"}


def judged(followed: dict[int, bytes], cold: dict[int, bytes] | None = None, acked: dict[int, bytes] = GOOD) -> Verdict:
    acks = [(0, offset, value) for offset, value in acked.items()]
    writer = SimpleNamespace(name="w", idempotent=True, acks=acks, errors=[], slowest=0.0)
    follower = SimpleNamespace(records=[followed], conflicts=[])
    return judge(cast(Any, [writer]), cast(Any, follower), [followed if cold is None else cold], 1)


def test_a_sound_log_passes() -> None:
    judged(GOOD).check()


@pytest.mark.parametrize(
    ("followed", "cold", "seen"),
    [
        ({0: b"w:0", 2: b"w:2"}, None, "lost"),
        ({0: b"w:0", 1: b"w:2", 2: b"w:1"}, None, "disorder"),
        ({**GOOD, 3: b"w:1"}, None, "duplicates"),
        ({0: b"w:0", 1: b"w:1", 3: b"w:2"}, None, "gaps"),
        (GOOD, {**GOOD, 1: b"x:1"}, "conflicts"),
        (GOOD, {0: b"w:0"}, "conflicts"),
    ],
)
def test_each_kind_of_damage_is_seen(followed: dict[int, bytes], cold: dict[int, bytes] | None, seen: str) -> None:
    verdict = judged(followed, cold)
    assert getattr(verdict, seen)
    with pytest.raises(AssertionError):
        verdict.check()


def test_a_record_that_an_idempotent_writer_has_twice_is_named_with_its_places() -> None:
    verdict = judged({**GOOD, 3: b"w:1"})
    assert [str(one) for one in verdict.duplicates_idempotent] == ["b'w:1' at 0/1, 0/3"]
    assert "b'w:1' at 0/1, 0/3" in str(verdict)


@pytest.mark.parametrize(("end", "passes"), [((0, 3), True), ((0, 2), False), ((1, 3), False)])
def test_a_gap_may_be_where_the_test_says_and_nowhere_else(end: tuple[int, int], passes: bool) -> None:
    records = {0: b"w:0", 1: b"w:1", 3: b"w:2"}
    verdict = judged(records, acked=records)
    if passes:
        verdict.check(gap_ends={end})
    else:
        with pytest.raises(AssertionError, match="gaps"):
            verdict.check(gap_ends={end})
