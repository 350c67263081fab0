"""Progress is a line that a person reads in place, plain lines elsewhere, or JSON."""

from __future__ import annotations

import io
import json

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


def test_a_terminal_shows_one_line_that_changes() -> None:
    out = Terminal()
    progress = Progress("text", out)
    progress.begin(4000)
    progress.advance(1000)
    progress.advance(1000, lag=12)
    progress.note("done")
    progress.close()
    assert [" 25%|" in out.getvalue(), " 1000/4000 [" in out.getvalue()] == [True, True]
    assert " 50%|" in out.getvalue() and ", lag=12]" in out.getvalue()
    assert "\rdone\n" in out.getvalue()
    assert out.getvalue().endswith("\n")


def test_a_terminal_shows_records_of_a_step_that_is_under_way() -> None:
    out = Terminal()
    progress = Progress("text", out)
    progress.begin(4000)
    progress.running(1000)
    progress.running(900)  # a stage has ended, and the next one begins to count
    progress.advance(2000)
    progress.running(0)
    progress.close()
    lines = out.getvalue().split("\r")
    assert [line.rpartition("| ")[2].partition(" [")[0] for line in lines if "%" in line] == [
        "0/4000", "1000/4000", "1000/4000", "2000/4000", "2000/4000",
    ]  # fmt: skip


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
    progress.advance(10, lag=12)
    assert out.getvalue() == "10 records [00:01, 10.00 records/s, lag=12]\n"


def test_quiet_says_nothing() -> None:
    out = io.StringIO()
    Progress("quiet", out).note("anything")
    assert out.getvalue() == ""
