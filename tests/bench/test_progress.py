"""The line of `make bench`: parts, and time left by what they took before."""

import sys

import pytest

from bench.progress import PartsProgress
from tests.support.terminal import Terminal


def test_a_part_takes_what_it_took_the_last_time_or_what_the_others_took() -> None:
    progress = PartsProgress(["a", "b"], {"a": 60.0, "b": 180.0})
    assert [progress.expected(name) for name in "abc"] == [60.0, 180.0, 120.0]
    assert PartsProgress(["a", "b"], {}).expected("a") == 0.0


def test_the_line_names_the_part_and_how_many_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    progress = PartsProgress(["a", "b"], {"a": 6000.0, "b": 2000.0})
    with progress.running("a"):
        assert "0 of 2 parts, a:   0%|" in out.getvalue()
    with progress.running("b"):
        assert "1 of 2 parts, b:   0%|" in out.getvalue()
    assert progress.expected("a") < 60.0
