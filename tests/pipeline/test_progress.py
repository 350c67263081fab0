"""Progress is a line that a person reads in place, plain lines elsewhere, or JSON."""

from __future__ import annotations

import io
import json

import pytest

from bridge.pipeline.progress import Progress
from tests.support.terminal import Terminal, clock


def test_json_lines_have_rate_and_time_left() -> None:
    out = io.StringIO()
    progress = Progress("json", out, clock(0.0, 10.0, 15.0))
    progress.begin(1000)
    progress.advance(250, batch=3)
    progress.note("done", code=0)
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"event": "progress", "records": 250, "total": 1000, "rate": 50, "eta": 15.0, "batch": 3},
        {"event": "note", "text": "done", "code": 0},
    ]


def test_a_terminal_shows_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    progress = Progress("text", out, clock(0.0, 0.0, 2.0, 4.0))
    progress.begin(4000)
    progress.advance(1000)
    progress.advance(1000, lag=12_000)
    progress.note("done")
    lines = out.getvalue().split("\r\x1b[K")
    assert lines[1] == "[======                  ]  25 %  1,000 records of 4,000  500/s  6 s left"
    assert lines[2] == "[============            ]  50 %  2,000 records of 4,000  500/s  4 s left  lag 12,000\ndone\n"


def test_a_terminal_shows_records_of_a_step_that_is_under_way() -> None:
    out = Terminal()
    progress = Progress("text", out, clock(0.0, 0.0, 2.0, 4.0, 8.0))
    progress.begin(4000)
    progress.running(1000)
    progress.running(900)  # a stage has ended, and the next one begins to count
    progress.advance(2000)
    progress.running(0)
    lines = out.getvalue().split("\r\x1b[K")
    assert [line.partition("%  ")[2] for line in lines[1:]] == [
        "1,000 records of 4,000  500/s  6 s left",
        "1,000 records of 4,000  250/s  12 s left",
        "2,000 records of 4,000  250/s  8 s left",
    ]


def test_a_program_is_told_of_what_is_done_alone() -> None:
    out = io.StringIO()
    progress = Progress("json", out, clock(0.0, 0.0))
    progress.begin(4000)
    progress.running(1000)
    assert out.getvalue() == ""


def test_without_a_terminal_lines_follow_each_other() -> None:
    out = io.StringIO()
    progress = Progress("text", out, clock(0.0, 0.0, 1.0))
    progress.begin(None)
    progress.advance(10)
    assert out.getvalue() == "10 records  10/s\n"


def test_quiet_says_nothing() -> None:
    out = io.StringIO()
    Progress("quiet", out).note("anything")
    assert out.getvalue() == ""
