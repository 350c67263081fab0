"""What marks promise of timestamps holds, whatever order appends are stored in and whatever becomes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.codec import NO_TIMESTAMP
from bridge.storage.entries import NO_PROMISE, TimeMark
from bridge.storage.time_marks import TimeMarks
from tests.support.effort import examples


def loaded(newest: int = NO_TIMESTAMP, complete: int = 0, base: int = 0, end: int = 0) -> TimeMarks:
    marks = TimeMarks()
    marks.load(TimeMark(newest, complete), base, end)
    return marks


def test_an_append_promises_for_what_is_stored_and_not_for_what_is_on_its_way() -> None:
    marks = loaded()
    assert marks.start_append(50) == (50, 0)
    assert marks.start_append(30) == (50, 0)
    marks.note_stored(50, 0, 10)
    assert marks.start_append(20) == (50, 10)
    marks.note_stored(30, 10, 11)
    assert marks.start_append(60) == (60, 11)


def test_what_has_surely_failed_does_not_count_any_more() -> None:
    marks = loaded()
    marks.start_append(10)
    marks.start_append(99)
    marks.start_append(20)
    marks.note_failed(99, maybe_stored=False)
    assert marks.start_append(5).newest == 20
    marks.start_append(77)
    marks.note_failed(77, maybe_stored=True)
    assert marks.start_append(5).newest == 77


def test_a_hole_holds_the_promise_back_until_it_is_read() -> None:
    marks = loaded()
    marks.start_append(10)
    marks.note_stored(10, 5, 6)
    assert marks.hole == (0, 5)
    assert marks.start_append(1) == (10, 0)
    marks.fill(80, 0, 3)
    assert marks.hole == (3, 5)
    marks.fill(NO_TIMESTAMP, 3, 5)
    assert marks.hole is None
    assert marks.start_append(1) == (80, 6)


def test_too_large_a_hole_ends_all_promises() -> None:
    marks = loaded()
    marks.start_append(10)
    marks.note_stored(10, 1_000_000, 1_000_001)
    assert marks.hole is None
    assert marks.start_append(1).complete == NO_PROMISE
    marks.note_stored(1, 1_000_001, 1_000_002)
    assert marks.start_append(1).complete == NO_PROMISE


def test_a_log_goes_on_with_what_its_last_entry_promises() -> None:
    assert loaded(70, 100, 103, 105).hole == (100, 103)
    assert loaded(70, 103, 103, 105).start_append(1) == (70, 105)
    assert loaded(70, NO_PROMISE, 103, 105).start_append(1) == (70, NO_PROMISE)


@dataclass
class Log:
    """A log that stores in any order what is on its way, beside entries of others."""

    entries: list[tuple[int, int, TimeMark | None]] = field(default_factory=list)  # newest, records, mark
    end: int = 0

    def store(self, newest: int, records: int, mark: TimeMark | None) -> int:
        self.entries.append((newest, records, mark))
        self.end += records
        return self.end - records

    def check(self) -> None:
        """No record before what a mark says is newer than it says."""
        bases = [sum(records for _, records, _ in self.entries[:n]) for n in range(len(self.entries))]
        for newest, _, mark in self.entries:
            if mark is None:
                continue
            assert newest <= mark.newest
            before = [other for base, (other, _, _) in zip(bases, self.entries, strict=True) if base < mark.complete]
            assert max(before, default=NO_TIMESTAMP) <= mark.newest


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "place", "store", "store", "store late", "fail", "lose", "other", "fill"]),
        st.integers(0, 50),
        st.integers(1, 3),
    ),
    max_size=60,
)


@given(_STEPS)
@settings(max_examples=examples(500))
def test_promises_hold(steps: list[tuple[str, int, int]]) -> None:
    marks, log = loaded(), Log()
    under_way: list[tuple[int, int, TimeMark]] = []
    lost: list[tuple[int, int, TimeMark]] = []
    for what, number, records in steps:
        if what == "place":
            under_way.append((number, records, marks.start_append(number)))
        elif what == "other":
            log.store(number, records, None)
        elif what == "fill" and marks.hole is not None:
            _fill(marks, log)
        elif what == "store late" and lost:
            log.store(*lost.pop(number % len(lost)))
        elif under_way and what in ("store", "fail", "lose"):
            newest, count, mark = under_way.pop(number % len(under_way))
            if what == "store":
                base = log.store(newest, count, mark)
                marks.note_stored(newest, base, base + count)
            else:
                marks.note_failed(newest, maybe_stored=what == "lose")
                if what == "lose":
                    lost.append((newest, count, mark))
        log.check()


def _fill(marks: TimeMarks, log: Log) -> None:
    hole = marks.hole
    assert hole is not None
    base = 0
    for newest, records, mark in log.entries:
        if hole[0] < base + records and base < hole[1]:
            known = newest if mark is None else mark.newest
            marks.fill(known, max(base, hole[0]), min(base + records, hole[1]))
        base += records
